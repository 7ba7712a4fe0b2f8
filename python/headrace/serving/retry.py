"""What to do with the requests that a dead worker left: a pure decision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["AfterDeath", "decide_after_death"]

_MAX_DEATHS = 2


@dataclass(frozen=True, slots=True)
class AfterDeath:
    """The decision.

    Attributes:
        again: Ids to push to the successor, in their old order, each with whether it must run
            alone.
        give_up: Ids that were running at two deaths.
    """

    again: tuple[tuple[int, bool], ...]
    give_up: tuple[int, ...]


def decide_after_death(unanswered: Iterable[tuple[int, bool, int]]) -> AfterDeath:
    """Push again what is innocent or a first-time suspect.

    A request that was running may be what killed the worker: it goes again once, and alone, so
    that a second death names it. One that only waited goes as it was, and that does not count.

    Args:
        unanswered: For each request its id, whether it was running, and at how many deaths it was
            running, this one included.
    """
    again = []
    give_up = []
    for request_id, _, deaths in unanswered:
        # However it stands now: one that was given up before must not run a third time.
        if deaths >= _MAX_DEATHS:
            give_up.append(request_id)
        else:
            again.append((request_id, deaths > 0))
    return AfterDeath(tuple(again), tuple(give_up))
