"""The far end of an `HttpConnection` without a socket, a clock or an event loop."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.server.connection import HttpConnection
from headrace.server.limits import HttpLimits
from headrace.server.messages import Exchange
from headrace.server.state import ListenerState

EPOCH = 784111777.0  # Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110


class FakeLoop:
    """Runs what was asked for when told to; threads run at once."""

    def __init__(self) -> None:
        self.ready: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self.threads = 0

    def call_soon(self, callback: Callable[..., object], *arguments: object) -> None:
        self.ready.append((callback, arguments))

    def run_in_executor(self, executor: None, work: Callable[..., Any], argument: object) -> Any:
        self.threads += 1
        future = FakeFuture(work(argument))
        self.call_soon(future.finish)
        return future

    def run(self) -> None:
        for _ in range(100):
            if not self.ready:
                return
            for _ in range(len(self.ready)):
                callback, arguments = self.ready.popleft()
                callback(*arguments)
        raise AssertionError("callbacks call one another for ever")


class FakeFuture:
    def __init__(self, result: object) -> None:
        self._result = result
        self._callbacks: list[Callable[[FakeFuture], object]] = []

    def add_done_callback(self, callback: Callable[[FakeFuture], object]) -> None:
        self._callbacks.append(callback)

    def finish(self) -> None:
        for callback in self._callbacks:
            callback(self)

    def result(self) -> object:
        return self._result

    def cancelled(self) -> bool:
        return False


class FakeTransport:
    """Keeps what is written; closes when the wire lets it."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.writes = 0
        self.reading = True
        self.closing = self.aborted = self.eof = False
        self.unsent = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.eof
        self.writes += 1
        self.written += data

    def writelines(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(parts))

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.eof = True

    def close(self) -> None:
        self.closing = True
        self.reading = False

    def abort(self) -> None:
        self.aborted = self.closing = True
        self.unsent = 0

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = not self.closing


@dataclass
class Answer:
    status: int
    headers: dict[bytes, bytes]
    body: bytes


def answers(written: bytes, heads: Iterable[int] = ()) -> list[Answer]:
    """What a client reads; ``heads`` are the positions of answers to HEAD."""
    found: list[Answer] = []
    while written:
        head, end, written = written.partition(b"\r\n\r\n")
        assert end, head
        line, *lines = head.split(b"\r\n")
        match = re.fullmatch(rb"HTTP/1\.1 (\d{3}) .+", line)
        assert match, line
        headers = dict(cast("list[tuple[bytes, bytes]]", [h.split(b": ", 1) for h in lines]))
        assert len(headers) == len(lines), lines
        size = 0 if len(found) in heads else int(headers.get(b"Content-Length", b"0"))
        if not written and b"Connection" in headers:
            size = 0  # the refusal of a HEAD, which no handler has seen, is the last answer
        assert len(written) >= size
        found.append(Answer(int(match[1]), headers, written[:size]))
        written = written[size:]
    return found


@dataclass
class Seen:
    """One request as the handler saw it."""

    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass
class Wire:
    """A connection, its client's side and its handler.

    Attributes:
        handler: Called with each exchange; None answers 200 ``ok`` at once.
    """

    limits: HttpLimits = field(default_factory=HttpLimits)
    handler: Callable[[Exchange], None] | None = None

    def __post_init__(self) -> None:
        self.now = 1000.0
        self.loop = FakeLoop()
        self.state = ListenerState(
            self._handle,
            self.limits,
            cast(asyncio.AbstractEventLoop, self.loop),
            clock=lambda: self.now,
            wall_clock=lambda: EPOCH,
        )
        self.seen: list[Seen] = []
        self.exchanges: list[Exchange] = []
        self.connect()

    def connect(self) -> None:
        self.transport = FakeTransport()
        self.connection = HttpConnection(self.state)
        self.unread = bytearray()
        self.lost = False
        self.connection.connection_made(cast(asyncio.Transport, self.transport))

    def _handle(self, exchange: Exchange) -> None:
        request = exchange.request
        body = bytes(request.body)
        self.seen.append(Seen(request.method, request.target, list(request.headers), body))
        self.exchanges.append(exchange)
        if self.handler is None:
            exchange.respond(200, b"ok")
        else:
            self.handler(exchange)

    def send(self, *chunks: bytes) -> None:
        """Bytes arrive, each chunk in a read of its own (or more, where the buffer is short)."""
        for chunk in chunks:
            self.unread += chunk
            self.settle()

    def settle(self) -> None:
        """Let the loop turn until nothing moves."""
        while True:
            self.loop.run()
            if self.transport.closing and not self.lost and not self.transport.unsent:
                self.lost = True
                self.connection.connection_lost(None)
            if self.lost or not self.transport.reading or not self.unread:
                if self.loop.ready:
                    continue
                return
            buffer = self.connection.get_buffer(1 << 16)
            count = min(len(buffer), len(self.unread))
            assert count > 0
            buffer[:count] = self.unread[:count]
            del self.unread[:count]
            self.connection.buffer_updated(count)
            # The memory is shared: whatever was not copied out of it is lost.
            if self.connection.get_buffer(1 << 16).obj is self.state.receive_memory.obj:
                self.state.receive_memory[:] = b"\xee" * len(self.state.receive_memory)

    def end_of_input(self) -> None:
        """The client closes its side."""
        if not self.connection.eof_received():
            self.transport.close()
        self.settle()

    def pass_time(self, seconds: float) -> None:
        """The sweep runs as often as it would."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + self.limits.tick_s)
            self.state.tick()
            self.settle()

    @property
    def ended(self) -> bool:
        """The client has been told that no more answers come."""
        return self.transport.closing or self.transport.eof

    @property
    def answers(self) -> list[Answer]:
        heads = [i for i, seen in enumerate(self.seen) if seen.method == b"HEAD"]
        return answers(bytes(self.transport.written).replace(CONTINUE, b""), heads)

    @property
    def statuses(self) -> list[int]:
        return [answer.status for answer in self.answers]


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
