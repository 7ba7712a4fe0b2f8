"""Keeps what is served in step with what lies on disk: scans, loads, retries, unloads.

Each model has a task of its own, so a model that is slow to load or broken delays no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import LoadFailed
from headrace.serving.endpoint import Endpoint
from headrace.serving.lifecycle import State, next_actions
from headrace.serving.registry import Model, Registry, Version
from headrace.serving.versions import Latest, Policy, aspired_versions, scan
from headrace.workers.supervisor import Replaced, Supervisor, Worker, WorkerEvent, WorkerSpec

__all__ = ["ModelKeeper", "ModelSource"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ModelSource:
    """One configured model.

    Attributes:
        name: As in the URL.
        base_path: Directory of numbered versions, or a model itself.
        policy: Which of the versions found to serve.
        labels: Label to version number.
        poll_s: Seconds between scans; None: one scan.
        max_retries: Loads tried again after the first failure of a version.
        retry_s: Seconds between them.
        drain_s: Seconds that a version being unloaded has to finish what it runs.
    """

    name: str
    base_path: Path
    policy: Policy = field(default_factory=Latest)
    labels: dict[str, int] = field(default_factory=dict)
    poll_s: float | None = 1.0
    max_retries: int = 5
    retry_s: float = 60.0
    drain_s: float = 30.0


class ModelKeeper:
    """Owner of the tasks that load and unload. Lives on the front end's loop."""

    def __init__(
        self,
        sources: Sequence[ModelSource],
        registry: Registry[Endpoint],
        supervisor: Supervisor,
        *,
        worker_spec: Callable[[str, int, Path], WorkerSpec],
        make_endpoint: Callable[[Worker], Endpoint],
        on_unload: Callable[[str, Endpoint], None],
    ) -> None:
        self._sources = sources
        self._registry = registry
        self._supervisor = supervisor
        self._worker_spec = worker_spec
        self._make_endpoint = make_endpoint
        self._on_unload = on_unload
        self._workers: dict[tuple[str, int], Worker] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        registry.configure(source.name for source in sources)

    async def start(self) -> None:
        """Return when every model is available or has failed; go on watching in the background."""
        firsts = []
        for source in self._sources:
            model = self._registry.model(source.name)
            model.labels = source.labels
            first = asyncio.get_running_loop().create_future()
            firsts.append(first)
            self._spawn(self._watch(source, model, first))
        await asyncio.gather(*firsts)

    async def close(self) -> None:
        """Stop watching. Workers are the supervisor's to end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def endpoints(self) -> list[Endpoint]:
        """Every endpoint that may have calls waiting."""
        return [
            version.endpoint
            for model in self._registry
            for version in model.versions.values()
            if version.endpoint is not None
        ]

    def running(self) -> Iterator[tuple[Endpoint, Worker]]:
        """Every endpoint with the worker behind it."""
        for (name, number), worker in self._workers.items():
            endpoint = self._registry.model(name).versions[number].endpoint
            if endpoint is not None:
                yield endpoint, worker

    async def _watch(
        self, source: ModelSource, model: Model[Endpoint], first: asyncio.Future[None]
    ) -> None:
        paths: dict[int, Path] = {}
        while True:
            found = await asyncio.to_thread(scan, source.base_path)
            paths.update(found.versions)
            self._note(model, found.explanation, found.warning)
            aspired = aspired_versions(found.versions, source.policy)
            await self._reconcile(source, model, aspired, paths)
            if not first.done():
                first.set_result(None)
            if source.poll_s is None:
                return
            await asyncio.sleep(source.poll_s)

    def _note(self, model: Model[Endpoint], explanation: str, warning: str) -> None:
        """Log what the scan has to say, once for each change of it."""
        if (note := explanation or warning) and note != model.absence:
            _log.warning("model %s: %s", model.name, note)
        model.absence = note

    async def _reconcile(
        self,
        source: ModelSource,
        model: Model[Endpoint],
        aspired: set[int],
        paths: dict[int, Path],
    ) -> None:
        while True:
            states = {number: version.state for number, version in model.versions.items()}
            actions = next_actions(aspired, states)
            if not actions:
                return
            action = actions[0]
            if action.verb == "load":
                await self._load(source, model, action.version, paths[action.version])
            else:
                self._retire(source, model, model.versions[action.version])

    async def _load(
        self, source: ModelSource, model: Model[Endpoint], number: int, path: Path
    ) -> None:
        version = model.versions[number] = Version(number, State.LOADING)
        if await self._try_load(model, version, path):
            return
        if source.max_retries > 0:
            self._spawn(self._retry(source, model, version, path))

    async def _retry(
        self, source: ModelSource, model: Model[Endpoint], version: Version[Endpoint], path: Path
    ) -> None:
        for attempt in range(source.max_retries):
            await asyncio.sleep(source.retry_s)
            if model.versions.get(version.number) is not version:
                return
            _log.info(
                "model %s: loading version %d again (retry %d of %d)",
                model.name,
                version.number,
                attempt + 1,
                source.max_retries,
            )
            if await self._try_load(model, version, path):
                return

    async def _try_load(
        self, model: Model[Endpoint], version: Version[Endpoint], path: Path
    ) -> bool:
        loop = asyncio.get_running_loop()
        spec = self._worker_spec(model.name, version.number, path)
        endpoint: Endpoint | None = None

        def on_change(event: WorkerEvent) -> None:
            if isinstance(event, Replaced) and endpoint is not None:
                loop.remove_reader(event.old_port.doorbell)
                endpoint.replace(event.new_port)
                loop.add_reader(endpoint.doorbell, endpoint.deliver)

        try:
            worker = await self._supervisor.load(spec, on_change)
        except LoadFailed as error:
            version.state, version.failure = State.END, str(error)
            _log.error("model %s: version %d: %s", model.name, version.number, error)
            self._registry.publish()
            return False
        endpoint = self._make_endpoint(worker)
        loop.add_reader(endpoint.doorbell, endpoint.deliver)
        self._workers[model.name, version.number] = worker
        version.state, version.failure, version.endpoint = State.AVAILABLE, "", endpoint
        self._registry.publish()
        _log.info("model %s: version %d is available", model.name, version.number)
        return True

    def _retire(
        self, source: ModelSource, model: Model[Endpoint], version: Version[Endpoint]
    ) -> None:
        version.state = State.UNLOADING
        self._registry.publish()
        self._spawn(self._unload(source, model, version))

    async def _unload(
        self, source: ModelSource, model: Model[Endpoint], version: Version[Endpoint]
    ) -> None:
        endpoint = version.endpoint
        assert endpoint is not None
        loop = asyncio.get_running_loop()
        give_up = loop.time() + source.drain_s
        while len(endpoint) and loop.time() < give_up:
            await asyncio.sleep(0.02)
        loop.remove_reader(endpoint.doorbell)
        endpoint.close("the version is being unloaded")
        worker = self._workers.pop((model.name, version.number))
        self._on_unload(model.name, endpoint)
        await worker.stop()
        version.state, version.endpoint = State.END, None
        self._registry.publish()
        _log.info("model %s: version %d is unloaded", model.name, version.number)

    def _spawn(self, coroutine: object) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(coroutine)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
