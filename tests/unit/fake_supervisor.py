"""A supervisor whose workers are nothing, for tests of what loads and unloads versions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from headrace.errors import LoadFailed
from headrace.server.model_watch import ModelSource
from headrace.server.models import ModelKeeper
from headrace.server.version_loader import VersionLoader
from headrace.serving.registry import Registry
from headrace.workers.supervisor import WorkerSpec

PATIENCE_S = 30.0


class FakeEndpoint:
    def __init__(self, worker: FakeWorker) -> None:
        self.worker = worker
        self.doorbell = os.eventfd(0)
        self.is_busy = False
        self.closed = ""

    def deliver(self) -> None:
        raise AssertionError("nobody rings")

    def close(self, reason: str) -> None:
        self.closed = reason
        os.close(self.doorbell)


class FakeWorker:
    def __init__(self, spec: WorkerSpec, supervisor: FakeSupervisor) -> None:
        self.spec = spec
        self._supervisor = supervisor

    async def stop(self) -> None:
        self._supervisor.happened(f"stopped {self.spec.name}")


class FakeSupervisor:
    """Loads at once, unless a directory holds ``broken``, or it was told to wait.

    Attributes:
        log: What happened, in order.
        gates: Versions, by ``model/version``, whose load waits for the event.
    """

    def __init__(self) -> None:
        self.log: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}

    def happened(self, what: str) -> None:
        self.log.append(what)

    async def load(self, spec: WorkerSpec, on_change: Callable[..., None]) -> FakeWorker:
        self.happened(f"loading {spec.name}")
        try:
            if spec.name in self.gates:
                await self.gates[spec.name].wait()
        except asyncio.CancelledError:
            self.happened(f"given up {spec.name}")
            raise
        if (spec.path / "bug").exists():
            raise RuntimeError("a bug")
        if (spec.path / "broken").exists():
            self.happened(f"failed {spec.name}")
            raise LoadFailed(f"{spec.path}: broken")
        self.happened(f"loaded {spec.name}")
        return FakeWorker(spec, self)


class Bench:
    """A keeper over a fake supervisor."""

    def __init__(self) -> None:
        self.supervisor = FakeSupervisor()
        self.registry: Registry = Registry()
        self.unloaded: list[tuple[str, FakeEndpoint]] = []
        self.loader = VersionLoader(
            self.supervisor,
            worker_spec=WorkerSpec,
            make_endpoint=FakeEndpoint,
            on_unload=lambda model, endpoint: self.unloaded.append((model, endpoint)),
            on_change=lambda: None,
        )
        self.keeper = ModelKeeper(self.registry, self.loader)

    def endpoints(self) -> list[FakeEndpoint]:
        return [endpoint for endpoint, _ in self.loader.running()]

    def states(self, model: str) -> dict[int, str]:
        return {n: v.state.value for n, v in self.registry.model(model).versions.items()}

    async def until(self, condition: Callable[[], object]) -> None:
        async def wait() -> None:
            while not condition():
                await asyncio.sleep(0.001)

        await asyncio.wait_for(wait(), PATIENCE_S)

    async def until_states(self, model: str, **states: str) -> None:
        """Wait for states such as ``v1="AVAILABLE"``."""
        wanted = {int(name[1:]): state for name, state in states.items()}
        await self.until(lambda: self.states(model) == wanted)


def run(body: Callable[[Bench], Awaitable[None]]) -> Bench:
    async def main() -> Bench:
        bench = Bench()
        try:
            await asyncio.wait_for(body(bench), PATIENCE_S)
        finally:
            await bench.keeper.close()
        return bench

    return asyncio.run(main())


def source(name: str, base_path: Path, **changes: object) -> ModelSource:
    """A source that is scanned all the time, and never retried unless asked for."""
    settings: dict[str, object] = {"poll_s": 0.002, "max_retries": 0, "retry_s": 0.0}
    return ModelSource(name, base_path, **{**settings, **changes})  # type: ignore[arg-type]


def add_version(base_path: Path, number: int, *files: str) -> Path:
    """A directory that appears with all its files at once, as a careful copy does."""
    base_path.mkdir(exist_ok=True)
    hidden = base_path / f".{number}"
    hidden.mkdir()
    for file in files:
        (hidden / file).touch()
    return hidden.rename(base_path / str(number))
