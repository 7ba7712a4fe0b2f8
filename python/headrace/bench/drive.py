"""Carries out a process's part of a plan: connections, the clock, what is due and when."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

from headrace.bench.arrivals import arrival_times, share
from headrace.bench.exchange import Answers
from headrace.bench.plan import OpenLoop, Plan
from headrace.bench.record import LOST, NO_CONNECTION, TIMEOUT, Record
from headrace.bench.wake import WakeUp

__all__ = ["Drive"]

_RECONNECT_S = 0.1
# So many arrivals at a stretch, then answers are looked at again.
_MOST_AT_ONCE = 256


class _Request(NamedTuple):
    number: int
    due_at: float
    counts: bool


class _Connection(asyncio.Protocol):
    """One connection, with at most one request on its way."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self._answers = Answers()
        self._transport: asyncio.Transport | None = None
        self._sent_at = 0.0
        self.request: _Request | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are no subclasses
        self._drive.opened(self)

    def send(self, request: _Request, message: bytes) -> None:
        assert self._transport is not None
        self.request = request
        self._answers.expect()
        self._sent_at = time.monotonic()
        self._transport.write(message)

    def data_received(self, data: bytes) -> None:
        answers = self._answers
        try:
            answers.feed(data)
        except ValueError:
            self.abort()
            return
        if answers.complete and self.request is not None:
            request, self.request = self.request, None
            self._drive.answered(request, self._sent_at, answers.status, answers.body)
            if answers.keep_alive:
                self._drive.free(self)
            else:
                self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._drive.closed(self)

    def abort(self) -> None:
        """Break it off: an answer that comes too late must not be taken for the next one."""
        if self._transport is not None:
            self._transport.abort()


class _Arrivals:
    """Calls back for each arrival when it is due, until it is told that no more are wanted."""

    def __init__(
        self,
        start_at: float,
        arrivals: Iterator[tuple[int, float]],
        arrived: Callable[[int, float, float], bool],
    ) -> None:
        self._start_at, self._arrivals, self._arrived = start_at, arrivals, arrived
        self._number, self._offset = next(arrivals)
        self._wake = WakeUp()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._wake.descriptor, self._tick)
        self._wake.set(start_at + self._offset)

    def close(self) -> None:
        self._loop.remove_reader(self._wake.descriptor)
        self._wake.close()

    def _tick(self) -> None:
        now = time.monotonic()
        for _ in range(_MOST_AT_ONCE):
            due_at = self._start_at + self._offset
            if due_at > now:
                break
            if not self._arrived(self._number, due_at, now):
                self._loop.remove_reader(self._wake.descriptor)
                return
            self._number, self._offset = next(self._arrivals)
        self._wake.set(self._start_at + self._offset)


