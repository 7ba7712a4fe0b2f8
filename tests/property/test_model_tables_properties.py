from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.config import ModelConfig
from headrace.config.model_tables import models_from_tables, models_to_toml
from headrace.config.toml_places import parse_toml
from headrace.serving.versions import MAX_VERSION, All, Latest, Specific

numbers = st.integers(0, MAX_VERSION)
models = st.builds(
    ModelConfig,
    name=st.text(min_size=1),
    base_path=st.just(Path("/models/m")),
    policy=st.one_of(
        st.builds(Latest, st.integers(1, 9)),
        st.just(All()),
        st.builds(Specific, st.lists(numbers, min_size=1).map(tuple)),
    ),
    labels=st.dictionaries(st.text(), numbers),
)


@settings(deadline=None, max_examples=50)
@given(st.lists(models, unique_by=lambda model: model.name))
def test_what_is_written_reads_back_as_the_same(written: list[ModelConfig]) -> None:
    text = models_to_toml(written)
    assert models_from_tables(parse_toml(text).get("model", [])) == tuple(written)
