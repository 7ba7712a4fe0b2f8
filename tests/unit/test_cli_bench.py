from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from headrace.cli import main
from headrace.cli.bench import _make_parser
from headrace.cli.docs import pages

URL = "http://127.0.0.1:1/v1/models/m:predict"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["http://h:8501"], "which model? --model NAME"),
        ([URL, "--rate=0"], "--rate"),
        ([URL, "--arrivals=sometimes"], "'sometimes' is not a valid Arrivals"),
        ([URL, "--connections=2", "--processes=3"], "each of the --processes needs one"),
        ([URL, "--plot=x.pdf"], "expected a name that ends with .png or .svg"),
        ([URL, "--header=nothing"], "expected a header such as 'Name: value'"),
        ([URL, "--body=missing.json"], "missing.json: No such file"),
        ([URL, "--cacert=missing.pem"], "missing.pem: No such file"),
        ([URL, "--token_file=missing"], "missing: No such file"),
        (["http://127.0.0.1:1/other"], "URLs that end with :predict: give a body"),
    ],
)
def test_mistakes_are_status_2_with_the_reason(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["bench", *arguments])
    assert raised.value.code == 2
    assert message in capsys.readouterr().err


def test_file_without_a_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tokens").write_text("# none\n")
    with pytest.raises(SystemExit):
        main(["bench", URL, f"--token_file={tmp_path / 'tokens'}"])
    assert "holds no token" in capsys.readouterr().err


def without(module: str) -> Callable[[str], ModuleSpec | None]:
    real = importlib.util.find_spec
    return lambda name: None if name == module else real(name)


@pytest.mark.parametrize(
    ("module", "arguments"), [("hdrh", []), ("matplotlib", ["--plot=latency.svg"])]
)
def test_missing_extra_is_told_before_anything_is_sent(
    module: str,
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", without(module))
    assert main(["bench", URL, *arguments]) == 1
    assert capsys.readouterr().err == (
        f"headrace bench: {module} is not installed: pip install 'headrace[bench]'\n"
    )


def test_page_names_flags_that_there_are() -> None:
    page = pages()["benchmarking"].read_text(encoding="utf-8")
    flags = {flag for action in _make_parser()._actions for flag in action.option_strings}
    named = set(re.findall(r"--[a-z_]+", page))
    assert named <= flags
    # And all of them but those that explain themselves.
    assert flags - named <= {
        "-h",
        *("--help", "--quiet", "--seed", "--requests", "--token-file"),
    }
