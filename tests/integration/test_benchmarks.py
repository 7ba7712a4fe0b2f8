"""The scripts of benchmarks/: each starts, and those that need no peer also measure, shortly."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PARTS = {
    *("audio_model", "python_models"),
    *("client", "codec_timing", "contenders", "harness", "load", "models", "plots", "processes"),
}
"""What scripts share."""
SCRIPTS = sorted({script.stem for script in BENCHMARKS.glob("*.py")} - PARTS)
NEEDS = {"decode": "orjson", "encode": "orjson"}


def script(name: str, *arguments: str) -> str:
    """What it prints."""
    if name in NEEDS and find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed; the extra 'peers' brings it")
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def quick(name: str, folder: Path, *arguments: str) -> Any:
    """The figures of a trial, whose report must have a table."""
    file = folder / f"{name}.json"
    assert "| --- |" in script(name, "--quick", f"--json={file}", *arguments)
    return json.loads(file.read_text())


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_says_what_is_measured(name: str) -> None:
    assert script(name, "--help").startswith(f"usage: {name}.py")


def test_readme_lists_every_script() -> None:
    text = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    for name in SCRIPTS:
        assert f"| `{name}.py` |" in text, name


def test_ring_moves_messages_by_every_means(tmp_path: Path) -> None:
    messages = quick("ring", tmp_path, f"--plot={tmp_path / 'ring.svg'}")["messages"]
    assert len(messages) >= 5
    for case in messages:
        assert case["seconds"].keys() >= {"headrace", "pipe", "queue"}
        assert all(second > 0 for figures in case["seconds"].values() for second in figures)
    assert "<svg" in (tmp_path / "ring.svg").read_text()


def test_tail_measures_small_requests_with_and_without_large_ones(tmp_path: Path) -> None:
    figures = quick(
        "tail", tmp_path, "--rate=50", "--seconds=0.5", f"--plot={tmp_path / 'tail.svg'}"
    )
    without, with_large = figures["bursts"].values()
    assert without["large_answers"] == [0]
    assert with_large["large_answers"][0] >= 1
    assert with_large["p99_ms"]["median"] / without["p99_ms"]["median"] == pytest.approx(
        figures["p99_ratio"]["median"]
    )
    assert "<svg" in (tmp_path / "tail.svg").read_text()


def test_memory_accounts_for_a_body(tmp_path: Path) -> None:
    requests = quick("memory", tmp_path, "--large_bytes=20000000")["requests"]
    assert len(requests) == 2
    for request in requests:
        assert request["body"] == pytest.approx(20e6, rel=0.01)
        # A body is received as a whole before it is decoded.
        assert request["peak"] - request["idle"] > request["body"]
        assert request["overhead"] == request["peak"] - sum(
            request[part] for part in ("idle", "body", "tensors", "reply")
        )


@pytest.mark.slow
@pytest.mark.tensorflow
def test_echo_is_measured_in_turn_with_a_server_that_runs_the_model(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    figures = quick("echo", tmp_path, "--rounds=1", "--connections=4")
    headrace, echo = figures["servers"]
    rates = [
        server["rounds"][0]["load"]["requests"] / server["rounds"][0]["load"]["duration_us"]
        for server in (headrace, echo)
    ]
    assert figures["share"]["median"] == pytest.approx(rates[0] / rates[1])
    assert (headrace["server"], echo["server"]) == ("headrace", "echo")
