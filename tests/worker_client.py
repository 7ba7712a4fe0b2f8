"""What the serving layer does with a worker, in small: asks, takes replies, pushes again."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from headrace import _core
from headrace.serving.retry import decide_after_death
from headrace.workers.supervisor import (
    Replaced,
    Supervisor,
    SupervisorOptions,
    Worker,
    WorkerEvent,
    WorkerSpec,
)

T = TypeVar("T")

LIMIT_S = 120.0
_DECODE = _core.DecodeOptions()
_ENCODE = _core.EncodeOptions()


class Failed(Exception):
    """An error record, or a request that was given up."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Client:
    """One worker and who waits for it. Used inside an event loop."""

    def __init__(self) -> None:
        self.events: list[WorkerEvent] = []
        self._changed = asyncio.Event()
        self._listening: _core.FrontPort | None = None
        self._waiting: dict[int, tuple[asyncio.Future[Any], str]] = {}
        self._ids = itertools.count(1)
        self._loop = asyncio.get_running_loop()

    def attach(self, worker: Worker) -> None:
        self.worker = worker
        self._listen(worker.port)

    def ask(self, *instances: object, signature: str = "serving_default") -> asyncio.Future[Any]:
        """The ``predictions`` to come."""
        return self._ask({"signature_name": signature, "instances": instances}, "predictions")

    def ask_columns(self, inputs: object, signature: str) -> asyncio.Future[Any]:
        """The ``outputs`` to come."""
        return self._ask({"signature_name": signature, "inputs": inputs}, "outputs")

    async def until(self, kind: type[WorkerEvent], count: int = 1) -> None:
        """Waits for the ``count``-th event of a kind."""
        while sum(isinstance(event, kind) for event in self.events) < count:
            self._changed.clear()
            await self._changed.wait()

    async def stop(self) -> None:
        self._listen(None)
        await self.worker.stop()

    def on_change(self, event: WorkerEvent) -> None:
        if isinstance(event, Replaced):
            self._replace(event.old_port, event.new_port)
        self.events.append(event)
        self._changed.set()

    def _replace(self, old: _core.FrontPort, new: _core.FrontPort) -> None:
        while self._take(old):
            pass
        decision = decide_after_death(old.unanswered())
        for request, alone in decision.again:
            new.push_again(old, request, alone=alone)
        for request in decision.give_up:
            self._waiting.pop(request)[0].set_exception(Failed("gave up", "two workers died"))
        self._listen(new)

    def _listen(self, port: _core.FrontPort | None) -> None:
        if self._listening is not None:
            self._loop.remove_reader(self._listening.doorbell)  # before the port is closed
        if port is not None:
            self._loop.add_reader(port.doorbell, self._take, port)
        self._listening = port

    def _ask(self, body: object, key: str) -> asyncio.Future[Any]:
        request = next(self._ids)
        text = json.dumps(body).encode()
        self.worker.port.submit(request, text, decode=_DECODE, encode=_ENCODE, deadline_ns=0)
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._waiting[request] = answer, key
        return answer

    def _take(self, port: _core.FrontPort) -> int:
        replies = port.take_replies()
        for request, kind, payload in replies:
            answer, key = self._waiting.pop(request)
            if answer.done():
                continue
            if kind == 2:
                code, _, message = payload
                answer.set_exception(Failed(code, message))
                continue
            text = payload if kind == 0 else payload.encode()
            answer.set_result(json.loads(text)[key])
        return len(replies)


class Session:
    """A supervisor and its event loop, for one test or for several that share a warm parent."""

    def __init__(
        self,
        options: SupervisorOptions | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._loop = loop or asyncio.new_event_loop()
        self._supervisor = Supervisor(options)
        self._clients: list[Client] = []

    async def load(self, path: Path, client: Client | None = None, **spec: Any) -> Client:
        """A client of a worker that has loaded the model at ``path``."""
        client = client or Client()
        worker = await self._supervisor.load(WorkerSpec("model", 1, path, **spec), client.on_change)
        client.attach(worker)
        self._clients.append(client)
        return client

    def run(self, body: Callable[[Session], Awaitable[T]]) -> T:
        """Runs a test's coroutine within a time limit, then stops the workers it has loaded."""
        return self._loop.run_until_complete(asyncio.wait_for(self._run(body), LIMIT_S))

    def close(self) -> None:
        self._loop.run_until_complete(self._supervisor.close())
        self._loop.close()

    async def _run(self, body: Callable[[Session], Awaitable[T]]) -> T:
        try:
            return await body(self)
        finally:
            while self._clients:
                await self._clients.pop().stop()


def run_with(
    body: Callable[[Session], Awaitable[T]], options: SupervisorOptions | None = None
) -> T:
    """Runs a test's coroutine with a supervisor of its own."""
    session = Session(options)
    try:
        return session.run(body)
    finally:
        session.close()


def children() -> set[int]:
    """Processes that this one has started and not seen the end of."""
    task = Path("/proc/self/task") / str(os.getpid()) / "children"
    return {int(pid) for pid in task.read_text().split()}


def descriptors() -> list[str]:
    """What this process has open, apart from what the listing itself needs."""
    gc.collect()  # an exception's traceback may still hold what was closed long ago
    names = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{entry}").split(":")[0])
        except FileNotFoundError:
            continue
    return sorted(names)


async def gather(answers: Iterable[Awaitable[T]]) -> list[T | BaseException]:
    """Results and failures, in order."""
    return await asyncio.gather(*answers, return_exceptions=True)
