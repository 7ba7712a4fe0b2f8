"""Distributions as the metrics page shows them: fine buckets that are counted in, scales to show.

A value is counted once, in buckets whose bounds are those of every scale together; each scale is
then an exact sum of buckets. The core counts in the same buckets (``_core.time_bounds_ns``).

The recording is our own, since prometheus_client takes a lock and some microseconds for each value,
and could not take over what the core has counted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

__all__ = [
    "BATCH_SIZES",
    "EXAMPLE_COUNTS",
    "LATENCIES",
    "QUEUEING",
    "SECONDS",
    "SIZES",
    "SIZE_BOUNDS",
    "TIME_BOUNDS_NS",
    "Distribution",
    "Scale",
]


def _exponential(first: float, factor: float, count: int) -> tuple[int, ...]:
    bounds = []
    for _ in range(count):
        bounds.append(round(first))
        first *= factor  # step by step, as TensorFlow and the core do: the last digit agrees
    return tuple(bounds)


_TF_LATENCIES: Final = _exponential(10e3, 1.8, 33)
_TF_QUEUEING: Final = _exponential(100e3, 1.2, 52)
_SECONDS: Final = (
    *(step * 10**power for power in range(3, 10) for step in (10, 25, 50)),
    10**11,
)

TIME_BOUNDS_NS: Final = tuple(sorted({*_SECONDS, *_TF_LATENCIES, *_TF_QUEUEING}))
"""Upper bounds in nanoseconds of the buckets that times are counted in."""

SIZE_BOUNDS: Final = _exponential(1, 2, 21)
"""The same for numbers of rows and requests."""


@dataclass(frozen=True)
class Distribution:
    """Values that were counted.

    Attributes:
        counts: By bucket, not cumulative; the last is of values above every bound.
        total: Sum of the values.
    """

    counts: Sequence[int]
    total: int

    def __add__(self, other: Distribution) -> Distribution:
        counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        return Distribution(counts, self.total + other.total)

    @staticmethod
    def of(values: Iterable[int], bounds: Sequence[int]) -> Distribution:
        """The distribution of some values."""
        counts, total = [0] * (len(bounds) + 1), 0
        for value in values:
            counts[bisect_left(bounds, value)] += 1
            total += value
        return Distribution(counts, total)


class Scale:
    """Some of the bounds, and the unit to show them in.

    Attributes:
        labels: The values of ``le``, the infinite one included.
        unit: How many of what is counted make one of what is shown.
    """

    def __init__(self, fine: Sequence[int], shown: Sequence[int], unit: int = 1) -> None:
        self.labels = (*(_number(bound / unit) for bound in shown), "+Inf")
        self.unit = unit
        self._last = (*(fine.index(bound) for bound in shown), len(fine))

    def cumulative(self, distribution: Distribution) -> list[int]:
        """Values up to each bound; the last is their number."""
        sums = list(accumulate(distribution.counts))
        return [sums[last] for last in self._last]


def _number(value: float) -> str:
    """Six digits, as TensorFlow Serving prints bounds."""
    return f"{value:.6g}"


SECONDS: Final = Scale(TIME_BOUNDS_NS, _SECONDS, 10**9)
"""10 us to 100 s by 1, 2.5, 5 in each decade, shown in seconds."""
LATENCIES: Final = Scale(TIME_BOUNDS_NS, _TF_LATENCIES, 10**3)
"""TensorFlow Serving's scale of latencies, in microseconds."""
QUEUEING: Final = Scale(TIME_BOUNDS_NS, _TF_QUEUEING, 10**3)
"""TensorFlow Serving's scale of queueing, in microseconds."""
SIZES: Final = Scale(SIZE_BOUNDS, SIZE_BOUNDS)
EXAMPLE_COUNTS: Final = Scale(SIZE_BOUNDS, SIZE_BOUNDS[:15])
BATCH_SIZES: Final = Scale(SIZE_BOUNDS, SIZE_BOUNDS[:14])
