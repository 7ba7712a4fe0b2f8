"""The log: one record per line on standard error."""

from __future__ import annotations

import logging
import sys
import time
from types import TracebackType

__all__ = ["LineFormatter", "set_up_logging"]

ExceptionInfo = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)

# Besides what breaks a line, what steers a terminal: messages quote bytes that clients sent.
_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


class LineFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.123Z WARNING headrace.server: message``; tracebacks are indented."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s")
        self.converter = time.gmtime
        self.datefmt = "%Y-%m-%dT%H:%M:%S"

    def formatMessage(self, record: logging.LogRecord) -> str:
        """One line, whatever the message holds."""
        return super().formatMessage(record).translate(_ESCAPES)

    def formatException(self, ei: ExceptionInfo) -> str:
        """Lines that no reader takes for records."""
        return "\n".join(f"    {line}" for line in super().formatException(ei).splitlines())


def set_up_logging(level: str) -> None:
    """Send the records of this process to standard error, from a level such as ``info`` on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
