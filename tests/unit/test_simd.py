"""HEADRACE_SIMD: which instruction set the codec's kernels use, and that it decides no result."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace import _core

TESTS = Path(__file__).parents[1]
CODEC = [
    *sorted((TESTS / "unit").glob("test_codec_*.py")),
    TESTS / "property" / "test_decode_property.py",
    TESTS / "property" / "test_encode.py",
]


def run(simd, *command):
    environment = {**os.environ, "HEADRACE_SIMD": simd}
    return subprocess.run(
        [sys.executable, *command], env=environment, text=True, capture_output=True, check=False
    )


def active(simd):
    return run(simd, "-c", "from headrace import _core; print(_core.active_simd())").stdout.strip()


@pytest.mark.parametrize("simd", _core.available_simd())
def test_the_environment_chooses_among_what_the_processor_has(simd):
    assert active(simd) == simd


def test_the_fastest_is_used_where_the_environment_names_none_that_there_is():
    assert active("avx4096") == active("") == _core.available_simd()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("simd", [s for s in _core.available_simd() if s != _core.active_simd()])
def test_the_codec_passes_its_tests_with_every_variant(simd):
    done = run(simd, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, CODEC))
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
