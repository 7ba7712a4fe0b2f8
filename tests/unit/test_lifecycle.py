"""The policy on chosen lists of states, then on every sequence that hypothesis thinks of."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.serving.lifecycle import Action, State, next_actions


def test_new_version_loads_before_the_old_one_goes():
    assert next_actions({2}, {1: State.AVAILABLE}) == [Action("load", 2)]
    assert next_actions({2}, {1: State.AVAILABLE, 2: State.LOADING}) == []
    assert next_actions({2}, {1: State.AVAILABLE, 2: State.AVAILABLE}) == [Action("unload", 1)]


def test_highest_new_version_loads_first_and_lowest_old_one_unloads_first():
    assert next_actions({1, 3, 2}, {}) == [Action("load", v) for v in (3, 2, 1)]
    states = {1: State.AVAILABLE, 2: State.AVAILABLE, 3: State.AVAILABLE}
    assert next_actions({3}, states) == [Action("unload", 1), Action("unload", 2)]


def test_a_broken_new_version_does_not_cost_the_old_one():
    assert next_actions({2}, {1: State.AVAILABLE, 2: State.END}) == []


def test_all_but_one_of_the_unwanted_may_go_while_the_new_one_loads():
    states = {1: State.AVAILABLE, 2: State.AVAILABLE, 3: State.LOADING}
    assert next_actions({3}, states) == [Action("unload", 1)]


def test_an_emptied_directory_takes_nothing_away():
    assert next_actions(set(), {1: State.AVAILABLE}) == []


@given(
    st.sets(st.integers(1, 6)),
    st.dictionaries(st.integers(1, 6), st.sampled_from(State)),
)
def test_whatever_serves_is_never_all_unloaded(aspired, states):
    actions = next_actions(aspired, states)
    unloaded = {a.version for a in actions if a.verb == "unload"}
    serving = {v for v, s in states.items() if s is State.AVAILABLE}
    assert unloaded <= serving - aspired
    assert not serving or serving - unloaded
    assert {a.version for a in actions if a.verb == "load"} == aspired - states.keys()


@given(st.lists(st.sets(st.integers(1, 5), min_size=1), min_size=1, max_size=5))
def test_steps_always_end_with_exactly_the_aspired_versions(wishes):
    states: dict[int, State] = {}
    for aspired in wishes:
        while actions := next_actions(aspired, states):
            action = actions[0]
            if action.verb == "load":
                states[action.version] = State.AVAILABLE
            else:
                del states[action.version]
        assert states.keys() == aspired
