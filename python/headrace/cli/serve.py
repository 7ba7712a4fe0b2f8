"""``headrace serve``: flags in, a running server out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from headrace.cli.logs import set_up_logging
from headrace.cli.serve_flags import Given, make_parser, parse_arguments
from headrace.config import (
    ServerConfig,
    parse_model_config,
    parse_monitoring_config,
    server_config,
)
from headrace.errors import SpecError

__all__ = ["run"]

T = TypeVar("T")

_log = logging.getLogger(__name__)


def run(arguments: Sequence[str]) -> int:
    """Serve until told to stop.

    Returns:
        0 after SIGTERM or an interrupt; otherwise the server's own status.

    Raises:
        SystemExit: Status 2 after a usage message: a bad value, flags that make no sense together,
            or with ``--strict`` an unknown flag.
    """
    parser = make_parser()
    given = parse_arguments(parser, arguments)
    values = given.values()
    mistakes = list(given.mistakes())
    if mistakes and values["strict"]:
        parser.error("; ".join(mistakes))
    set_up_logging(values["log_level"])
    for warning in (*mistakes, *given.warnings()):
        _log.warning("%s", warning)
    try:
        config = _configuration(given)
    except SpecError as error:
        parser.error(str(error))
    return serve(config)


def serve(config: ServerConfig) -> int:
    """Run the server. It is imported here, so that ``--help`` and mistakes answer at once."""
    from headrace.server.assemble import front_end_options
    from headrace.server.run import serve as run_server

    return run_server(front_end_options(config))


def _configuration(given: Given) -> ServerConfig:
    values = given.values()
    return server_config(
        values,
        _parse_file(values, "model_config_file", parse_model_config),
        _parse_file(values, "monitoring_config_file", parse_monitoring_config),
    )


def _parse_file(values: Mapping[str, Any], flag: str, parse: Callable[[str], T]) -> T | None:
    """What is in the file that a flag names; None where it names none."""
    if not (path := values[flag]):
        return None
    try:
        return parse(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"--{flag}={path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"--{flag}={path}: byte {error.start} is not UTF-8") from error
    except SpecError as error:
        raise SpecError(f"--{flag}={path}: {error}") from error
