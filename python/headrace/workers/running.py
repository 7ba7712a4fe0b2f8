"""A worker that was started, as its supervisor sees it: a process or a thread."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from headrace.errors import LoadFailed
from headrace.workers.control import MessageReader, send_message
from headrace.workers.loop import Loop
from headrace.workers.process import attach, load_model
from headrace.workers.spec import WorkerSpec, signatures_to_json

__all__ = ["ControlEnd", "Running", "WorkerEnded", "WorkerProcess", "WorkerThread"]

_log = logging.getLogger(__name__)


class WorkerEnded(Exception):
    """The worker has ended before it said what was waited for; the text says how."""


class Running(Protocol):
    """What process and thread have in common. Used from the event loop only."""

    pid: int
    answered: bool  # it has answered a request
    ended: asyncio.Future[str]  # how, once it has; never cancelled

    async def receive(self) -> dict[str, Any]:
        """Its next message; raises WorkerEnded."""

    def kill(self, reason: str) -> bool:
        """Ends it at once; ``reason`` becomes the result of `ended`. False: it cannot be."""


class _Inbox:
    """Messages of a worker in order, then its end."""

    def __init__(self) -> None:
        self.answered = False
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    async def receive(self) -> dict[str, Any]:
        body = await self._messages.get()
        if body is None:
            self._messages.put_nowait(None)
            raise WorkerEnded(self.ended.result())
        return body

    def _put(self, body: dict[str, Any]) -> None:
        if body["op"] == "answered":
            self.answered = True
        else:
            self._messages.put_nowait(body)

    def _end(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)
            self._messages.put_nowait(None)


class ControlEnd:
    """The supervisor's end of a control socket, read by the event loop."""

    def __init__(
        self,
        sock: socket.socket,
        on_message: Callable[[dict[str, Any], list[int]], None],
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self._sock = sock
        self._reader = MessageReader(sock)
        self._on_message = on_message
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self.read_ready)

    def send(self, body: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Sends a message; raises OSError if the peer has gone."""
        send_message(self._sock, body, fds)

    def read_ready(self) -> None:
        """Takes what has arrived."""
        if self._sock.fileno() < 0:
            return
        messages, is_open = self._reader.receive_ready()
        for message in messages:
            self._on_message(message.body, message.fds)
        if not is_open:
            self.close()
            if self._on_close is not None:
                self._on_close()

    def close(self) -> None:
        """Closes the socket, which ends a worker."""
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()
            self._reader.close_fds()


class WorkerProcess(_Inbox):
    """A worker in a process of its own, watched through a pidfd."""

    def __init__(
        self,
        pid: int,
        pidfd: int,
        control: socket.socket,
        exit_status: Callable[[], Awaitable[int | None]],
    ) -> None:
        """``pidfd`` and ``control`` become its own; ``exit_status`` is asked once it has ended."""
        super().__init__()
        self.pid = pid
        self._pidfd = pidfd
        self._exit_status = exit_status
        self._killed_for: str | None = None
        self._control = ControlEnd(control, lambda body, _: self._put(body))
        self._ending: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(pidfd, self._on_exit)

    def start(self, spec: WorkerSpec, fds: Sequence[int], *, probe: bool) -> None:
        """Tells it what to load and where its requests come from.

        If it has died already, `receive` says so.
        """
        try:
            self._control.send({"op": "start", "spec": spec.to_json(), "probe": probe}, fds)
        except OSError as error:
            _log.debug("worker %d could not be told to start: %s", self.pid, error)

    def kill(self, reason: str) -> bool:
        """See `Running`."""
        if self._pidfd >= 0:
            self._killed_for = self._killed_for or reason
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        return True

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._pidfd = -1
        self._control.read_ready()  # its last words
        self._control.close()
        self._ending = self._loop.create_task(self._conclude())

    async def _conclude(self) -> None:
        status = await self._exit_status()
        self._end(self._killed_for or _how(status))


class WorkerThread(_Inbox):
    """A worker as a thread of this process: the same loop on the same rings."""

    def __init__(self, spec: WorkerSpec, fds: Sequence[int]) -> None:
        super().__init__()
        self.pid = os.getpid()
        self._loop = asyncio.get_running_loop()
        self._spec = spec
        self._fds = [os.dup(fd) for fd in fds]  # the caller may give up and close them meanwhile
        # A daemon, so that a model that hangs cannot keep the interpreter from ending.
        threading.Thread(target=self._run, name=f"hr:{spec.name}", daemon=True).start()

    def kill(self, reason: str) -> bool:
        """Only says that it is called for: a thread cannot be ended from outside."""
        _log.error("%s cannot be stopped, it runs as a thread: %s", self._spec.name, reason)
        return False

    def _run(self) -> None:
        reason = "it left its loop"
        try:
            self._serve()
        except Exception as error:
            _log.exception("worker %s", self._spec.name)
            reason = f"{type(error).__name__}: {error}"
        finally:
            self._close_fds()
        self._tell(self._end, reason)

    def _serve(self) -> None:
        try:
            runtime = load_model(self._spec)
        except LoadFailed as error:
            self._tell(self._put, {"op": "failed", "reason": str(error)})
            return
        self._tell(
            self._put, {"op": "loaded", "signatures": signatures_to_json(runtime.signatures)}
        )
        collector = attach(runtime, self._spec, self._fds)
        self._close_fds()
        Loop(
            runtime,
            on_first_answer=lambda: self._tell(self._put, {"op": "answered"}),
        ).run(collector, threads=runtime.batch_threads)
        runtime.close()

    def _close_fds(self) -> None:
        while self._fds:
            os.close(self._fds.pop())

    def _tell(self, call: Callable[[Any], None], argument: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call, argument)
        except RuntimeError:
            _log.debug("the event loop has closed before worker %s", self._spec.name)


def _how(status: int | None) -> str:
    if status is None:
        return "its process ended"
    if status < 0:
        hint = "; out of memory, perhaps" if status == -signal.SIGKILL else ""
        return f"its process was killed by {signal.Signals(-status).name}{hint}"
    return f"its process ended with status {status}"
