from __future__ import annotations

import logging
import sys

from headrace.cli.logs import LineFormatter


def record(message: str, *arguments: object, raised: bool = False) -> logging.LogRecord:
    made = logging.LogRecord("headrace.x", logging.WARNING, "", 0, message, arguments, None)
    made.created, made.msecs = 1_700_000_000.25, 250
    if raised:
        made.exc_info = sys.exc_info()
    return made


def test_record_is_one_line_in_utc() -> None:
    assert LineFormatter().format(record("hello %s", "you")) == (
        "2023-11-14T22:13:20.250Z WARNING headrace.x: hello you"
    )


def test_message_can_neither_forge_a_line_nor_steer_the_terminal() -> None:
    line = LineFormatter().format(record("a\n2023 ERROR x: forged\r\x1b[31m\x9b"))
    assert line.endswith(r"a\x0a2023 ERROR x: forged\x0d\x1b[31m\x9b")


def test_traceback_is_indented() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        lines = LineFormatter().format(record("failed", raised=True)).splitlines()
    assert lines[0].endswith("headrace.x: failed")
    assert lines[-1] == "    second"
    assert all(line.startswith("    ") for line in lines[1:])
