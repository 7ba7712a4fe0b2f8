"""Who is pushed again after a death."""

import pytest

from headrace.serving.retry import decide_after_death


@pytest.mark.parametrize(
    ("unanswered", "again", "give_up"),
    [
        ([], (), ()),
        ([(1, False, 0)], ((1, False),), ()),
        ([(1, True, 1)], ((1, True),), ()),
        ([(1, True, 2)], (), (1,)),
        # It killed one worker before and only waited when the next died: still alone, still once.
        ([(1, False, 1)], ((1, True),), ()),
        # A ring may leave one that was given up; it must not run a third time.
        ([(1, False, 2)], (), (1,)),
        (
            [(5, True, 1), (3, False, 0), (9, True, 2), (4, True, 1), (1, False, 0)],
            ((5, True), (3, False), (4, True), (1, False)),
            (9,),
        ),
    ],
)
def test_decision(unanswered, again, give_up):
    decision = decide_after_death(unanswered)
    assert decision.again == again
    assert decision.give_up == give_up


def test_no_request_is_lost_or_doubled():
    unanswered = [(i, i % 2 == 0, i % 4) for i in range(50)]
    decision = decide_after_death(unanswered)
    assert sorted([i for i, _ in decision.again] + list(decision.give_up)) == list(range(50))
