"""The examples of the documentation say the truth, as far as that can be told without a server."""

from __future__ import annotations

import base64
import json
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from headrace.cli.configuration import parse_config_file
from headrace.cli.docs import pages
from headrace.errors import SpecError

README = Path(__file__).parents[2] / "README.md"


class Example(NamedTuple):
    """A curl command and what is printed below it."""

    page: str
    model: str
    verb: str
    body: Any
    answer: Any


def examples() -> list[Example]:
    """Every request by curl on the pages, and in the README."""
    found = []
    for page, path in [*pages().items(), ("README", README)]:
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        for command, answer in re.findall(
            r"^(curl -d .*)\n(?:```\n\n```json\n|# )(.*)$", text, re.MULTILINE
        ):
            _, _, body, url = shlex.split(command)
            model, _, verb = url.rpartition("/")[2].partition(":")
            found.append(Example(page, model, verb, json.loads(body), json.loads(answer)))
    return found


def half_plus_three(body: Any) -> Any:
    x = body.get("instances", body.get("inputs"))
    if isinstance(x, dict):
        x = x["x"]
    y = [(row["x"] if isinstance(row, dict) else row) / 2 + 3 for row in x]
    return {"predictions" if "instances" in body else "outputs": y}


def half_plus_three_of_examples(body: Any, verb: str) -> Any:
    examples = [body.get("context", {}) | example for example in body["examples"]]
    y = [example["x"] / 2 + 3 for example in examples]
    return {"results": y if verb == "regress" else [[["", value]] for value in y]}


def text_length(body: Any) -> Any:
    """Runs the model that the page shows."""
    source = re.search(r"```python\n(.*?)```", pages()["python-models"].read_text(), re.DOTALL)
    assert source is not None
    namespace: dict[str, Any] = {}
    exec(source[1], namespace)
    texts = [
        base64.b64decode(row["b64"]) if isinstance(row, dict) else row.encode()
        for row in body["instances"]
    ]
    outputs = namespace["Model"]().predict({"text": np.array(texts, dtype=object)})
    assert outputs.keys() == namespace["Model"].signatures["serving_default"]["outputs"].keys()
    return {
        "predictions": [
            {"length": int(length), "text_bytes": {"b64": base64.b64encode(text).decode()}}
            for length, text in zip(outputs["length"], outputs["text_bytes"], strict=True)
        ]
    }


def test_there_are_examples_on_each_page_that_has_requests() -> None:
    assert {example.page for example in examples()} == {
        "README",
        "python-models",
        "quickstart",
        "rest-api",
    }


@pytest.mark.parametrize("example", examples(), ids=lambda e: f"{e.page}: {json.dumps(e.body)}")
def test_answer_is_what_the_model_computes(example: Example) -> None:
    if example.model == "half_plus_thre":
        assert "Latest(half_plus_thre) (did you mean half_plus_three?)" in example.answer["error"]
        return
    if example.verb != "predict":
        answer = half_plus_three_of_examples(example.body, example.verb)
        assert json.dumps(answer) == json.dumps(example.answer)
        return
    model = {"half_plus_three": half_plus_three, "text_length": text_length}[example.model]
    assert json.dumps(model(example.body)) == json.dumps(example.answer)


def test_configuration_file_of_the_page_is_one() -> None:
    text = pages()["configuration"].read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    file = parse_config_file(example)
    assert file.models is not None
    assert [model.name for model in file.models] == ["half_plus_three", "text_length"]
    keys = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert keys == ["name", "base_path", "versions", "labels"]


def test_refusal_that_the_page_shows_is_what_is_said() -> None:
    text = pages()["configuration"].read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (shown,) = re.findall(r"--config=headrace\.toml: (.*)", text)
    with pytest.raises(SpecError) as raised:
        parse_config_file(example.replace("max_body_bytes", "max_bodi_bytes"))
    assert str(raised.value) == shown
