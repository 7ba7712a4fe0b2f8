"""What the processes of a run tell one another, as pickles through pipes.

The parent sends a `Task` and, when all are connected, the time of `time.monotonic` to start at;
when it closes the pipe, they are to stop. A process answers `Connected` or `Unable`, then an
`Interval` twice a second, and `Finished`.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.bench.plan import Plan
from headrace.bench.record import Packed

__all__ = ["Connected", "Finished", "Interval", "Task", "Unable"]


@dataclass(frozen=True, slots=True)
class Task:
    """What this process is to do."""

    plan: Plan
    part: int


@dataclass(frozen=True, slots=True)
class Connected:
    """The connections are open."""


@dataclass(frozen=True, slots=True)
class Unable:
    """They could not be opened."""

    reason: str


@dataclass(frozen=True, slots=True)
class Interval:
    """What came since the last one, and the processor time of the whole run so far."""

    packed: Packed
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Finished:
    """The last word."""
