"""What all connections of one listener share. Used from its event loop only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from email.utils import formatdate
from typing import TYPE_CHECKING, Final, TypeVar

from headrace._core import FastPath, Traffic
from headrace.server.body import BodyBudget
from headrace.server.head import Head, HeadCache
from headrace.server.limits import HttpLimits
from headrace.server.messages import JSON, Handler
from headrace.server.refusal import reason_phrase

if TYPE_CHECKING:
    from headrace.server.connection import HttpConnection

__all__ = ["Counters", "ListenerState"]

_RECEIVE_BYTES: Final = 64 << 10

A = TypeVar("A")
R = TypeVar("R")


class Counters(Traffic):
    """Totals since the start, for metrics.

    Attributes:
        connections: Accepted.
        connections_refused: Answered 503 at once, because there were too many.
        requests: Complete requests handed to the handler.
        bytes_received: From sockets.
        bytes_sent: Given to sockets.
        refusals: Status to the number of requests that were answered so before the handler.
        idle_closed: Connections closed by the idle timeout.
        stalled: Connections cut off because the client took no bytes.
    """

    __slots__ = ("connections", "connections_refused", "idle_closed", "refusals", "stalled")

    def __init__(self) -> None:
        self.connections = 0
        self.connections_refused = 0
        self.refusals: dict[int, int] = {}
        self.idle_closed = 0
        self.stalled = 0


class ListenerState:
    """Handler, limits, caches, counters and the coarse clock of a listener's connections.

    Attributes:
        handler: Called with each exchange.
        limits: The bounds.
        loop: The event loop.
        heads: Heads parsed before.
        refusal_headers: On every answer to a request that never reaches the handler.
        budget: Bytes of bodies that are held.
        connections: Those alive.
        counters: For metrics.
        now: Coarse clock, seconds, moved by ``tick``: reading it costs an attribute, and a timeout
            need not be more exact than the sweep that finds it.
        receive_memory: Where sockets are read into. One for all: a connection has consumed what was
            read before the loop reads again.
        fast: Their fast path, and the routes that it knows.
        json_starts: Status to ``start_of_answer`` of JSON, for this second.
        draining: Shutting down: each connection ends with the answer to the request it is in.
        emptied: Resolved, if there is one, when the last connection has gone.
    """

    def __init__(
        self,
        handler: Handler,
        limits: HttpLimits,
        loop: asyncio.AbstractEventLoop,
        *,
        admit: Callable[[Head], None] | None = None,
        refusal_headers: Sequence[tuple[bytes, bytes]] = (),
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.loop = loop
        self.heads = HeadCache(limits, admit)
        self.refusal_headers = refusal_headers
        self.budget = BodyBudget(limits)
        self.connections: set[HttpConnection] = set()
        self.counters = Counters()
        self.draining = False
        self.emptied: asyncio.Future[None] | None = None
        self.receive_memory = memoryview(bytearray(_RECEIVE_BYTES))
        self.fast = FastPath(self.receive_memory, self.counters)
        self._clock = clock
        self._wall_clock = wall_clock
        self.json_starts: dict[int, bytes] = {}
        self._starts: dict[tuple[int, bytes], bytes] = {}
        self._read_clocks()

    def tick(self) -> None:
        """Move the clock and the Date header, and see to connections whose time is over."""
        self._read_clocks()
        for connection in tuple(self.connections):
            connection.check(self.now)

    def _read_clocks(self) -> None:
        self.now = self.fast.now = self._clock()
        self.json_starts.clear()
        self._starts.clear()
        self.fast.answer_start = self.start_of_answer(200, JSON)

    def forget_routes(self) -> None:
        """What was concluded of models, ports or tokens may hold no more."""
        self.fast.clear()

    def forget(self, connection: HttpConnection) -> None:
        """Take note that a connection has gone."""
        self.connections.discard(connection)
        if self.emptied is not None and not self.connections and not self.emptied.done():
            self.emptied.set_result(None)

    def start_of_answer(self, status: int, content_type: bytes) -> bytes:
        """Status line and headers up to ``Content-Length: ``, made once per second."""
        start = self._starts.get((status, content_type))
        if start is None:
            start = b"%bContent-Type: %b\r\nDate: %b\r\nContent-Length: " % (
                _status_line(status),
                content_type,
                self._date(),
            )
            self._starts[status, content_type] = start
            if content_type == JSON:
                self.json_starts[status] = start
        return start

    def start_of_bare_answer(self, status: int) -> bytes:
        """Status line and Date of an answer that cannot have a body."""
        return b"%bDate: %b\r\n" % (_status_line(status), self._date())

    def _date(self) -> bytes:
        return formatdate(self._wall_clock(), usegmt=True).encode()

    def off_loop(self, work: Callable[[A], R], argument: A, then: Callable[[R], None]) -> None:
        """Do ``work`` on a thread, then call ``then`` with its result on the loop."""

        def done(future: asyncio.Future[R]) -> None:
            if not future.cancelled():
                then(future.result())

        future = self.loop.run_in_executor(None, work, argument)
        future.add_done_callback(done)


def _status_line(status: int) -> bytes:
    return f"HTTP/1.1 {status} {reason_phrase(status)}\r\n".encode()
