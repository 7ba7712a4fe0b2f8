"""Starts workers: forked from a warm parent, spawned afresh, or as threads."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.workers.running import ControlEnd, Running, WorkerEnded, WorkerProcess, WorkerThread
from headrace.workers.spec import SupervisorOptions, WorkerSpec

__all__ = ["ForkFailed", "Launcher", "WarmParent"]

_log = logging.getLogger(__name__)

_STATUS_WAIT_S = 2.0  # for the warm parent's word on how a worker ended; it comes in microseconds


class ForkFailed(Exception):
    """No worker could be forked; the text says why."""


class Launcher:
    """Chooses and carries out the way a worker is started."""

    def __init__(self, options: SupervisorOptions) -> None:
        self._options = options
        self._warm = WarmParent()
        self._fork_proven = False  # a forked worker has run an operation
        self._fork_broken = False  # one has hung over it

    async def start(self, spec: WorkerSpec, fds: Sequence[int]) -> Running:
        """A worker that is about to load its model; it says ``loaded`` or ``failed`` next.

        Args:
            spec: With the runtime's name.
            fds: A channel's; they stay the caller's and must stay open until it says ``loaded``.
        """
        if spec.in_process:
            return WorkerThread(spec, fds)
        if self._may_fork(spec):
            try:
                return await self._fork(spec, fds)
            except ForkFailed as failure:
                _log.warning("%s is started afresh instead of forked: %s", spec.name, failure)
        process = _spawn_worker()
        process.start(spec, fds, probe=False)
        return process

    def close(self) -> None:
        """Ends the warm parent."""
        self._warm.close()

    def _may_fork(self, spec: WorkerSpec) -> bool:
        # A Python model is never forked. It needs none of what the warm parent has imported, may
        # import frameworks that do not survive a fork, and starts by itself in a fifth of a second.
        if not self._options.fork or self._fork_broken or spec.runtime != "tensorflow":
            return False
        return self._options.fork_with_gpu or not _may_use_gpu(spec)

    async def _fork(self, spec: WorkerSpec, fds: Sequence[int]) -> WorkerProcess:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                forked = await self._warm.fork(theirs.fileno())
            except BaseException:
                ours.close()
                raise
        process = WorkerProcess(forked.pid, forked.pidfd, ours, lambda: _status_of(forked))
        process.start(spec, fds, probe=not self._fork_proven)
        if not self._fork_proven:
            await self._first_answer(process)
        return process

    async def _first_answer(self, process: WorkerProcess) -> None:
        limit_s = self._options.first_answer_s
        try:
            await asyncio.wait_for(process.receive(), limit_s)
        except asyncio.TimeoutError:
            self._fork_broken = True
            process.kill("it hung after the fork")
            raise ForkFailed(f"no operation was run within {limit_s:g} s of the fork") from None
        except WorkerEnded as ended:
            raise ForkFailed(str(ended)) from None
        except BaseException:
            process.kill("its start was given up")
            raise
        self._fork_proven = True


@dataclass(frozen=True, slots=True)
class Forked:
    """A worker that the warm parent has made.

    Attributes:
        pid: Its number.
        pidfd: Its handle, which the caller comes to own.
        status: How it ends, in the manner of `subprocess`; None if nobody learns.
    """

    pid: int
    pidfd: int
    status: asyncio.Future[int | None]


class WarmParent:
    """The supervisor's side of `headrace.workers.zygote`; started by the first `fork`."""

    def __init__(self) -> None:
        self._popen: subprocess.Popen[bytes] | None = None
        self._control: ControlEnd | None = None
        self._ready: asyncio.Future[None] | None = None
        self._forks: dict[int, asyncio.Future[Forked]] = {}
        self._statuses: dict[int, asyncio.Future[int | None]] = {}
        self._requests = 0

    async def fork(self, control_fd: int) -> Forked:
        """A new worker that holds ``control_fd``.

        Raises:
            ForkFailed: There is no warm parent, or it refuses.
        """
        if self._control is None:
            self._start()
        assert self._ready is not None
        await asyncio.shield(self._ready)
        self._requests += 1
        forked: asyncio.Future[Forked] = asyncio.get_running_loop().create_future()
        self._forks[self._requests] = forked
        try:
            if self._control is None:
                raise ForkFailed("the warm parent has gone")
            self._control.send({"op": "fork", "id": self._requests}, [control_fd])
        except OSError as error:
            raise ForkFailed(f"the warm parent has gone: {error}") from error
        return await forked

    def close(self) -> None:
        """Ends it; workers that it forked stay."""
        if self._control is not None:
            self._control.close()
            self._lost()

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        # One thread of OpenBLAS's, i.e. none besides ours: only then is a fork safe.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        with theirs:
            self._popen = _spawn("headrace.workers.zygote", theirs, environment)
        self._ready = loop.create_future()
        self._control = ControlEnd(ours, self._on_message, self._lost)

    def _on_message(self, body: dict[str, Any], fds: list[int]) -> None:
        if body["op"] == "ready":
            self._set_ready(None)
        elif body["op"] == "unusable":
            self._set_ready(ForkFailed(body["reason"]))
        elif body["op"] == "forked":
            status = self._statuses[body["pid"]] = asyncio.get_running_loop().create_future()
            _settle(self._forks.pop(body["id"]), Forked(body["pid"], fds[0], status), fds)
        elif body["op"] == "refused":
            _fail(self._forks.pop(body["id"]), body["reason"])
        elif body["op"] == "exited":
            _settle(self._statuses.pop(body["pid"]), body["status"], [])

    def _set_ready(self, failure: ForkFailed | None) -> None:
        if self._ready is None or self._ready.done():
            return
        if failure is None:
            self._ready.set_result(None)
        else:
            self._ready.set_exception(failure)
            self._ready.exception()  # it may be that nobody waits any more

    def _lost(self) -> None:
        """It has ended: whoever waits for it is told, and the next `fork` starts another."""
        self._control = None
        self._set_ready(ForkFailed("the warm parent ended while it started"))
        for forked in self._forks.values():
            _fail(forked, "the warm parent has ended")
        for status in self._statuses.values():
            _settle(status, None, [])
        self._forks.clear()
        self._statuses.clear()
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()
            self._popen = None


