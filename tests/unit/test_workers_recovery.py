from __future__ import annotations

import pytest

from headrace.workers.recovery import Backoff, decide_after_death


@pytest.mark.parametrize(
    ("unanswered", "decision"),
    [
        ([], ([], [], [])),
        ([(1, False, 0)], ([], [1], [])),
        ([(1, True, 1)], ([1], [], [])),
        ([(1, True, 2)], ([], [], [1])),
        # It killed one worker before and only waited when the next died: still alone, still once.
        ([(1, False, 1)], ([1], [], [])),
        # A ring may leave one that was given up; it must not run a third time.
        ([(1, False, 2)], ([], [], [1])),
        (
            [(5, True, 1), (3, False, 0), (9, True, 2), (4, True, 1), (1, False, 0)],
            ([5, 4], [3, 1], [9]),
        ),
    ],
)
def test_decision(unanswered: list[tuple[int, bool, int]], decision: object) -> None:
    assert decide_after_death(unanswered) == decision


def test_no_request_is_lost_or_doubled() -> None:
    unanswered = [(i, i % 2 == 0, i % 4) for i in range(50)]
    alone, again, give_up = decide_after_death(unanswered)
    assert sorted(alone + again + give_up) == list(range(50))


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
