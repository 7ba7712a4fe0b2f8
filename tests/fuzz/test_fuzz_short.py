"""A short run of each fuzzer, so that it cannot rot; the README has the command for long ones."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("target", ["fuzz_decode.py", "fuzz_http.py"])
def test_short_run_finds_nothing(target, tmp_path):
    pytest.importorskip("atheris", reason="no wheel of atheris for this Python and machine")
    command = [sys.executable, str(HERE / target), "-max_total_time=15", "-max_len=2048"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Done" in done.stderr
