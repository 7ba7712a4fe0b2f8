"""The top of the command line: which command is meant. A command's module loads when it runs."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from headrace import __version__

__all__ = ["main"]

_COMMANDS = {
    "serve": "serve models over HTTP",
    "config": "print the configuration that flags and files come to",
    "predict": "send a JSON file or standard input to a server, and print the answer",
    "bench": "put a server under load, and print how many answers came and how late",
    "demo": "make a small model, serve it on this machine, and say what to try",
    "docs": "show a page of the documentation",
    "version": "print the version",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: What follows the program's name; None: from the process.

    Returns:
        The exit status: 0 is success, 2 a mistake on the command line; others are the command's.

    Raises:
        SystemExit: After a usage message or ``--help``, as argparse has it.
    """
    parsed = _parser().parse_args(arguments)
    try:
        if parsed.command == "version":
            print(f"headrace {__version__}")
            return 0
        command = importlib.import_module(f"headrace.cli.{parsed.command}")
        status: int = command.run(parsed.arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough; Python must not fail again as it closes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, _COMMANDS)) + 2
    listed = "\n".join(f"  {name:{width}}{what}" for name, what in _COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="headrace",
        usage="headrace [--help] [--version] COMMAND ...",
        description="A model server that speaks TensorFlow Serving's REST API.",
        epilog=f"commands:\n{listed}\n\n`headrace COMMAND --help` says more about each.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"headrace {__version__}")
    parser.add_argument("command", choices=_COMMANDS, metavar="COMMAND", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser
