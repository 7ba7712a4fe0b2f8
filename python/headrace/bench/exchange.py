"""One HTTP/1.1 connection seen from the client, without I/O: a request, its answer, the next."""

from __future__ import annotations

import httptools

__all__ = ["Answers"]

_KEPT_BYTES = 500


class Answers:
    """Reads answers as they come, one for each request that was sent.

    Attributes:
        complete: Whether the last answer has ended and nothing else has begun.
        status: Of the last answer.
        body: The beginning of its body, where its status is not 2xx.
        keep_alive: Whether the connection may have another request.
    """

    __slots__ = ("_parser", "body", "complete", "keep_alive", "status")

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.complete = True
        self.status = 0
        self.body = b""
        self.keep_alive = True

    def expect(self) -> None:
        """A request is sent: an answer is to come."""
        self.complete = False

    def feed(self, data: bytes) -> None:
        """Read what came.

        Raises:
            ValueError: It is no HTTP, or nothing was asked for.
        """
        if self.complete:
            raise ValueError("an answer that nothing asked for")
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ValueError(f"the answer is no HTTP: {error}") from error

    # What the parser calls.

    def on_message_begin(self) -> None:
        """An answer begins."""
        if self.complete:
            raise ValueError("an answer that nothing asked for")
        self.body = b""

    def on_headers_complete(self) -> None:
        """Its head is there."""
        self.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        """A part of its body."""
        if not 200 <= self.status < 300 and len(self.body) < _KEPT_BYTES:
            self.body += data[: _KEPT_BYTES - len(self.body)]

    def on_message_complete(self) -> None:
        """It has ended."""
        if self.status >= 200:  # else it is 100 Continue or the like, and the answer follows
            self.complete = True
            self.keep_alive = self._parser.should_keep_alive()
