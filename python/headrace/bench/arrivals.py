"""When requests are due: arrivals that do not wait for answers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from enum import Enum
from itertools import count, islice

__all__ = ["Arrivals", "arrival_times", "share"]


class Arrivals(Enum):
    """How arrivals follow one another."""

    POISSON = "poisson"
    """Independently of one another, as from many clients that know nothing of each other."""
    CONSTANT = "constant"
    """At equal distances."""


def arrival_times(kind: Arrivals, rate: float, seed: int) -> Iterator[float]:
    """Seconds from the start, ascending, without end.

    Args:
        kind: Poisson: the distances are exponentially distributed.
        rate: Arrivals a second, in the mean.
        seed: The same seed gives the same times.
    """
    if kind is Arrivals.CONSTANT:
        # Not a running sum, whose rounding would add up.
        yield from (number / rate for number in count())
    draw = random.Random(seed).expovariate
    time = 0.0
    while True:
        time += draw(rate)
        yield time


def share(times: Iterator[float], part: int, parts: int) -> Iterator[tuple[int, float]]:
    """Every so-manieth arrival with its number, so that all parts together have each of them once.

    Args:
        times: Of all parts.
        part: From 0 on.
        parts: How many there are.
    """
    return islice(enumerate(times), part, None, parts)
