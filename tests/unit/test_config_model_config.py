from __future__ import annotations

from pathlib import Path

import pytest

from headrace.config import ModelConfig, parse_model_config
from headrace.errors import SpecError
from headrace.serving.versions import All, Latest, Policy, Specific


def one(fields: str) -> ModelConfig:
    (model,) = parse_model_config(
        f"model_config_list {{ config {{ name: 'm' base_path: '/m' {fields} }} }}"
    )
    return model


def test_a_whole_file() -> None:
    text = """
    # two models
    model_config_list: {
      config: {
        name: "half"
        base_path: "/models/half"
        model_platform: "tensorflow"
        model_version_policy: { specific: { versions: 3, versions: 5 } }
        version_labels: { key: 'stable', value: 3 }
        version_labels: { key: 'canary', value: 5 }
        logging_config { log_collector_config { type: "x" } sampling_config { sampling_rate: 0.1 } }
      },
      config { name: 'other' base_path: 'file:///models/other' }
    }
    """
    assert parse_model_config(text) == (
        ModelConfig("half", Path("/models/half"), Specific((3, 5)), {"stable": 3, "canary": 5}),
        ModelConfig("other", Path("/models/other")),
    )


@pytest.mark.parametrize("text", ["", "model_config_list {}", "# nothing"])
def test_a_file_without_models(text: str) -> None:
    assert parse_model_config(text) == ()


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("", Latest(1)),
        ("model_version_policy {}", Latest(1)),
        ("model_version_policy { latest {} }", Latest(1)),
        ("model_version_policy { latest { num_versions: 0 } }", Latest(1)),
        ("model_version_policy { latest { num_versions: 2 } }", Latest(2)),
        ("model_version_policy { all {} }", All()),
        ("model_version_policy: < all: {} >", All()),
        ("model_version_policy { specific { versions: [5, 0x10, 010] } }", Specific((5, 16, 8))),
        (
            "model_version_policy { specific { versions: 9223372036854775807 } }",
            Specific((2**63 - 1,)),
        ),
    ],
)
def test_version_policies(policy: str, expected: Policy) -> None:
    assert one(policy).policy == expected


@pytest.mark.parametrize(
    "platform", ["", "model_platform: 'tensorflow'", "model_type: TENSORFLOW", "model_type: 1"]
)
def test_platforms_that_are_tensorflow(platform: str) -> None:
    assert one(platform).name == "m"


def test_of_a_label_that_is_given_twice_the_last_counts() -> None:
    labels = "version_labels { key: 'a' value: 1 } version_labels { key: 'a' value: 2 }"
    assert one(labels).labels == {"a": 2}


def test_base_path_may_be_relative(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (model,) = parse_model_config("model_config_list{config{name:'m' base_path:'models/m'}}")
    assert model.base_path == tmp_path / "models" / "m"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("naem: 'x'", "config has no field 'naem'; did you mean 'name'?"),
        ("name: 'n'", "name is given twice"),
        ("model_platform: 'pytorch'", "model_platform: expected 'tensorflow', found 'pytorch'"),
        ("model_type: OTHER", "model_type: expected TENSORFLOW, found OTHER"),
        ("model_type: TENSORFLOW model_platform: 'tensorflow'", "exclude each other"),
        ("model_version_policy { all {} latest {} }", "all and latest exclude each other"),
        ("model_version_policy { specific {} }", "expected at least one 'versions'"),
        (
            "model_version_policy { specific { versions: -1 } }",
            "from 0 to 9223372036854775807, found -1",
        ),
        ("model_version_policy { specific { versions: 1.5 } }", "expected a whole number"),
        ("model_version_policy { specific { versions: '5' } }", "found '5'"),
        ("model_version_policy { specific { versions: 09 } }", "found 09"),
        ("model_version_policy { specific { versions: {} } }", "expected a single value"),
        ("model_version_policy: 5", "model_version_policy: expected { ... }, found '5'"),
        ("model_version_policy { all { x: 1 } }", "all has no field 'x'"),
        ("version_labels { key: 'a' }", "version_labels: 'value' is missing"),
        ("version_labels { value: 1 }", "version_labels: 'key' is missing"),
        ("version_labels { key: stable value: 1 }", "expected a string in quotes, found stable"),
    ],
)
def test_mistakes_are_named_with_their_place(fields: str, message: str) -> None:
    with pytest.raises(SpecError, match=r"^line 1, column \d+: ") as raised:
        one(fields)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "model_config_list { config { name: 'a' base_path: '/a' }\n"
            " config { name: 'a' base_path: '/b' } }",
            "line 2, column 9: a second model is called 'a'",
        ),
        ("model_config_list { config { base_path: '/a' } }", "config: 'name' is missing"),
        ("model_config_list { config { name: '' base_path: '/a' } }", "name must not be empty"),
        ("model_config_list { config { name: 'a' } }", "config: 'base_path' is missing"),
        (
            "model_config_list { config { name: 'a' base_path: 's3://b/a' } }",
            "line 1, column 40: base path 's3://b/a': expected a directory of this machine",
        ),
        ("custom_model_config {}", "custom_model_config is not supported"),
        ("config { name: 'a' }", "the file has no field 'config'"),
    ],
)
def test_mistakes_of_the_file_as_a_whole(text: str, message: str) -> None:
    with pytest.raises(SpecError) as raised:
        parse_model_config(text)
    assert message in str(raised.value)
