"""Request bodies that cannot be received in place: chunked, compressed, or both.

A body of known length without a coding never comes here; the connection receives it straight into
its buffer. Here bytes are decoded as they arrive: a *receiver* finds the end of the body on the
wire, a *sink* makes the content of it. Nothing is kept of the bytes as sent.
"""

from __future__ import annotations

import zlib
from typing import Final, Protocol

import httptools

from headrace.server.head import CHUNKED, HEAD_END, Head, body_too_large
from headrace.server.limits import HttpLimits
from headrace.server.refusal import RequestRefused
from headrace.server.zstd import ZstdInflater

__all__ = ["SLACK_BYTES", "BodyBudget", "ChunkedReceiver", "Receiver", "SizedReceiver", "receiver"]

SLACK_BYTES: Final = 64
"""Readable bytes after the end of a body that was not complete in its first read."""

# Inflated at a stretch. Small enough that the ceiling is met before much more has been allocated.
_INFLATE_STEP_BYTES: Final = 1 << 18
# What chunk sizes, extensions and trailers may take beyond the data: a client that sends each byte
# as a chunk of its own needs 5 a byte; twice that, and room for trailers, is still honest.
_FRAMING_PER_BYTE: Final = 10
_CHUNKED_HEAD: Final = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"


class BodyBudget:
    """Bytes of all bodies that are held now, over all connections of a listener."""

    __slots__ = ("_limits", "used")

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self.used = 0

    def take(self, size: int) -> None:
        """Count ``size`` bytes as held.

        Raises:
            RequestRefused: 503; nothing was counted.
        """
        if self.used + size > self._limits.max_total_body_bytes:
            raise RequestRefused(
                503,
                "request bodies being received have reached "
                f"{self._limits.max_total_body_bytes} bytes in all; try again",
                headers=((b"Retry-After", b"%d" % self._limits.retry_after_s),),
            )
        self.used += size

    def give_back(self, size: int) -> None:
        """Undo ``take``."""
        self.used -= size


class Sink(Protocol):
    """Makes the content of a body from the bytes on the wire, in pieces of any size."""

    charge: int
    """Bytes taken from the budget so far; whoever drops the content gives them back."""

    def write(self, data: bytes) -> None:
        """Take the next piece.

        Raises:
            RequestRefused: 400 corrupt, 413 too large, 503 no room.
        """

    def finish(self) -> memoryview:
        """The content, followed by ``SLACK_BYTES`` readable bytes. Ends the use of this sink.

        Raises:
            RequestRefused: 400, the body ends too early.
        """


class PlainSink:
    """Content that is what was sent."""

    __slots__ = ("_budget", "_content", "_limits", "charge")

    def __init__(self, limits: HttpLimits, budget: BodyBudget) -> None:
        self._limits = limits
        self._budget = budget
        self._content = bytearray()
        self.charge = 0

    def write(self, data: bytes) -> None:
        size = len(data)
        if len(self._content) + size > self._limits.max_body_bytes:
            raise body_too_large(self._limits)
        self._budget.take(size)
        self.charge += size
        self._content += data

    def finish(self) -> memoryview:
        size = len(self._content)
        self._content += bytes(SLACK_BYTES)
        return memoryview(self._content)[:size]


class InflatingSink:
    """Content that was sent with gzip, deflate or zstd, inflated piece by piece.

    ``deflate`` means the zlib format (RFC 9110 section 8.4.1.2); since some clients send a bare
    DEFLATE stream under that name, the first two bytes decide.
    """

    __slots__ = ("_coding", "_inflater", "_limits", "_plain", "_received", "_start")

    def __init__(self, coding: str, limits: HttpLimits, budget: BodyBudget) -> None:
        self._coding = coding
        self._limits = limits
        self._plain = PlainSink(limits, budget)
        self._received = 0
        self._start = b""
        self._inflater: zlib._Decompress | ZstdInflater | None = None

    @property
    def charge(self) -> int:
        return self._plain.charge

    @charge.setter
    def charge(self, size: int) -> None:
        self._plain.charge = size

    def write(self, data: bytes) -> None:
        if self._inflater is None:
            data = self._start + data
            if len(data) < 2:
                self._start = data
                return
            self._inflater = _inflater(self._coding, data)
        self._received += len(data)
        self._inflate(self._inflater, data)

    def _inflate(self, inflater: zlib._Decompress | ZstdInflater, data: bytes) -> None:
        while data:
            if inflater.eof:
                inflater = self._next_member(data)
            try:
                piece = inflater.decompress(data, _INFLATE_STEP_BYTES)
            except zlib.error as error:
                raise RequestRefused(400, f"the {self._coding} body is corrupt: {error}") from None
            self._plain.write(piece)
            self._check_ratio()
            data = inflater.unconsumed_tail or inflater.unused_data
            if not data and len(piece) == _INFLATE_STEP_BYTES:
                self._drain(inflater)

    def _drain(self, inflater: zlib._Decompress | ZstdInflater) -> None:
        """Fetch what the inflater still holds after its last input."""
        while piece := inflater.decompress(b"", _INFLATE_STEP_BYTES):
            self._plain.write(piece)
            self._check_ratio()

    def _next_member(self, data: bytes) -> zlib._Decompress | ZstdInflater:
        """A body may be several, one after the other (RFC 1952 section 2.2, RFC 8878 section 3)."""
        if self._coding == "deflate":
            raise RequestRefused(400, "bytes follow the end of the deflate body")
        self._inflater = inflater = _inflater(self._coding, data)
        return inflater

    def _check_ratio(self) -> None:
        inflated = self._plain.charge
        limits = self._limits
        if (
            inflated > limits.free_inflation_bytes
            and inflated > self._received * limits.max_inflation_ratio
        ):
            raise RequestRefused(
                413,
                f"the {self._coding} body inflates to more than "
                f"{limits.max_inflation_ratio} times its size",
            )

    def finish(self) -> memoryview:
        started = self._inflater is not None or self._start
        if started and (self._inflater is None or not self._inflater.eof):
            raise RequestRefused(400, f"the {self._coding} body is truncated")
        return self._plain.finish()


