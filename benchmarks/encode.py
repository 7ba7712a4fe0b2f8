"""Tensors to JSON: ``headrace.codec.encode_predict`` against ``json`` and orjson's NumPy option.

    python benchmarks/encode.py [--quick] [--json FILE]

All write ``{"predictions": ...}`` of the same array, and the texts are checked to hold the same
values before anything is timed. MB/s count the bytes of Headrace's text for all of them, so that a
longer spelling of the same numbers earns nothing.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson

import codec_timing
from headrace.codec import encode_predict

Array = np.ndarray[Any, Any]


def _softmax(random: np.random.Generator, shape: tuple[int, int]) -> Array:
    exponents = np.exp(random.normal(0, 3, shape))
    return (exponents / exponents.sum(axis=1, keepdims=True)).astype(np.float32)


def bodies(quick: bool) -> dict[str, Array]:
    """The arrays: what classifiers, regressors, generators and embedders answer with."""
    random = np.random.default_rng(1)
    rows = 64 if quick else 256
    shape = (rows, 1024)
    return {
        "float32 uniform": random.random(shape, np.float32),
        "float32 softmax": _softmax(random, shape),
        "float32 whole numbers": random.integers(0, 256, shape).astype(np.float32),
        "float32 normal": random.normal(size=shape).astype(np.float32),
        "float32 rows of 4": random.random((rows * 256, 4), np.float32),
        "float32, one row of 10": random.random((1, 10), np.float32),
        "float64 uniform": random.random(shape),
        "uint8 pixels": random.integers(0, 256, (rows, 32, 32), np.uint8),
        "int64 token ids": random.integers(0, 50_000, shape),
        "bool": random.random(shape) < 0.5,
        "strings": np.array([f"class {i}: caf\u00e9" for i in range(rows * 64)], object),
    }


def _check(name: str, ours: bytes, theirs: bytes, dtype: Any) -> None:
    def values(text: bytes) -> Array:
        return np.array(json.loads(text)["predictions"], dtype)

    if not np.array_equal(values(ours), values(theirs)):
        raise AssertionError(f"the texts of {name!r} hold different values")


def _works(name: str, array: Array) -> tuple[int, dict[str, Callable[[], object]]]:
    listed = array.dtype == object  # orjson's NumPy option takes no strings

    def by_headrace() -> bytes:
        return encode_predict({"y": array}, "row")

    def by_orjson() -> bytes:
        value = array.tolist() if listed else array
        return orjson.dumps({"predictions": value}, option=orjson.OPT_SERIALIZE_NUMPY)

    def by_json() -> bytes:
        return json.dumps({"predictions": array.tolist()}).encode()

    _check(name, by_headrace(), by_orjson(), array.dtype)
    _check(name, by_headrace(), by_json(), array.dtype)
    return len(by_headrace()), {"headrace": by_headrace, "orjson": by_orjson, "json": by_json}


def _base64_works(size: int) -> tuple[int, dict[str, Callable[[], object]]]:
    image = np.random.default_rng(2).bytes(size)
    array = np.array([image], object)

    def by_headrace() -> bytes:
        return encode_predict({"y_bytes": array}, "row")

    def by_orjson() -> bytes:
        return orjson.dumps({"predictions": [{"b64": base64.b64encode(image).decode()}]})

    def by_json() -> bytes:
        body = {"predictions": [{"b64": base64.b64encode(image).decode()}]}
        return json.dumps(body, separators=(",", ":")).encode()

    if not by_headrace() == by_orjson() == by_json():
        raise AssertionError("the texts of base64 differ")
    return len(by_headrace()), {"headrace": by_headrace, "orjson": by_orjson, "json": by_json}


def cases(quick: bool) -> list[codec_timing.Case]:
    """Every body measured."""
    measured = []
    for name, array in bodies(quick).items():
        text_bytes, works = _works(name, array)
        measured.append(codec_timing.measure(name, text_bytes, works, quick=quick))
    text_bytes, works = _base64_works(300_000 if quick else 3_000_000)
    measured.append(codec_timing.measure("base64", text_bytes, works, quick=quick))
    return measured


if __name__ == "__main__":
    codec_timing.run(__doc__.splitlines()[0], cases)