class Drive:
    """One run in one process, on an event loop of its own."""

    def __init__(self, plan: Plan, part: int) -> None:
        """Take a process's part of the plan for all of them."""
        self._whole, self._plan, self._part = plan, plan.part(part), part
        self._record = Record()
        self._context = plan.tls.context() if plan.tls else None
        self._connections: set[_Connection] = set()
        self._free: list[_Connection] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._late: deque[_Request] = deque()
        self._numbers = itertools.count(part, plan.processes)
        self._counted = 0
        self._began = self._exhausted = False
        self._count_from = self._until = 0.0
        self._in_flight = 0
        self._ended = asyncio.Event()

    async def connect(self) -> None:
        """Open the connections.

        Raises:
            OSError: The server does not take them.
        """
        await asyncio.gather(*(self._connect() for _ in range(self._plan.connections)))

    async def run(self, start_at: float) -> None:
        """Send requests from a time of `time.monotonic` on, until all are answered or given up."""
        self._count_from = start_at + self._plan.warmup_s
        duration = self._plan.duration_s
        self._until = self._count_from + duration if duration is not None else float("inf")
        await asyncio.sleep(max(0.0, start_at - time.monotonic()))
        self._began = True
        sweep = asyncio.create_task(self._give_up_the_overdue())
        arrivals = None
        try:
            if self._plan.open_loop is None:
                waiting, self._free = self._free, []
                for connection in waiting:
                    self.free(connection)
            else:
                arrivals = self._begin_arrivals(self._plan.open_loop, start_at)
            self._end_if_done()
            await self._ended.wait()
        finally:
            self._exhausted = True
            if arrivals is not None:
                arrivals.close()
            for task in [sweep, *self._opening]:
                task.cancel()
            for connection in list(self._connections):
                connection.abort()

    def stop(self) -> None:
        """Send nothing more."""
        self._exhausted = True
        self._late.clear()
        self._end_if_done()

    def take(self) -> Record:
        """What was recorded since the last call."""
        taken, self._record = self._record, Record()
        return taken

    # What connections tell.

    def opened(self, connection: _Connection) -> None:
        """It can have a request."""
        self._connections.add(connection)
        self.free(connection)

    def free(self, connection: _Connection) -> None:
        """It can have another."""
        request = self._next() if self._began else None
        if request is None:
            self._free.append(connection)
            self._end_if_done()
        else:
            messages = self._plan.messages
            self._in_flight += 1
            connection.send(request, messages[request.number % len(messages)])

    def answered(self, request: _Request, sent_at: float, status: int, body: bytes) -> None:
        """An answer has come."""
        self._in_flight -= 1
        if request.counts:
            now = time.monotonic()
            self._record.answered(status, body, due_at=request.due_at, sent_at=sent_at, now=now)

    def closed(self, connection: _Connection) -> None:
        """It is gone, whoever closed it."""
        self._connections.discard(connection)
        with contextlib.suppress(ValueError):
            self._free.remove(connection)
        if connection.request is not None:
            self._give_up(connection, connection.request, LOST)
        if not self._exhausted or self._late:
            task = asyncio.get_running_loop().create_task(self._reconnect())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
        self._end_if_done()

    # Which request is next.

    def _next(self) -> _Request | None:
        if self._plan.open_loop is not None:
            return self._late.popleft() if self._late else None
        if self._exhausted:
            return None
        now = time.monotonic()
        return self._due(next(self._numbers), now)

    def _due(self, number: int, at: float) -> _Request | None:
        """The request that is due at a time, or None where the run has all it wants."""
        counts = at >= self._count_from
        enough = self._plan.requests is not None and self._counted >= self._plan.requests
        if at >= self._until or enough:
            self._exhausted = True
            return None
        self._counted += counts
        return _Request(number, at, counts)

    def _begin_arrivals(self, loop_: OpenLoop, start_at: float) -> _Arrivals:
        times = arrival_times(loop_.arrivals, loop_.rate, loop_.seed)
        arrivals = share(times, self._part, self._whole.processes)
        return _Arrivals(start_at, arrivals, self._arrived)

    def _arrived(self, number: int, due_at: float, now: float) -> bool:
        """Take an arrival; False where no more are wanted."""
        request = self._due(number, due_at) if not self._exhausted else None
        if request is None:
            self._end_if_done()
            return False
        if request.counts:
            self._record.lateness.record(now - due_at)
        self._late.append(request)
        if self._free:
            self.free(self._free.pop())
        return True

    # What goes wrong.

    async def _connect(self) -> None:
        plan = self._plan
        await asyncio.get_running_loop().create_connection(
            lambda: _Connection(self), plan.host, plan.port, ssl=self._context
        )

    async def _reconnect(self) -> None:
        while not self._exhausted or self._late:
            try:
                await asyncio.wait_for(self._connect(), self._plan.timeout_s)
                return
            except (OSError, asyncio.TimeoutError):
                # A request that could not even be sent; else a dead server would look like an
                # idle one.
                if self._began and (request := self._next()) is not None:
                    self._fail(request, NO_CONNECTION)
                self._end_if_done()
                await asyncio.sleep(_RECONNECT_S)

    async def _give_up_the_overdue(self) -> None:
        timeout = self._plan.timeout_s
        while True:
            await asyncio.sleep(min(0.1, timeout / 10))
            oldest = time.monotonic() - timeout
            while self._late and self._late[0].due_at < oldest:
                self._fail(self._late.popleft(), TIMEOUT)
            for connection in list(self._connections):
                request = connection.request
                if request is not None and request.due_at < oldest:
                    self._give_up(connection, request, TIMEOUT)
                    connection.abort()
            self._end_if_done()

    def _give_up(self, connection: _Connection, request: _Request, failure: str) -> None:
        connection.request = None
        self._in_flight -= 1
        self._fail(request, failure)

    def _fail(self, request: _Request, failure: str) -> None:
        if request.counts:
            self._record.failed(failure, due_at=request.due_at, now=time.monotonic())

    def _end_if_done(self) -> None:
        if self._began and self._exhausted and not self._late and not self._in_flight:
            self._ended.set()
