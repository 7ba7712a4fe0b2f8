"""One request and its answer, as a handler sees them."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from headrace.errors import LocalProtocolError
from headrace.server.head import Head

if TYPE_CHECKING:
    from headrace._core import FastPath
    from headrace.server.connection import HttpConnection

__all__ = ["JSON", "Body", "Exchange", "Handler", "Request"]

JSON: Final = b"application/json"
Body = bytes | bytearray | memoryview

# Up to this size a body is copied behind its headers: one buffer, one write. Above, both go to the
# transport as they are, which hands them to the kernel together.
_JOINED_BYTES: Final = 16 << 10
# Larger bodies are compressed on a thread (zlib releases the GIL): this many take about 0.5 ms.
_INLINE_GZIP_BYTES: Final = 64 << 10
_GZIP_LEVEL: Final = 1
_GZIP_WINDOW_BITS: Final = 16 + zlib.MAX_WBITS
# Ends of a head for the commonest lengths: formatting one takes longer than joining the answer.
_MOST_LENGTHS: Final = 1024
_LENGTHS: Final = tuple(b"%d\r\n\r\n" % size for size in range(_MOST_LENGTHS))
_NO_BODY: Final = frozenset((204, 304))
# What nginx made customary for a client that closed its connection before the answer.
_CLIENT_GONE: Final = 499


class Request:
    """What a client asked for.

    Attributes:
        method: Such as ``b"POST"``.
        target: Path, query and fragment as sent, not percent-decoded.
        body: One contiguous buffer. ``bytes`` where it came in one read, else a view.
        slack: Readable bytes after the body's end, in the memory that the body's buffer is part
            of; 0 or 64.
        head: The rest: headers, HTTP version. Shared with other requests; not to be changed.
    """

    __slots__ = ("body", "head", "method", "slack", "target")

    def __init__(self, head: Head, body: Body, slack: int) -> None:
        self.head = head
        self.method = head.method
        self.target = head.target
        self.body = body
        self.slack = slack

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Header lines in order, names in lower case. Not to be changed."""
        return self.head.headers

    @property
    def http_version(self) -> tuple[int, int]:
        """Major and minor."""
        return self.head.http_version

    @property
    def keep_alive(self) -> bool:
        """Whether the client wants the connection kept."""
        return self.head.keep_alive

    def header(self, name: bytes) -> bytes | None:
        """Value of the first header of this name (lower case), or None."""
        return next((value for key, value in self.head.headers if key == name), None)


