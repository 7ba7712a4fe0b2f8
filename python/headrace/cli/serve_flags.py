"""The arguments of ``headrace serve``: read by the flag tables, with what to warn of.

TensorFlow Serving's syntax and two extensions: ``--name=value``, also ``--name value``; booleans
``--name``, ``--name=true``, ``--name=false``; dashes stand for underscores. Of a flag that is given
twice the last one counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace import __version__
from headrace.cli.flag_table import HEADRACE_FLAGS, TF_SERVING_FLAGS
from headrace.cli.flags import BOOLEAN, Flag
from headrace.config.nearest import did_you_mean

__all__ = ["FLAGS", "Given", "make_parser", "parse_arguments"]

FLAGS = {flag.name: flag for flag in (*HEADRACE_FLAGS, *TF_SERVING_FLAGS)}
"""Name to flag."""


@dataclass(frozen=True, slots=True)
class Given:
    """What stood on the command line.

    Attributes:
        flags: Flags that were given, with their values.
        unknown: Arguments that are no flag.
    """

    flags: Mapping[str, Any]
    unknown: tuple[str, ...] = ()

    def values(self) -> dict[str, Any]:
        """Every flag that is honoured, with its value or its default."""
        return {
            name: self.flags.get(name, flag.default)
            for name, flag in FLAGS.items()
            if not flag.ignored
        }

    def warnings(self) -> Iterator[str]:
        """One sentence for each flag that has no effect here."""
        for name, value in self.flags.items():
            flag = FLAGS[name]
            if flag.ignored and value not in flag.same:
                yield f"--{name} has no effect: {flag.ignored}"
        if self.flags.get("listen") and self.flags.get("rest_api_port"):
            yield "--rest_api_port has no effect: --listen says where to listen"

    def mistakes(self) -> Iterator[str]:
        """One sentence for each argument that is no flag."""
        for argument in self.unknown:
            name = argument.lstrip("-").partition("=")[0]
            if argument.startswith("--"):
                yield f"unknown flag --{name}{did_you_mean(name, FLAGS)}"
            else:
                yield f"unexpected argument {argument!r}; flags look like --name=value"


def parse_arguments(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> Given:
    """Read the arguments; a bad value ends the process by the parser's usage message, status 2."""
    known, unknown = parser.parse_known_args(_with_underscores(arguments))
    return Given(vars(known), tuple(unknown))


def make_parser(
    command: str = "serve", description: str = "Serve models over HTTP."
) -> argparse.ArgumentParser:
    """The parser; its namespace holds only the flags that were given."""
    prog = f"headrace {command}"
    parser = argparse.ArgumentParser(
        prog=prog,
        usage=f"{prog} --model_name=NAME --model_base_path=DIR [--rest_api_port=PORT] ...",
        description=description,
        epilog="BYTES take k, M or G (powers of 1024) behind the number. Dashes stand for "
        "underscores. `headrace docs moving-from-tensorflow-serving` compares with that server.",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"headrace {__version__}")
    honoured = [flag for flag in TF_SERVING_FLAGS if not flag.ignored]
    ignored = [flag for flag in TF_SERVING_FLAGS if flag.ignored]
    _add_group(parser, "TensorFlow Serving's flags", honoured)
    _add_group(parser, "Headrace's own flags", HEADRACE_FLAGS)
    _add_group(parser, "TensorFlow Serving's flags that are accepted without effect", ignored)
    return parser


def _add_group(parser: argparse.ArgumentParser, title: str, flags: Iterable[Flag]) -> None:
    group = parser.add_argument_group(title)
    for flag in flags:
        bare_boolean: dict[str, Any] = {"nargs": "?", "const": True} if flag.kind is BOOLEAN else {}
        group.add_argument(
            f"--{flag.name}",
            type=flag.kind.parse,
            metavar=flag.kind.word,
            help=_help(flag).replace("%", "%%"),
            **bare_boolean,
        )


def _help(flag: Flag) -> str:
    if flag.ignored:
        return flag.ignored
    return f"{flag.meaning} ({flag.shown_default})" if flag.shown_default else flag.meaning


def _with_underscores(arguments: Sequence[str]) -> list[str]:
    """``--model-name=a-b`` as ``--model_name=a-b``."""
    renamed = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name.startswith("--"):
            name = "--" + name[2:].replace("-", "_")
        renamed.append(name + equals + value)
    return renamed
