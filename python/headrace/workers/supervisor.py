"""Keeps one worker per model version: loads, watches, restarts and stops it.

It lives in the front end's event loop while there is one front end, and shows itself to it through
`Worker` and the events of `spec` only, so that it can move to a parent process later.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Mapping

from headrace import _core
from headrace.errors import LoadFailed
from headrace.runtimes import find_runtime
from headrace.tensors import Signature, compile_signatures
from headrace.workers.launch import Launcher
from headrace.workers.recovery import Backoff
from headrace.workers.running import Running, WorkerEnded
from headrace.workers.spec import (
    Gone,
    Ready,
    Replaced,
    SupervisorOptions,
    WorkerEvent,
    WorkerSpec,
    signatures_from_json,
)

__all__ = [
    "Gone",
    "Ready",
    "Replaced",
    "Supervisor",
    "SupervisorOptions",
    "Worker",
    "WorkerEvent",
    "WorkerSpec",
]

_log = logging.getLogger(__name__)


class Supervisor:
    """Starts workers and ends them. Used from one event loop."""

    def __init__(self, options: SupervisorOptions | None = None) -> None:
        self._options = options or SupervisorOptions()
        self._launcher = Launcher(self._options)
        self._workers: set[Worker] = set()

    async def load(self, spec: WorkerSpec, on_change: Callable[[WorkerEvent], None]) -> Worker:
        """A worker that has loaded the model and takes requests.

        Args:
            spec: What to run.
            on_change: Called in the event loop when the worker dies and when it is back.

        Raises:
            LoadFailed: The model cannot be loaded, in a sentence. Nothing stays behind, and it may
                be tried again.
        """
        spec = dataclasses.replace(spec, runtime=spec.runtime or find_runtime(spec.path))
        channel = _channel(spec)
        try:
            running, signatures = await _load(self._launcher, spec, channel)
            port = _port(channel, signatures, spec)
        except BaseException:
            channel.close()
            raise
        worker = Worker(spec, self._launcher, self._options, on_change)
        worker._begin(running, channel, port, signatures)
        self._workers.add(worker)
        worker._supervision.add_done_callback(lambda _: self._workers.discard(worker))
        return worker

    async def close(self, *, drain_s: float | None = None) -> None:
        """Stops every worker, giving each ``drain_s`` to finish what it runs, and the warm parent.

        Args:
            drain_s: None: ``stop_grace_s`` of the options.
        """
        stops = (worker.stop(grace_s=drain_s) for worker in list(self._workers))
        await asyncio.gather(*stops)
        self._launcher.close()


class Worker:
    """One model version that runs, through deaths and restarts. Made by `Supervisor.load`.

    Attributes:
        spec: As loaded.
        signatures: Name to signature.
        port: Where requests go now; changes with every `Replaced`.
        is_ready: Whether somebody answers there now.
        restarts: Successors started so far.
    """

    signatures: Mapping[str, Signature]
    port: _core.FrontPort
    _supervision: asyncio.Task[None]

    def __init__(
        self,
        spec: WorkerSpec,
        launcher: Launcher,
        options: SupervisorOptions,
        on_change: Callable[[WorkerEvent], None],
    ) -> None:
        self.spec = spec
        self.is_ready = True
        self.restarts = 0
        self._launcher = launcher
        self._options = options
        self._on_change = on_change
        self._backoff = Backoff(options.backoff_s, options.backoff_limit_s)
        self._stopping = False
        self._watch: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int:
        """Of the process that runs the model, or ran it last."""
        return self._running.pid

    async def stop(self, *, grace_s: float | None = None) -> None:
        """Ends the worker, and with its process all memory that the model held.

        What it runs is finished if that takes no longer than ``grace_s`` (None: ``stop_grace_s``),
        but nobody takes the replies any more: drain before.
        """
        if self._stopping:
            await asyncio.wait({self._supervision})
            return
        self._stopping = True
        self.is_ready = False
        if self._watch is not None:
            self._watch.cancel()
        self._close_port()
        await self._end(self._options.stop_grace_s if grace_s is None else grace_s)
        self._supervision.cancel()
        await asyncio.wait({self._supervision})

    def _begin(
        self,
        running: Running,
        channel: _core.Channel,
        port: _core.FrontPort,
        signatures: Mapping[str, Signature],
    ) -> None:
        self.signatures = signatures
        self.port = port
        self._channel = channel
        self._running = running
        self._supervision = asyncio.create_task(self._supervise(), name=f"worker {self.spec.name}")
        self._watch_runs()

    async def _end(self, grace_s: float) -> None:
        ended = self._running.ended
        await asyncio.wait({ended}, timeout=grace_s)
        if not ended.done() and self._running.kill("it did not leave when it was told to"):
            await asyncio.wait({ended})

    async def _supervise(self) -> None:
        while True:
            await asyncio.wait({self._running.ended})
            if self._stopping:
                return
            self._replace_port(self._running.ended.result())
            await self._restart()

    def _replace_port(self, reason: str) -> None:
        _log.error("worker %s (pid %d) died: %s", self.spec.name, self.pid, reason)
        self.is_ready = False
        old_port, old_channel = self.port, self._channel
        self._channel = _channel(self.spec)
        self.port = _port(self._channel, self.signatures, self.spec)
        self._notify(Replaced(old_port, self.port, reason))
        old_port.close()
        old_channel.close()

    async def _restart(self) -> None:
        """Starts successors until one has loaded the model."""
        wait_s = self._backoff.next_s(answered=self._running.answered)
        while True:
            await asyncio.sleep(wait_s)
            try:
                await self._start_successor()
                break
            except LoadFailed as failure:
                wait_s = self._backoff.next_s(answered=False)
                _log.error("%s; the next try is in %.3g s", failure, wait_s)
                self._notify(Gone(self.port, str(failure), wait_s))
        self.restarts += 1
        self.is_ready = True
        self._notify(Ready(self.port))

    async def _start_successor(self) -> None:
        running, signatures = await _load(self._launcher, self.spec, self._channel)
        self._running = running
        if signatures != self.signatures:
            running.kill("the model's signatures have changed")
            await asyncio.wait({running.ended})
            raise LoadFailed(f"{self.spec.path}: the signatures have changed since it was loaded")

    def _watch_runs(self) -> None:
        """Kills the worker when one run exceeds its time, looking only when that can be.

        A run that has not begun at one look cannot be over its time before the next.
        """
        limit_s = self.spec.run_timeout_s
        if not limit_s or self._stopping:
            return
        since_ns = self.port.running_since_ns
        ran_s = (time.monotonic_ns() - since_ns) / 1e9 if since_ns else 0.0
        if ran_s >= limit_s:
            self._running.kill(f"one run took longer than {limit_s:g} s")
            ran_s = 0.0
        self._watch = asyncio.get_running_loop().call_later(
            max(limit_s - ran_s, 0.001), self._watch_runs
        )

    def _notify(self, event: WorkerEvent) -> None:
        try:
            self._on_change(event)
        except Exception:
            # Supervision must go on, or one fault there leaves the model dead for good.
            _log.exception("handling %s of %s", type(event).__name__, self.spec.name)

    def _close_port(self) -> None:
        self.port.close()
        self._channel.close()


async def _load(
    launcher: Launcher, spec: WorkerSpec, channel: _core.Channel
) -> tuple[Running, dict[str, Signature]]:
    """A running worker that has loaded its model, and the signatures it found."""
    running = await launcher.start(spec, channel.worker_fds())
    try:
        message = await running.receive()
    except WorkerEnded as ended:
        raise LoadFailed(
            f"{spec.path}: the worker died while it loaded the model: {ended}"
        ) from None
    except BaseException:
        if running.kill("its start was given up"):
            await asyncio.wait({running.ended})
        raise
    if message["op"] == "failed":
        await asyncio.wait({running.ended})
        raise LoadFailed(message["reason"])
    return running, signatures_from_json(message["signatures"])


def _channel(spec: WorkerSpec) -> _core.Channel:
    return _core.Channel(request_bytes=spec.request_bytes, reply_bytes=spec.reply_bytes)


def _port(
    channel: _core.Channel, signatures: Mapping[str, Signature], spec: WorkerSpec
) -> _core.FrontPort:
    return _core.FrontPort(
        channel,
        compile_signatures(signatures),
        max_payload_bytes=spec.max_payload_bytes,
        max_reply_bytes=spec.max_reply_bytes,
    )
