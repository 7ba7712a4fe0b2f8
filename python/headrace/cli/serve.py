"""``headrace serve``: flags in, a running server out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from headrace.cli.configuration import Configuration
from headrace.cli.logs import set_up_logging
from headrace.cli.serve_flags import make_parser, parse_arguments
from headrace.config import ModelConfig, ServerConfig
from headrace.errors import SpecError

__all__ = ["run"]

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
    try:
        configuration = Configuration(parse_arguments(parser, arguments))
    except SpecError as error:
        parser.error(str(error))
    given = configuration.given
    values = given.values()
    mistakes = list(given.mistakes())
    if mistakes and values["strict"]:
        parser.error("; ".join(mistakes))
    set_up_logging(values["log_level"])
    for warning in (*mistakes, *given.warnings()):
        _log.warning("%s", warning)
    try:
        config = configuration.read()
    except SpecError as error:
        parser.error(str(error))
    return serve(config, read_models=configuration.read_models)


def serve(
    config: ServerConfig,
    *,
    read_models: Callable[[], Sequence[ModelConfig]] | None = None,
    on_ready: Callable[[Sequence[str]], None] | None = None,
) -> int:
    """Run the server. It is imported here, so that ``--help`` and mistakes answer at once.

    Args:
        config: What to serve, and how.
        read_models: Reads the models anew; raises SpecError.
        on_ready: Called with the URLs when every model is available or has failed.
    """
    from headrace.server.assemble import front_end_options
    from headrace.server.run import serve as run_server

    return run_server(front_end_options(config, read_models), on_ready=on_ready)
