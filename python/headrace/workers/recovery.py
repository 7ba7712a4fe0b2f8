"""What happens after a worker's death, as pure decisions."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Backoff", "Decision", "decide_after_death"]

Decision = tuple[list[int], list[int], list[int]]

_MAX_DEATHS = 2


def decide_after_death(unanswered: Iterable[tuple[int, bool, int]]) -> Decision:
    """Sorts the requests that a dead worker has left.

    Args:
        unanswered: ``FrontPort.unanswered()``: request id, whether the worker was running it when
            it died, and how many workers have died running it, this one included.

    Returns:
        Ids in the order given: those to push again ``alone``, so that a request that kills its
        worker takes no other along; those to push again as they were; and those to give up, which
        have killed two workers. One that was pushed alone before stays alone, even if it only
        waited this time.
    """
    alone: list[int] = []
    again: list[int] = []
    give_up: list[int] = []
    for request_id, _, deaths in unanswered:
        if deaths >= _MAX_DEATHS:
            give_up.append(request_id)
        elif deaths:
            alone.append(request_id)
        else:
            again.append(request_id)
    return alone, again, give_up


class Backoff:
    """How long to wait before a restart: not at all, unless the last one brought no answer."""

    def __init__(self, first_s: float, limit_s: float) -> None:
        self._first_s = first_s
        self._limit_s = limit_s
        self._fruitless = 0

    def next_s(self, *, answered: bool) -> float:
        """Seconds until the next start.

        Args:
            answered: Whether the worker that has ended had answered anything.
        """
        if answered:
            self._fruitless = 0
        wait_s = 0.0
        if self._fruitless:
            # The exponent is bounded too: 2**10000 is no float.
            wait_s = min(self._limit_s, self._first_s * 2.0 ** min(self._fruitless - 1, 60))
        self._fruitless += 1
        return wait_s
