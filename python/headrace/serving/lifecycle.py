"""Which version to load and which to let go: a pure function of what should be and what is.

The rule is TensorFlow Serving's availability-preserving one: a new version loads before the old
one goes, and the last version that serves is not given up for one that does not serve yet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

__all__ = ["Action", "State", "next_actions"]


class State(Enum):
    """Where a version stands; the names are those of the status answer."""

    LOADING = "LOADING"
    AVAILABLE = "AVAILABLE"
    UNLOADING = "UNLOADING"
    END = "END"


@dataclass(frozen=True, slots=True)
class Action:
    """One step.

    Attributes:
        verb: ``load`` or ``unload``.
        version: What to do it with.
    """

    verb: str
    version: int


def next_actions(aspired: Collection[int], states: Mapping[int, State]) -> list[Action]:
    """The steps that may be taken now, first things first.

    Args:
        aspired: Versions that should be served. Empty means that nothing is known to be there:
            what serves goes on serving.
        states: Versions known, with their state. A version that ended is not loaded again by this
            function; whoever retries takes it out of ``states`` first.
    """
    loads = [Action("load", v) for v in sorted(aspired, reverse=True) if v not in states]
    serving = [v for v, state in states.items() if state is State.AVAILABLE]
    spare = len(serving) - 1 if not any(v in aspired for v in serving) else len(serving)
    unwanted = sorted(v for v in serving if v not in aspired) if aspired else []
    return loads + [Action("unload", v) for v in unwanted[: max(spare, 0)]]
