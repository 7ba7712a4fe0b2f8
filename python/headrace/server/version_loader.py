"""Starts and ends what answers for one model version: its worker, its endpoint, its doorbell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.serving.endpoint import Endpoint
from headrace.workers.supervisor import (
    Gone,
    Ready,
    Replaced,
    Supervisor,
    Worker,
    WorkerEvent,
    WorkerSpec,
)

__all__ = ["Loaded", "VersionLoader"]

# How often a version that is being unloaded is looked at, to see whether it is done.
_DRAIN_TICK_S = 0.02


@dataclass(frozen=True, slots=True)
class Loaded:
    """A version that answers.

    Attributes:
        endpoint: Where its requests go.
        worker: What runs it.
    """

    endpoint: Endpoint
    worker: Worker

    @property
    def path(self) -> Path:
        """The directory that it was loaded from."""
        return self.worker.spec.path


class VersionLoader:
    """Single-owner: the front end's loop."""

    def __init__(
        self,
        supervisor: Supervisor,
        *,
        worker_spec: Callable[[str, int, Path], WorkerSpec],
        make_endpoint: Callable[[Worker], Endpoint],
        on_unload: Callable[[str, Endpoint], None],
        on_change: Callable[[], None],
    ) -> None:
        """Join the parts.

        Args:
            supervisor: Starts and ends workers.
            worker_spec: What to start for a model, a version and its path.
            make_endpoint: What answers for a worker.
            on_unload: Called with a model's name and an endpoint that is about to go.
            on_change: Called when requests to an endpoint go elsewhere than before.
        """
        self._supervisor = supervisor
        self._worker_spec = worker_spec
        self._make_endpoint = make_endpoint
        self._on_unload = on_unload
        self._on_change = on_change
        self._workers: dict[Endpoint, Worker] = {}

    def running(self) -> list[tuple[Endpoint, Worker]]:
        """Every endpoint that may have calls waiting, those being unloaded too, with its worker."""
        return list(self._workers.items())

    async def load(self, model: str, version: int, path: Path) -> Loaded:
        """Start a worker for the version, and listen to it.

        Raises:
            LoadFailed: It cannot be loaded; nothing stays behind.
        """
        loop = asyncio.get_running_loop()
        endpoint: Endpoint | None = None

        def on_change(event: WorkerEvent) -> None:
            if endpoint is None:
                return
            match event:
                case Replaced(old_port, new_port):
                    loop.remove_reader(old_port.doorbell)
                    endpoint.replace(new_port)
                    loop.add_reader(endpoint.doorbell, endpoint.deliver)
                case Gone(reason=reason):
                    endpoint.suspend(f"the model's process cannot be started again: {reason}")
                case Ready():
                    endpoint.resume()
            self._on_change()

        worker = await self._supervisor.load(self._worker_spec(model, version, path), on_change)
        endpoint = self._make_endpoint(worker)
        loop.add_reader(endpoint.doorbell, endpoint.deliver)
        self._workers[endpoint] = worker
        return Loaded(endpoint, worker)

    async def unload(self, loaded: Loaded, *, drain_s: float) -> None:
        """Let what it runs finish for so long, then end its worker. New requests go elsewhere."""
        loop = asyncio.get_running_loop()
        endpoint = loaded.endpoint
        give_up = loop.time() + drain_s
        while endpoint.is_busy and loop.time() < give_up:
            await asyncio.sleep(_DRAIN_TICK_S)
        self._forget(endpoint)
        endpoint.close("the version is being unloaded")
        self._on_unload(loaded.worker.spec.model, endpoint)
        await loaded.worker.stop()

    def close(self) -> None:
        """Listen to none of them any more. Workers are the supervisor's to end."""
        for endpoint, _ in self.running():
            self._forget(endpoint)

    def _forget(self, endpoint: Endpoint) -> None:
        asyncio.get_running_loop().remove_reader(endpoint.doorbell)
        del self._workers[endpoint]
