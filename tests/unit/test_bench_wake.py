from __future__ import annotations

import select
import time
from collections.abc import Iterator

import pytest

from headrace.bench.wake import WakeUp


@pytest.fixture
def wake() -> Iterator[WakeUp]:
    wake = WakeUp()
    yield wake
    wake.close()


def readable(wake: WakeUp, timeout_s: float = 0) -> bool:
    return bool(select.select([wake.descriptor], [], [], timeout_s)[0])


def test_unset_timer_is_quiet(wake: WakeUp) -> None:
    assert not readable(wake)


def test_timer_is_readable_at_its_time_and_not_before(wake: WakeUp) -> None:
    at = time.monotonic() + 0.02
    wake.set(at)
    assert readable(wake, 30)
    assert time.monotonic() >= at


@pytest.mark.parametrize("past", [-1.0, 0.0, 1e-12])
def test_time_that_has_passed_is_at_once(wake: WakeUp, past: float) -> None:
    wake.set(past)
    assert readable(wake, 30)


def test_new_time_takes_back_the_old_one(wake: WakeUp) -> None:
    wake.set(time.monotonic())
    assert readable(wake, 30)
    wake.set(time.monotonic() + 3600)
    assert not readable(wake)