def _inflater(coding: str, data: bytes) -> zlib._Decompress | ZstdInflater:
    if coding == "zstd":
        return ZstdInflater()
    return zlib.decompressobj(_window_bits(coding, data))


def _window_bits(coding: str, data: bytes) -> int:
    if coding == "gzip":
        return 16 + zlib.MAX_WBITS
    zlib_format = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
    return zlib.MAX_WBITS if zlib_format else -zlib.MAX_WBITS


class Receiver(Protocol):
    """Finds the end of one body in the bytes of a connection and feeds its sink."""

    sink: Sink
    done: bool

    def receive(self, data: bytes, position: int) -> int:
        """Take the body's bytes from ``data[position:]``; yields the position after them.

        Raises:
            RequestRefused: As the sink does, and 400 for bad framing.
        """


class SizedReceiver:
    """A body of known length."""

    __slots__ = ("_remaining", "done", "sink")

    def __init__(self, size: int, sink: Sink) -> None:
        self._remaining = size
        self.sink = sink
        self.done = False

    def receive(self, data: bytes, position: int) -> int:
        """As `Receiver` says."""
        piece = data[position : position + self._remaining]
        self._remaining -= len(piece)
        self.done = self._remaining == 0
        self.sink.write(piece)
        return position + len(piece)


class ChunkedReceiver:
    """A chunked body, decoded by llhttp in its strict mode.

    llhttp does not say where in its input a message ended. But a chunked body ends with an empty
    line, so the input is cut after every CR LF CR LF, and the end can only be the end of a piece.
    """

    __slots__ = ("_allowance", "_parser", "_refusal", "_tail", "done", "sink")

    def __init__(self, limits: HttpLimits, sink: Sink) -> None:
        self.sink = sink
        self.done = False
        self._refusal: RequestRefused | None = None
        self._tail = b""
        self._allowance = limits.max_header_bytes
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._parser.feed_data(_CHUNKED_HEAD)

    def on_body(self, data: bytes) -> None:
        """Called by llhttp with a piece of a chunk's data."""
        self._allowance += len(data) * (1 + _FRAMING_PER_BYTE)
        try:
            self.sink.write(data)
        except RequestRefused as refusal:
            self._refusal = refusal
            raise

    def on_message_complete(self) -> None:
        """Called by llhttp at the end of the trailers."""
        self.done = True

    def receive(self, data: bytes, position: int) -> int:
        """As `Receiver` says."""
        size = len(data)
        while position < size and not self.done:
            end = self._piece_end(data, position)
            self._feed(data[position:end])
            position = end
        return position

    def _piece_end(self, data: bytes, position: int) -> int:
        """Just after the next empty line, which may have begun in bytes taken before."""
        tail = self._tail
        start = data[position : position + 3]
        across = (tail + start).find(HEAD_END)
        if across >= 0:
            self._tail = b""
            return position + across + len(HEAD_END) - len(tail)
        end = data.find(HEAD_END, position)
        end = len(data) if end < 0 else end + len(HEAD_END)
        self._tail = (tail + data[max(position, end - 3) : end])[-3:]
        return end

    def _feed(self, piece: bytes) -> None:
        self._allowance -= len(piece)
        assert self._parser is not None
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserCallbackError:
            self._parser = None
            if self._refusal is None:
                raise
            raise self._refusal from None
        except httptools.HttpParserError as error:
            self._parser = None
            raise RequestRefused(400, str(error), html=True) from None
        if self._allowance < 0:
            self._parser = None
            raise RequestRefused(431, "chunk extensions and trailers are too long")
        if self.done:
            self._parser = None  # it holds this object's methods: a cycle


def receiver(head: Head, limits: HttpLimits, budget: BodyBudget) -> Receiver:
    """What receives the body that ``head`` announces."""
    sink: Sink = PlainSink(limits, budget)
    if head.coding is not None:
        sink = InflatingSink(head.coding, limits, budget)
    if head.content_length == CHUNKED:
        return ChunkedReceiver(limits, sink)
    return SizedReceiver(head.content_length, sink)
