"""Lookups: what they find, and how they say why not."""

import pytest

from headrace.errors import LabelNotFound, ModelNotFound, ModelNotReady
from headrace.serving.lifecycle import State
from headrace.serving.registry import Registry, Version


@pytest.fixture
def registry():
    registry = Registry()
    registry.configure(["half", "loading", "broken"])
    half = registry.model("half")
    half.versions = {
        1: Version(1, State.AVAILABLE, "half/1"),
        2: Version(2, State.AVAILABLE, "half/2"),
        3: Version(3, State.LOADING),
        4: Version(4, State.END, failure="truncated"),
    }
    half.labels = {"stable": 1, "next": 3}
    registry.model("loading").versions = {1: Version(1, State.LOADING)}
    registry.model("broken").versions = {7: Version(7, State.END, failure="no graph")}
    registry.publish()
    return registry


def test_latest_is_the_highest_available(registry):
    assert registry.find("half") == "half/2"
    assert registry.find("half", 1) == "half/1"
    assert registry.find("half", None, "stable") == "half/1"


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (("halv",), ModelNotFound, "did you mean half?"),
        (("half", 9), ModelNotFound, "versions loaded: 1, 2"),
        (("half", 4), ModelNotFound, "its load failed: truncated"),
        (("half", 3), ModelNotReady, "Version 3 of model 'half' is still loading"),
        (("half", None, "next"), ModelNotReady, "still loading"),
        (("half", None, "canary"), LabelNotFound, "labels of this model: next, stable"),
        (("nope", None, "canary"), LabelNotFound, "labels of this model: none"),
        (("loading",), ModelNotReady, "still loading"),
        (("broken",), ModelNotFound, "the load of version 7 failed: no graph"),
    ],
)
def test_a_failed_lookup_says_why(registry, key, error, text):
    with pytest.raises(error, match=text.replace("?", r"\?")):
        registry.find(*key)


def test_unready_names_each_model_that_cannot_answer(registry):
    assert registry.unready() == [
        "loading: it is still loading",
        "broken: the load of version 7 failed: no graph",
    ]


def test_a_change_is_seen_only_once_published(registry):
    registry.model("half").versions[2].state = State.UNLOADING
    assert registry.find("half") == "half/2"
    registry.publish()
    assert registry.find("half") == "half/1"


def test_models_left_out_of_the_configuration_are_forgotten(registry):
    registry.configure(["half"])
    assert registry.find("half") == "half/2"
    with pytest.raises(ModelNotFound):
        registry.model("broken")


def test_nothing_is_known_to_be_missing_until_a_model_has_been_looked_at(registry):
    model = registry.model("half")
    model.versions.clear()
    model.is_starting = True
    registry.publish()
    for key in (("half",), ("half", 1), ("half", None, "stable")):
        with pytest.raises(ModelNotReady, match="still loading"):
            registry.find(*key)
    assert registry.unready()[0] == "half: it is still loading"
