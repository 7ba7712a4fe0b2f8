from __future__ import annotations

from itertools import pairwise

import pytest

from headrace import _core
from headrace.serving.distribution import (
    BATCH_SIZES,
    EXAMPLE_COUNTS,
    LATENCIES,
    QUEUEING,
    SECONDS,
    SIZE_BOUNDS,
    SIZES,
    TIME_BOUNDS_NS,
    Distribution,
)


def test_core_counts_in_the_same_buckets() -> None:
    assert _core.time_bounds_ns() == list(TIME_BOUNDS_NS)
    assert _core.size_bounds() == list(SIZE_BOUNDS)


@pytest.mark.parametrize("bounds", [TIME_BOUNDS_NS, SIZE_BOUNDS])
def test_bounds_ascend(bounds: tuple[int, ...]) -> None:
    assert all(low < high for low, high in pairwise(bounds))


def test_scales_have_the_bounds_that_scrapers_know() -> None:
    # Limits as TensorFlow Serving prints them.
    assert LATENCIES.labels[:6] == ("10", "18", "32.4", "58.32", "104.976", "188.957")
    assert len(LATENCIES.labels) == 33 + 1
    assert LATENCIES.labels[-2:] == ("1.47476e+09", "+Inf")
    assert QUEUEING.labels[:4] == ("100", "120", "144", "172.8")
    assert len(QUEUEING.labels) == 52 + 1
    assert EXAMPLE_COUNTS.labels == (*(str(2**k) for k in range(15)), "+Inf")
    assert BATCH_SIZES.labels == (*(str(2**k) for k in range(14)), "+Inf")
    assert SECONDS.labels[:4] == ("1e-05", "2.5e-05", "5e-05", "0.0001")
    assert SECONDS.labels[-2:] == ("100", "+Inf")
    assert {"0.1", "0.25", "1", "10"} <= set(SECONDS.labels)


@pytest.mark.parametrize("scale", [SECONDS, LATENCIES, QUEUEING])
def test_a_scale_counts_as_if_it_had_counted_itself(scale) -> None:  # type: ignore[no-untyped-def]
    values = [0, 1, 9_999, 10_000, 10_001, 17_999, 18_000, 10**6, 10**9, 10**11, 10**12 * 3]
    shown = scale.cumulative(Distribution.of(values, TIME_BOUNDS_NS))
    bounds = [float(label) * scale.unit for label in scale.labels]
    # Six digits of a label may lie a little beside the bound itself.
    assert shown == [sum(value <= bound * (1 + 1e-6) for value in values) for bound in bounds]
    assert shown[-1] == len(values)


def test_a_bound_belongs_to_its_own_bucket() -> None:
    assert SIZES.cumulative(Distribution.of([4], SIZE_BOUNDS))[:4] == [0, 0, 1, 1]


def test_sums_add_buckets_and_totals() -> None:
    low, high = (Distribution.of([n], SIZE_BOUNDS) for n in (1, 2**21))
    both = low + high
    assert both.total == 1 + 2**21
    assert SIZES.cumulative(both)[0] == 1
    assert SIZES.cumulative(both)[-2:] == [1, 2]
