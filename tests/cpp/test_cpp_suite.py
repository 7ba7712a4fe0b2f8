"""Builds the C++ suite with the compiler at hand and runs it: plain, and under the sanitizers.

One test per build, so that `pytest -k thread` is the ThreadSanitizer run.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Two compilers at once is what the smallest machine we care for can take.
JOBS = "2"


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["", "address", "thread"], ids=["plain", "address", "thread"])
def test_cpp_suite(sanitizer, tmp_path):
    # A build directory kept between runs (HEADRACE_CPP_BUILD) makes the second run quick.
    base = Path(os.environ.get("HEADRACE_CPP_BUILD", tmp_path))
    build = base / (sanitizer or "plain")
    _run(
        _tool("cmake"),
        *("-S", str(ROOT), "-B", str(build), "-G", "Ninja"),
        f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}",
        f"-DPython_EXECUTABLE={sys.executable}",
        "-DHEADRACE_PYTHON=OFF",
        "-DHEADRACE_TESTS=ON",
        "-DHEADRACE_WERROR=ON",
        f"-DHEADRACE_SANITIZE={sanitizer}",
        f"-DHEADRACE_BENCH={'OFF' if sanitizer else 'ON'}",
    )
    _run(_tool("cmake"), "--build", str(build), "-j", JOBS)
    _run(_tool("ctest"), "--test-dir", str(build), "--output-on-failure", "--timeout", "300")
    if not sanitizer:
        _run_each_bench_once(build)


def _run_each_bench_once(build):
    """Through their driver; each checks that the alternatives agree."""
    script = ROOT / "benchmarks" / "kernels.py"
    results = build / "results.json"
    _run(
        *(sys.executable, str(script), "--quick", "--rounds=1"),
        *(f"--build={build}", f"--json={results}"),
    )
    bodies = json.loads(results.read_text())["bodies"]
    benches = {source.stem for source in (ROOT / "benchmarks" / "native").glob("*_kernels.cpp")}
    assert {f"{body['bench']}_kernels" for body in bodies} == benches
    for body in bodies:
        # simdjson yields doubles, and to round them once more is wrong for halfway cases.
        assert not body["differs"] or body["body"] == "halfway cases", body["body"]
        assert len(body["figures"]) >= 2


def _tool(name):
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        pytest.fail(f"{name} is not installed; the extra 'test' brings it")
    return found


def _run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(command)}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}", False)
