"""The warm parent: imports TensorFlow once and forks a worker per request, in milliseconds.

``python -m headrace.workers.zygote FD``, FD being its end of a control socket::

    supervisor                                    warm parent
        │                         ready              │  (imported)
        │ ◄───────────────────────────────────────── │
        │ fork id                     + control fd   │
        │ ─────────────────────────────────────────► │ ── fork ──► worker
        │ forked id pid                     + pidfd  │
        │ ◄───────────────────────────────────────── │    or: refused id reason
        │ exited pid status                          │
        │ ◄───────────────────────────────────────── │

It must never run an operation: TensorFlow's thread pools belong to the process, and a child
inherits the pools without their threads, so that its first large operation waits for ever. Hence it
only imports, refuses to fork once a thread of TensorFlow's is there, and has one thread itself
(OPENBLAS_NUM_THREADS=1, set by the supervisor). It ends when the supervisor closes the socket.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import sys
import traceback
from pathlib import Path

from headrace.workers.control import Message, MessageReader, send_message
from headrace.workers.process import leave, run_worker

__all__ = ["Zygote", "main", "tensorflow_threads"]


class Zygote:
    """Forks workers on request and reports how they end."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._reader = MessageReader(control)
        self._selector = selectors.DefaultSelector()
        self._pids: dict[int, int] = {}  # by pidfd

    def run(self) -> None:
        """Serves until the supervisor has gone; returns in a child only to end it."""
        self._selector.register(self._control, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._control:
                    self._reap(key.fd)
                    continue
                messages, is_open = self._reader.receive_ready()
                for message in messages:
                    self._fork(message)
                if not is_open:
                    return

    def _fork(self, message: Message) -> None:
        request = message.body["id"]
        threads = tensorflow_threads()
        if threads:
            reason = f"the warm parent has threads of TensorFlow's: {', '.join(threads)}"
            send_message(self._control, {"op": "refused", "id": request, "reason": reason})
            message.close_fds()
            return
        pid = os.fork()
        if pid == 0:
            self._be_worker(message.fds[0])
        pidfd = os.pidfd_open(pid)  # before anyone can reap it: the number is still its
        message.close_fds()
        send_message(self._control, {"op": "forked", "id": request, "pid": pid}, [pidfd])
        self._pids[pidfd] = pid
        self._selector.register(pidfd, selectors.EVENT_READ)

    def _be_worker(self, control_fd: int) -> None:
        """In the child: drops what is the parent's, above all its end of the socket, and serves."""
        status = 1
        try:
            self._selector.close()
            self._control.close()
            for pidfd in self._pids:
                os.close(pidfd)
            run_worker(socket.socket(fileno=control_fd))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            leave(status)

    def _reap(self, pidfd: int) -> None:
        self._selector.unregister(pidfd)
        pid = self._pids.pop(pidfd)
        os.close(pidfd)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        send_message(self._control, {"op": "exited", "pid": pid, "status": status})


def tensorflow_threads() -> list[str]:
    """Names of this process's threads that TensorFlow started, such as ``tf_Compute``."""
    names = (Path(task, "comm").read_text().strip() for task in Path("/proc/self/task").iterdir())
    return [name for name in names if name.startswith("tf_")]


def main() -> None:
    """Imports, says ``ready`` and serves."""
    control = socket.socket(fileno=int(sys.argv[1]))
    for number in (signal.SIGINT, signal.SIGTERM):  # as in a worker, and for the same reason
        signal.signal(number, lambda *_: None)
    Path("/proc/self/comm").write_text("hr:warm")
    try:
        import headrace.runtimes.tensorflow  # noqa: F401
    except ImportError as error:
        send_message(control, {"op": "unusable", "reason": str(error)})
        return
    gc.collect()
    gc.freeze()  # a collection in a child would write to, and so copy, every page of objects
    try:
        send_message(control, {"op": "ready"})
        Zygote(control).run()
    except (BrokenPipeError, ConnectionResetError):
        pass  # the supervisor went while we were about to tell it something


if __name__ == "__main__":
    main()
