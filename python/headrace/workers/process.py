"""The process that runs one model version: ``python -m headrace.workers.process FD``.

FD is its end of the control socket. The supervisor sends the spec and a channel's descriptors; the
worker loads the model, says ``loaded`` with the signatures or ``failed`` with a reason, then
attaches to the channel and runs until the channel is closed. It lives no longer than its
supervisor: once the other end of FD is closed, a thread without Python in it ends the process,
whatever a model is doing.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import Sequence

from headrace import _core
from headrace.errors import LoadFailed
from headrace.runtimes import Runtime, open_model
from headrace.tensors import compile_signatures
from headrace.workers.control import MessageReader, send_message
from headrace.workers.loop import Loop
from headrace.workers.spec import WorkerSpec, signatures_to_json

__all__ = ["attach", "leave", "load_model", "main", "run_worker"]

_log = logging.getLogger(__name__)


def run_worker(control: socket.socket) -> None:
    """Serves one model until its channel is closed. Called in a process of its own."""
    _core.exit_when_closed(control.fileno())
    message = MessageReader(control).receive()
    if message is None:
        return
    spec = WorkerSpec.from_json(message.body["spec"])
    _settle(spec)
    if message.body["probe"]:
        _probe(spec)
        send_message(control, {"op": "alive"})
    try:
        runtime = load_model(spec)
    except LoadFailed as error:
        send_message(control, {"op": "failed", "reason": str(error)})
        return
    send_message(control, {"op": "loaded", "signatures": signatures_to_json(runtime.signatures)})
    collector = attach(runtime, spec, message.fds)
    message.close_fds()
    loop = Loop(
        runtime,
        on_first_answer=lambda: send_message(control, {"op": "answered"}),
    )
    loop.run(collector, threads=runtime.batch_threads)
    runtime.close()


def load_model(spec: WorkerSpec) -> Runtime:
    """The model, ready to run. Raises LoadFailed, whatever it was that went wrong."""
    try:
        return open_model(spec.path, runtime=spec.runtime, options=spec.runtime_options())
    except LoadFailed:
        raise
    except ImportError as error:
        raise LoadFailed(str(error)) from error
    except Exception as error:
        _log.exception("loading %s", spec.path)
        raise LoadFailed(f"{spec.path}: {type(error).__name__}: {error}") from error


def attach(runtime: Runtime, spec: WorkerSpec, fds: Sequence[int]) -> _core.Collector:
    """Where the worker's batches come from. The descriptors stay the caller's."""
    port = _core.WorkerPort(
        fds, compile_signatures(runtime.signatures), max_reply_bytes=spec.max_reply_bytes
    )
    return _core.Collector([port], _core.BatchSettings(max_rows=spec.batching.max_rows))


def main() -> None:
    """Entry of a worker that was not forked."""
    try:
        run_worker(socket.socket(fileno=int(sys.argv[1])))
    except BaseException:
        traceback.print_exc()
        leave(1)
    leave()


def leave(status: int = 0) -> None:
    """Ends the process without tearing down a framework whose threads may still run."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _settle(spec: WorkerSpec) -> None:
    """Makes the process a worker: who it is in logs and `ps`, and that only its supervisor ends it.

    A terminal and a service manager signal the whole group, while the requests in flight are still
    to be answered; the supervisor closes the channel when they are. The handlers do nothing rather
    than the signals being ignored, since children of the model would inherit that.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    logging.basicConfig(
        format=f"%(asctime)s %(levelname)s {spec.name}: %(message)s", level=logging.WARNING
    )
    with open("/proc/self/comm", "w") as comm:
        comm.write(f"hr:{spec.model}"[:15])


def _probe(spec: WorkerSpec) -> None:
    from headrace.runtimes.tensorflow import probe

    probe(spec.runtime_options())


if __name__ == "__main__":
    main()
