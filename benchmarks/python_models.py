"""Models in Python for benchmarks of what is around the model: they cost next to nothing."""

from __future__ import annotations

import json
import random
from pathlib import Path

COLUMNS = 784
LARGE_BYTES = 50_000_000

_SOURCE = """
class Model:
    signatures = {
        "serving_default": {
            "inputs": {"x": ("float32", SHAPE)},
            "outputs": {"y": ("float32", SHAPE)},
        }
    }

    def predict(self, inputs):
        return {"y": inputs["x"]}
"""


def write_echo(directory: Path, name: str, shape: tuple[int | None, ...]) -> Path:
    """A model that answers with what it was sent; its base path."""
    version = directory / name / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(_SOURCE.replace("SHAPE", repr(shape)))
    return version.parent


def large_body(text_bytes: int) -> tuple[bytes, int]:
    """A body of about so many bytes for rows of `COLUMNS` floats, and how many rows it has.

    17 digits a number, as Python writes doubles; one row's text again and again.
    """
    draw = random.Random(1)
    row = json.dumps([draw.random() for _ in range(COLUMNS)]).encode()
    rows = max(1, text_bytes // (len(row) + 2))
    return b'{"instances": [' + b", ".join([row] * rows) + b"]}", rows