class Exchange:
    """One request and the place for its answer. Used from the event loop only.

    Exactly one ``respond`` is wanted, at once or later. Answers of pipelined requests may come in
    any order; the connection sends them in the order of the requests.

    Attributes:
        request: The request.
        closed: The client has gone: nobody waits for the answer, and ``respond`` does nothing.
        began_ns: When the request was complete, by ``time.monotonic_ns()``.
        receive_ns: How long it took to come, from its first byte; 0 if it came in one piece.
        on_disconnect: Called once, without arguments, if the client goes before the answer.
        keep_alive, plain, charge, parts: The connection's: whether it goes on after the answer, and
            then without saying so; bytes of the body that count against the budget; the answer's
            bytes while answers of earlier requests are outstanding.
    """

    __slots__ = (
        "_connection",
        "began_ns",
        "charge",
        "closed",
        "keep_alive",
        "on_disconnect",
        "parts",
        "plain",
        "receive_ns",
        "request",
    )

    def __init__(
        self, connection: HttpConnection, request: Request, keep_alive: bool, charge: int
    ) -> None:
        self._connection: HttpConnection | None = connection
        self.keep_alive = keep_alive
        self.plain = keep_alive and request.head.plain
        self.charge = charge
        self.parts: list[Body] | None = None
        self.request = request
        self.began_ns = time.monotonic_ns()
        self.receive_ns = 0
        self.closed = False
        self.on_disconnect: Callable[[], None] | None = None

    @property
    def answered(self) -> bool:
        """Whether ``respond`` has been called."""
        return self._connection is None and not self.closed

    @property
    def fast(self) -> FastPath | None:
        """The fast path of its listener; None once it is answered."""
        return None if self._connection is None else self._connection.state.fast

    def wants_route(self) -> bool:
        """Whether its head has come before, and is to be given a route of the fast path now.

        Not at once, for a head with an id of its own in it never comes again.
        """
        head, fast = self.request.head, self.fast
        if fast is None or head.route_generation == fast.generation:
            return False
        is_known = head.route_generation >= 0
        head.route_generation = fast.generation if is_known else 0
        return is_known

    @property
    def max_plain_answer_bytes(self) -> int:
        """Answers up to this size are sent as they are, in one piece with their head."""
        limits = None if self._connection is None else self._connection.state.limits
        least = limits.gzip_min_bytes if limits and self.request.head.accepts_gzip else None
        return _JOINED_BYTES if least is None else min(_JOINED_BYTES, least - 1)

    def respond(
        self,
        status: int,
        body: Body,
        *,
        content_type: bytes = JSON,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """Answer the request.

        ``body`` belongs to the connection from now on and must not change. ``headers`` are sent
        beside Content-Type, Date and Content-Length; ``Connection: close`` among them makes this
        the connection's last answer.

        Raises:
            LocalProtocolError: The exchange has its answer already.
        """
        connection = self._connection
        if connection is None:
            if self.closed:
                return
            raise LocalProtocolError("a request was answered twice")
        self._connection = None
        self.on_disconnect = None
        meter = self.request.head.meter
        if meter is not None:
            if status == 200:
                meter.succeeded(time.monotonic_ns() - self.began_ns)
            else:
                meter.failed(status)
        if self.request.head.accepts_gzip and connection.worth_gzip(body, headers):
            self._compress(connection, status, body, content_type, headers)
            return
        size = len(body)
        if self.plain and not headers and size <= _JOINED_BYTES and status not in _NO_BODY:
            state = connection.state
            start = state.json_starts.get(status) if content_type is JSON else None
            if start is None:
                start = state.start_of_answer(status, content_type)
            length = _LENGTHS[size] if size < _MOST_LENGTHS else b"%d\r\n\r\n" % size
            connection.answer_plain(self, start + length + body)
        else:
            connection.answer(self, self._parts(connection, status, body, content_type, headers))

    def release_body(self) -> None:
        """Let go of the request's body, once it is not needed any more, before the answer."""
        self.request.body = b""
        self.request.slack = 0
        if self.charge and self._connection is not None:
            self._connection.state.budget.give_back(self.charge)
            self.charge = 0

    def _parts(
        self,
        connection: HttpConnection,
        status: int,
        body: Body,
        content_type: bytes,
        headers: Sequence[tuple[bytes, bytes]],
    ) -> list[Body]:
        if status in _NO_BODY:
            lines = [connection.state.start_of_bare_answer(status)]
        else:
            start = connection.state.start_of_answer(status, content_type)
            lines = [start, b"%d\r\n" % len(body)]
        for name, value in headers:
            if name.lower() == b"connection":
                self.keep_alive = self.keep_alive and value.lower() != b"close"
            else:
                lines.append(b"%b: %b\r\n" % (name, value))
        if not self.keep_alive:
            lines.append(b"Connection: close\r\n")
        elif self.request.head.http_version == (1, 0):
            lines.append(b"Connection: keep-alive\r\n")
        lines.append(b"\r\n")
        if self.request.head.is_head or status in _NO_BODY:
            body = b""
        if len(body) <= _JOINED_BYTES:
            return [b"".join([*lines, body])]
        return [b"".join(lines), body]

    def _compress(
        self,
        connection: HttpConnection,
        status: int,
        body: Body,
        content_type: bytes,
        headers: Sequence[tuple[bytes, bytes]],
    ) -> None:
        headers = [*headers, (b"Content-Encoding", b"gzip"), (b"Vary", b"Accept-Encoding")]

        def send(compressed: bytes) -> None:
            if not self.closed:
                parts = self._parts(connection, status, compressed, content_type, headers)
                connection.answer(self, parts)

        if len(body) <= _INLINE_GZIP_BYTES:
            send(_gzip(body))
        else:
            connection.state.off_loop(_gzip, body, send)

    def disconnect(self) -> None:
        """Called by the connection when the client has gone before the answer."""
        self.closed = True
        self._connection = None
        if self.request.head.meter is not None:
            self.request.head.meter.failed(_CLIENT_GONE)
        callback, self.on_disconnect = self.on_disconnect, None
        if callback is not None:
            callback()


Handler = Callable[[Exchange], None]
"""Called on the event loop with each request, once it is complete."""


def _gzip(body: Body) -> bytes:
    compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW_BITS)
    return compressor.compress(body) + compressor.flush()
