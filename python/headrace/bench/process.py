"""A process of the load generator: ``python -m headrace.bench.process``, started by `fleet`."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
import time
from typing import Any

import uvloop

from headrace.bench.drive import Drive
from headrace.bench.messages import Connected, Finished, Interval, Task, Unable

__all__ = ["main"]

_INTERVAL_S = 0.5


def _say(message: object) -> None:
    pickle.dump(message, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def _break_off(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A mistake in a callback: to go on without what it did would be to measure nonsense."""
    loop.default_exception_handler(context)
    os._exit(1)


async def _work(task: Task) -> None:
    asyncio.get_running_loop().set_exception_handler(_break_off)
    drive = Drive(task.plan, task.part)
    try:
        await asyncio.wait_for(drive.connect(), task.plan.timeout_s)
    except asyncio.TimeoutError:
        _say(Unable(f"no connection within {task.plan.timeout_s:g} s"))
        return
    except OSError as error:
        _say(Unable(error.strerror or str(error)))
        return
    _say(Connected())
    start_at: float = pickle.load(sys.stdin.buffer)
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _stop_at_end, drive)
    cpu_before = time.process_time()
    running = asyncio.create_task(drive.run(start_at))
    while not running.done():
        await asyncio.wait([running], timeout=_INTERVAL_S)
        _say(Interval(drive.take().pack(), time.process_time() - cpu_before))
    running.result()
    _say(Finished())


def _stop_at_end(drive: Drive) -> None:
    asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
    drive.stop()


def main() -> None:
    """Do what standard input says."""
    # Ctrl-C is for the parent, which then wants to know what was measured so far.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    task = pickle.load(sys.stdin.buffer)
    try:
        uvloop.run(_work(task))
    except (EOFError, BrokenPipeError):
        os._exit(1)  # the parent is gone: nobody to tell


if __name__ == "__main__":
    main()
