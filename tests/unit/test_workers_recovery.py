from __future__ import annotations

from headrace.workers.recovery import Backoff


def test_first_restart_is_at_once() -> None:
    assert Backoff(0.25, 30).next_s(answered=False) == 0


def test_fruitless_restarts_double_the_wait_up_to_the_limit() -> None:
    backoff = Backoff(0.25, 3)
    waits = [backoff.next_s(answered=False) for _ in range(8)]
    assert waits == [0, 0.25, 0.5, 1, 2, 3, 3, 3]


def test_an_answer_in_between_forgets_the_past() -> None:
    backoff = Backoff(0.25, 30)
    for _ in range(5):
        backoff.next_s(answered=False)
    assert backoff.next_s(answered=True) == 0
    assert backoff.next_s(answered=False) == 0.25


def test_wait_stays_finite_for_ever() -> None:
    backoff = Backoff(0.25, 30)
    assert [backoff.next_s(answered=False) for _ in range(5000)][-1] == 30
