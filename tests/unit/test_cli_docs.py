from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from headrace.cli import demo, main
from headrace.cli.docs import pages
from headrace.cli.flag_table import HEADRACE_FLAGS, TF_SERVING_FLAGS
from headrace.cli.flags import Flag
from headrace.cli.serve_flags import make_parser, parse_arguments
from headrace.dialects.tfserving import metrics as tfserving
from headrace.serving import metrics as conventional

TOPICS = [
    "benchmarking",
    "configuration",
    "metrics",
    "moving-from-tensorflow-serving",
    "operations",
    "python-models",
    "quickstart",
    "rest-api",
    "security",
]
FLAG_NAMES = {flag.name for flag in (*HEADRACE_FLAGS, *TF_SERVING_FLAGS)}


def text(topic: str) -> str:
    return pages()[topic].read_text(encoding="utf-8")


def row(flag: Flag) -> str:
    """A flag as the documentation's tables have it."""
    default = f"`{flag.shown_default}`" if flag.shown_default else ""
    last = f"no: {flag.ignored}" if flag.ignored else "yes"
    meaning = flag.meaning.replace("|", "\\|")
    return f"| `{flag.name}` | {default} | {meaning} | {last} |"


def shell_lines() -> list[tuple[str, str]]:
    """Every command line in a fenced block, joined over its continuations."""
    return [
        (topic, line)
        for topic in TOPICS
        for block in re.findall(r"```sh\n(.*?)```", text(topic), re.DOTALL)
        for line in block.replace("\\\n", " ").splitlines()
        if line.strip() and not line.startswith("#")
    ]


def test_list_has_each_topic_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == TOPICS
    assert all(len(line.split()) > 1 for line in lines)


@pytest.mark.parametrize("topic", TOPICS)
def test_topic_is_printed(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", topic]) == 0
    assert capsys.readouterr().out == text(topic)
    assert text(topic).startswith("# ")


def test_unknown_topic_is_status_2_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["docs", "quikstart"])
    assert raised.value.code == 2
    assert "no page 'quikstart'; did you mean 'quickstart'?" in capsys.readouterr().err


def test_page_on_moving_has_every_flag_as_the_table_has_it() -> None:
    page = text("moving-from-tensorflow-serving")
    found = [line for line in page.splitlines() if line.startswith("| `")]
    assert found == [row(flag) for flag in TF_SERVING_FLAGS]


def test_page_on_operations_has_headraces_own_flags() -> None:
    found = [line for line in text("operations").splitlines() if line.startswith("| `--")]
    assert found == [
        f"| `--{flag.name}` | {f'`{flag.shown_default}`' if flag.shown_default else ''} "
        f"| {flag.meaning} |"
        for flag in HEADRACE_FLAGS
    ]


def test_page_on_metrics_has_each_of_them() -> None:
    found = [line for line in text("metrics").splitlines() if line.startswith("| `")]
    assert found == [
        f"| `{metric.name}` | {metric.kind} | {', '.join(f'`{label}`' for label in metric.labels)} "
        f"| {metric.meaning} |"
        for metric in (*conventional.CATALOGUE, *tfserving.CATALOGUE)
    ]


@pytest.mark.parametrize("topic", TOPICS)
def test_flags_that_a_page_names_exist(topic: str) -> None:
    named = {name for line in text(topic).splitlines() for name in re.findall(r"`--(\w+)", line)}
    if topic == "benchmarking":  # another command, see test_cli_bench.py
        return
    assert named <= FLAG_NAMES | {"version", "url", "model", "signature", "directory"}


@pytest.mark.parametrize("topic", TOPICS)
def test_pages_that_a_page_names_exist(topic: str) -> None:
    assert set(re.findall(r"headrace docs ([\w-]+)", text(topic))) <= set(TOPICS)


def test_serve_commands_parse_without_an_unknown_flag() -> None:
    commands = [shlex.split(line) for _, line in shell_lines()]
    served = [words[2:] for words in commands if words[:2] == ["headrace", "serve"]]
    assert len(served) >= 3
    for arguments in served:
        assert parse_arguments(make_parser(), arguments).unknown == ()


def test_pages_have_no_path_or_host_of_one_machine() -> None:
    for topic in TOPICS:
        assert not re.search(r"/(work|root|home)/|pypi\.org", text(topic)), topic


def test_demo_says_what_to_try_for_the_url_it_serves() -> None:
    said = demo.things_to_try("http://[::1]:9000", Path("/models/half_plus_three"))
    url = "http://[::1]:9000/v1/models/half_plus_three:predict"
    assert f"curl -d '{{\"instances\": [1.0, 2.0, 5.0]}}' {url}" in said
    assert "http://[::1]:9000/readyz" in said
