from __future__ import annotations

import itertools
import statistics
from itertools import islice, pairwise

import pytest

from headrace.bench.arrivals import Arrivals, arrival_times, share


def test_constant_arrivals_do_not_drift() -> None:
    times = arrival_times(Arrivals.CONSTANT, 3, seed=1)
    assert list(islice(times, 4)) == [0, 1 / 3, 2 / 3, 1]
    assert next(islice(times, 2_999_996, None)) == 1_000_000


def test_poisson_arrivals_have_the_rate_and_exponential_distances() -> None:
    times = list(islice(arrival_times(Arrivals.POISSON, 500, seed=7), 20_000))
    assert times == sorted(times)
    assert 20_000 / times[-1] == pytest.approx(500, rel=0.03)
    distances = [later - earlier for earlier, later in pairwise(times)]
    # Of an exponential distribution alone: mean and deviation agree, and e^-1 exceed the mean.
    assert statistics.stdev(distances) == pytest.approx(1 / 500, rel=0.05)
    longer = sum(distance > 1 / 500 for distance in distances) / len(distances)
    assert longer == pytest.approx(0.3679, abs=0.02)


def test_seed_decides_the_arrivals() -> None:
    first, same, other = (
        list(islice(arrival_times(Arrivals.POISSON, 10, seed), 5)) for seed in (1, 1, 2)
    )
    assert first == same != other


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_parts_together_are_the_whole(parts: int) -> None:
    def times() -> itertools.chain[float]:
        return itertools.chain(islice(arrival_times(Arrivals.POISSON, 10, 3), 23))

    shared = [arrival for part in range(parts) for arrival in share(times(), part, parts)]
    assert sorted(shared) == list(enumerate(times()))
