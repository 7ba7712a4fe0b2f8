"""Who is pushed again after a death."""

from headrace.serving.retry import decide_after_death


def test_running_requests_go_again_once_and_alone_and_waiting_ones_as_they_were():
    first = decide_after_death([(1, True, 1), (2, True, 1), (3, False, 0)])
    assert first.again == ((1, True), (2, True), (3, False))
    assert first.give_up == ()


def test_a_request_that_was_running_at_two_deaths_is_given_up():
    second = decide_after_death([(1, True, 2), (2, False, 1), (3, False, 0)])
    assert second.give_up == (1,)
    assert second.again == ((2, True), (3, False))
