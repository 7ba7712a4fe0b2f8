"""The processes of a run, as the one that shows it sees them."""

from __future__ import annotations

import contextlib
import pickle
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.bench.messages import Connected, Finished, Interval, Task, Unable
from headrace.bench.plan import Plan
from headrace.bench.record import Record

__all__ = ["Outcome", "RunFailed", "measure"]

_START_IN_S = 0.2
_PATIENCE_S = 60.0


class RunFailed(Exception):
    """Nothing could be measured; the message says why."""


@dataclass(slots=True)
class Outcome:
    """What a run has measured, so far or in the end.

    Attributes:
        record: Of all processes.
        recent: What came since the last time that it was shown.
        running: Processes that are not done.
        start_at: Monotonic time from which on requests count.
        cpu_s: Processor time of each process.
        interrupted: Whether Ctrl-C ended it.
    """

    plan: Plan
    start_at: float
    record: Record = field(default_factory=Record)
    recent: Record = field(default_factory=Record)
    running: set[int] = field(default_factory=set)
    cpu_s: dict[int, float] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def elapsed_s(self) -> float:
        """From the first request that counts to the last answer; at least as planned."""
        last = max(0.0, self.record.last_at - self.start_at)
        planned = self.plan.duration_s
        whole = planned is not None and not self.interrupted and self.plan.requests is None
        return max(last, planned) if whole and planned is not None else last

    @property
    def per_second(self) -> float:
        """Answers of status 2xx."""
        return self.record.successes / self.elapsed_s if self.elapsed_s else 0.0


class _Process:
    def __init__(self, part: int, events: queue.Queue[tuple[int, object]]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headrace.bench.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._part, self._events = part, events
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def tell(self, message: object) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            pickle.dump(message, self._process.stdin)
            self._process.stdin.flush()

    def end_input(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self.end_input()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            with contextlib.suppress(EOFError):
                while True:
                    self._events.put((self._part, pickle.load(stream)))
            self._events.put((self._part, None))


def measure(plan: Plan, show: Callable[[Outcome], None] = lambda outcome: None) -> Outcome:
    """Carry out a plan.

    Args:
        plan: What to do.
        show: Called about twice a second, from this thread; `Outcome.recent` starts anew after it.

    Raises:
        RunFailed: The connections cannot be opened, or a process ended on its own.
    """
    events: queue.Queue[tuple[int, object]] = queue.Queue()
    with contextlib.ExitStack() as stack:
        processes = []
        for part in range(plan.processes):
            processes.append(_Process(part, events))
            stack.callback(processes[-1].close)
        for part, process in enumerate(processes):
            process.tell(Task(plan, part))
        for _ in processes:
            _expect_connected(events, plan)
        start_at = time.monotonic() + _START_IN_S
        for process in processes:
            process.tell(start_at)
        outcome = Outcome(plan, start_at + plan.warmup_s, running=set(range(plan.processes)))
        try:
            _follow(events, outcome, show)
        except KeyboardInterrupt:
            outcome.interrupted = True
            for process in processes:
                process.end_input()
            _follow(events, outcome, show)
        return outcome


def _expect_connected(events: queue.Queue[tuple[int, object]], plan: Plan) -> None:
    try:
        _, event = events.get(timeout=plan.timeout_s + _PATIENCE_S)
    except queue.Empty:
        raise RunFailed("a process of the load generator does not start") from None
    if isinstance(event, Unable):
        raise RunFailed(f"{plan.connections} connections cannot be opened: {event.reason}")
    if not isinstance(event, Connected):
        raise RunFailed("a process of the load generator failed, see above")


def _follow(
    events: queue.Queue[tuple[int, object]], outcome: Outcome, show: Callable[[Outcome], None]
) -> None:
    shown_at = time.monotonic()
    while outcome.running:
        part, event = events.get()
        if isinstance(event, Interval):
            outcome.record.add(event.packed)
            outcome.recent.add(event.packed)
            outcome.cpu_s[part] = event.cpu_s
        elif isinstance(event, Finished):
            outcome.running.discard(part)
        elif event is None and part in outcome.running:
            raise RunFailed("a process of the load generator failed, see above")
        if (now := time.monotonic()) - shown_at >= 0.5:
            show(outcome)
            outcome.recent, shown_at = Record(), now