async def _status_of(forked: Forked) -> int | None:
    await asyncio.wait({forked.status}, timeout=_STATUS_WAIT_S)
    return forked.status.result() if forked.status.done() else None


def _settle(future: asyncio.Future[Any], value: Any, fds: list[int]) -> None:
    """Hands a value over, or closes its descriptors if nobody waits for it any more."""
    if not future.done():
        future.set_result(value)
        return
    for fd in fds:
        os.close(fd)


def _fail(future: asyncio.Future[Any], reason: str) -> None:
    if not future.done():
        future.set_exception(ForkFailed(reason))


def _spawn_worker() -> WorkerProcess:
    ours, theirs = socket.socketpair()
    with theirs:
        popen = _spawn("headrace.workers.process", theirs, None)

    async def exit_status() -> int:
        return popen.wait()  # it has ended: does not block

    return WorkerProcess(popen.pid, os.pidfd_open(popen.pid), ours, exit_status)


# Standard output is the server's own: whoever started it reads the port there, not what models say.
_STANDARD_ERROR = 2


def _spawn(
    module: str, control: socket.socket, environment: dict[str, str] | None
) -> subprocess.Popen[bytes]:
    # -P (from 3.11 on): a file in the working directory must not stand in for a module.
    safe_path = ["-P"] if sys.version_info >= (3, 11) else []
    return subprocess.Popen(
        [sys.executable, *safe_path, "-m", module, str(control.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=_STANDARD_ERROR,
        pass_fds=[control.fileno()],
        env=environment,
    )


def _may_use_gpu(spec: WorkerSpec) -> bool:
    if spec.device is not None:
        return spec.device.lower().startswith("gpu")
    return Path("/dev/nvidiactl").exists()
