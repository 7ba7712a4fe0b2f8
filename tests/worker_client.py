"""What the serving layer does with a worker, in small: asks, takes replies, pushes again."""

from __future__ import annotations

import asyncio
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
        self._waiting: dict[int, tuple[asyncio.Future[Any], str]] = {}
        self._ids = itertools.count(1)
        self._loop = asyncio.get_running_loop()

    async def load(self, supervisor: Supervisor, path: Path, **spec: Any) -> Client:
        self.worker: Worker = await supervisor.load(
            WorkerSpec("model", 1, path, **spec), self.on_change
        )
        self._loop.add_reader(self.worker.port.doorbell, self._take, self.worker.port)
        return self

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
        self._loop.remove_reader(self.worker.port.doorbell)
        await self.worker.stop()

    def on_change(self, event: WorkerEvent) -> None:
        if isinstance(event, Replaced):
            self._replace(event.old_port, event.new_port)
        self.events.append(event)
        self._changed.set()

    def _replace(self, old: _core.FrontPort, new: _core.FrontPort) -> None:
        self._loop.remove_reader(old.doorbell)
        while self._take(old):
            pass
        decision = decide_after_death(old.unanswered())
        for request, alone in decision.again:
            new.push_again(old, request, alone=alone)
        for request in decision.give_up:
            self._waiting.pop(request)[0].set_exception(Failed("gave up", "two workers died"))
        self._loop.add_reader(new.doorbell, self._take, new)

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


def run_with(
    body: Callable[[Supervisor], Awaitable[T]], options: SupervisorOptions | None = None
) -> T:
    """Runs a test's coroutine with a supervisor that is closed after it, within a time limit."""

    async def main() -> T:
        supervisor = Supervisor(options)
        try:
            return await asyncio.wait_for(body(supervisor), LIMIT_S)
        finally:
            await supervisor.close()

    return asyncio.run(main())


def children() -> set[int]:
    """Processes that this one has started and not seen the end of."""
    task = Path("/proc/self/task") / str(os.getpid()) / "children"
    return {int(pid) for pid in task.read_text().split()}


def descriptors() -> list[str]:
    """What this process has open, apart from what the listing itself needs."""
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
