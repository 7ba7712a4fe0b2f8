"""``headrace config``: the configuration that flags and files come to, as a file of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from headrace.cli.configuration import Configuration, config_file_to_toml
from headrace.cli.serve_flags import make_parser, parse_arguments
from headrace.errors import SpecError

__all__ = ["run"]


def run(arguments: Sequence[str]) -> int:
    """Print the effective configuration in TOML; ``--config`` reads it back as the same.

    Returns:
        0.

    Raises:
        SystemExit: Status 2 after a usage message, in the cases in which ``headrace serve`` has it.
    """
    parser = make_parser("config", "Print the configuration that these flags of serve come to.")
    given = parse_arguments(parser, arguments)
    try:
        configuration = Configuration(given)
        values = configuration.given.values()
        mistakes = list(configuration.given.mistakes())
        if mistakes and values["strict"]:
            parser.error("; ".join(mistakes))
        text = config_file_to_toml(configuration.read(), values)
    except SpecError as error:
        parser.error(str(error))
    for warning in (*mistakes, *configuration.given.warnings()):
        print(f"headrace config: {warning}", file=sys.stderr)
    print(text, end="")
    return 0
