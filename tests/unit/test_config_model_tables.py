from __future__ import annotations

from pathlib import Path

import pytest

from headrace.config import ModelConfig
from headrace.config.model_tables import models_from_tables, models_to_toml
from headrace.config.toml_places import TomlMistake, line_of, shown
from headrace.errors import SpecError
from headrace.serving.versions import MAX_VERSION, All, Latest, Policy, Specific

M = {"name": "m", "base_path": "/m"}


@pytest.mark.parametrize(
    ("versions", "policy"),
    [
        ("latest", Latest(1)),
        ("all", All()),
        ({"latest": 2}, Latest(2)),
        ([3, 5], Specific((3, 5))),
        ([0], Specific((0,))),
    ],
)
def test_versions(versions: object, policy: Policy) -> None:
    (model,) = models_from_tables([{**M, "versions": versions}])
    assert model == ModelConfig("m", Path("/m"), policy)


def test_models_in_their_order_with_labels() -> None:
    tables = [{**M, "labels": {"stable": 3}}, {"name": "a", "base_path": "file:///a"}]
    assert models_from_tables(tables) == (
        ModelConfig("m", Path("/m"), Latest(), {"stable": 3}),
        ModelConfig("a", Path("/a")),
    )


@pytest.mark.parametrize(
    ("table", "mistake"),
    [
        ({"nam": "m"}, "model[0].nam: unknown key; did you mean 'name'?"),
        ({"base_path": "/m"}, "model[0]: 'name' is missing"),
        ({"name": "m"}, "model[0]: 'base_path' is missing"),
        ({**M, "name": ""}, "model[0].name: expected a string that is not empty, found ''"),
        ({**M, "base_path": 5}, "model[0].base_path: expected a string that is not empty, found 5"),
        ({**M, "base_path": "s3://b"}, "model[0].base_path: base path 's3://b': expected a dir"),
        ({**M, "versions": "newest"}, 'model[0].versions: expected "latest", "all", { latest'),
        ({**M, "versions": []}, "found []"),
        ({**M, "versions": [1, -1]}, "found [1, -1]"),
        ({**M, "versions": [True]}, "found [True]"),
        ({**M, "versions": {"latest": 0}}, "found {'latest': 0}"),
        ({**M, "versions": {"latest": 1, "all": 1}}, "found {'latest': 1, 'all': 1}"),
        ({**M, "labels": [3]}, "model[0].labels: expected a table such as { stable = 3 }"),
        ({**M, "labels": {"a": "3"}}, "model[0].labels.a: expected a whole number from 0 to"),
        ({**M, "labels": {"a": MAX_VERSION + 1}}, f"found {MAX_VERSION + 1}"),
    ],
)
def test_mistakes_are_named_with_their_place(table: dict[str, object], mistake: str) -> None:
    with pytest.raises(TomlMistake) as raised:
        models_from_tables([table])
    assert mistake in str(raised.value)


@pytest.mark.parametrize("tables", [{}, "m", [1]])
def test_models_are_an_array_of_tables(tables: object) -> None:
    with pytest.raises(TomlMistake, match=r"model: expected tables that begin with \[\[model\]\]"):
        models_from_tables(tables)


def test_second_model_of_a_name_is_refused() -> None:
    with pytest.raises(TomlMistake, match=r"model\[1\].name: a second model is called 'm'"):
        models_from_tables([M, M])


def test_path_that_is_not_utf8_cannot_be_written() -> None:
    with pytest.raises(SpecError, match="is not UTF-8"):
        models_to_toml([ModelConfig("m", Path("/\udcff"))])


TEXT = """\
# a comment
[server]
port = 1

a = [
  1,
]
b = 2

[[model]]
name = "a"
[[model]]
name = '''
[[model]]
'''
labels = { x = 1, y = 2 }"""


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("server",), 2),
        (("server", "port"), 3),
        (("server", "a"), 5),
        (("server", "b"), 8),
        (("model", 0), 10),
        (("model", 0, "name"), 11),
        (("model", 1), 12),
        (("model", 1, "name"), 13),
        (("model", 1, "labels", "y"), 16),
    ],
)
def test_line_of_a_key_is_where_it_begins(keys: tuple[str | int, ...], line: int) -> None:
    assert line_of(TEXT, keys) == line


def test_place_reads_like_a_path() -> None:
    assert shown(("model", 1, "labels", "stable")) == "model[1].labels.stable"
