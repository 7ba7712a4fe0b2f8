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
