"""A short storm, so that it cannot rot; the README has the command for long ones."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_short_storm_finds_nothing():
    command = [sys.executable, "-m", "storm", "--seconds=10"]
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        command, cwd=tests, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-8000:]
