"""JSON to tensors: ``headrace.codec.decode_predict`` against ``json``, orjson and pysimdjson.

    python benchmarks/decode.py [--quick] [--json FILE]

All turn the same body into arrays of the same dtype and shape, checked to be equal before anything
is timed. ``json`` and orjson go through lists and ``numpy.array``. pysimdjson's ``as_buffer``
yields the flat 64-bit values of the numbers, which NumPy then casts and gives the shape that the
caller knows: it checks less than the others (ragged rows pass). Of the others, the standard library
decodes base64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import simdjson

import codec_timing
from headrace.codec import decode_predict
from headrace.tensors import TensorSpec, compile_signatures

Array = np.ndarray[Any, Any]


def _body(values: Any) -> bytes:
    return json.dumps({"instances": values}).encode()


def bodies(quick: bool) -> dict[str, tuple[bytes, str, tuple[int, ...]]]:
    """The bodies, with the dtype and shape of what they hold."""
    random = np.random.default_rng(1)
    rows = 16 if quick else 256
    flat, image = (rows, 784), (max(1, rows // 64), 224, 224, 3)
    pixels = random.integers(0, 256, flat)
    unit = random.random(flat)
    short = [[round(value, 4) for value in row] for row in unit.tolist()]
    ids = random.integers(0, 50_000, (rows, 128))
    return {
        "pixels to uint8": (_body(pixels.tolist()), "uint8", flat),
        "pixels to float32": (_body(pixels.tolist()), "float32", flat),
        "RGB image to float32": (_body(random.integers(0, 256, image).tolist()), "float32", image),
        "short floats to float32": (_body(short), "float32", flat),
        "17-digit floats to float32": (_body(unit.tolist()), "float32", flat),
        "17-digit floats to float64": (_body(unit.tolist()), "float64", flat),
        "token ids to int64": (_body(ids.tolist()), "int64", ids.shape),
        "one row of 784 floats": (_body(unit[:1].tolist()), "float32", (1, 784)),
        "three values (30 bytes)": (b'{"instances": [1.0, 2.0, 5.0]}', "float32", (3,)),
    }


def _works(
    name: str, body: bytes, dtype: str, shape: tuple[int, ...]
) -> dict[str, Callable[[], Array]]:
    signatures = compile_signatures({"serving_default": {"x": TensorSpec(dtype)}})
    of_type = "d" if dtype.startswith("float") else "i"
    wide = np.float64 if of_type == "d" else np.int64
    parser = simdjson.Parser()

    def by_headrace() -> Array:
        return decode_predict(body, signatures).tensors["x"]

    def by_orjson() -> Array:
        return np.array(orjson.loads(body)["instances"], dtype)

    def by_json() -> Array:
        return np.array(json.loads(body)["instances"], dtype)

    def by_pysimdjson() -> Array:
        values = parser.parse(body)["instances"].as_buffer(of_type=of_type)
        return np.frombuffer(values, wide).astype(dtype).reshape(shape)

    works = {
        "headrace": by_headrace,
        "orjson": by_orjson,
        "pysimdjson": by_pysimdjson,
        "json": by_json,
    }
    expected = by_json()
    for alternative, work in works.items():
        array = work()
        if array.dtype != dtype or not np.array_equal(array, expected):
            raise AssertionError(f"{alternative} reads {name!r} otherwise")
    return works


def _base64_works(size: int) -> tuple[bytes, dict[str, Callable[[], Array]]]:
    image = np.random.default_rng(2).bytes(size)
    body = _body([{"b64": base64.b64encode(image).decode()}])
    signatures = compile_signatures({"serving_default": {"x": TensorSpec("string")}})
    parser = simdjson.Parser()

    def in_array(text: str | bytes) -> Array:
        return np.array([base64.b64decode(text)], object)

    def by_headrace() -> Array:
        return decode_predict(body, signatures).tensors["x"]

    def by_orjson() -> Array:
        return in_array(orjson.loads(body)["instances"][0]["b64"])

    def by_pysimdjson() -> Array:
        return in_array(parser.parse(body)["instances"][0]["b64"])

    def by_json() -> Array:
        return in_array(json.loads(body)["instances"][0]["b64"])

    works = {
        "headrace": by_headrace,
        "orjson": by_orjson,
        "pysimdjson": by_pysimdjson,
        "json": by_json,
    }
    for alternative, work in works.items():
        if work().tolist() != [image]:
            raise AssertionError(f"{alternative} reads base64 otherwise")
    return body, works


def cases(quick: bool) -> list[codec_timing.Case]:
    """Every body measured."""
    measured = []
    for name, (body, dtype, shape) in bodies(quick).items():
        works = _works(name, body, dtype, shape)
        measured.append(codec_timing.measure(name, len(body), works, quick=quick))
    body, works = _base64_works(300_000 if quick else 3_000_000)
    measured.append(codec_timing.measure("base64, one string", len(body), works, quick=quick))
    return measured


if __name__ == "__main__":
    codec_timing.run(__doc__.splitlines()[0], cases)
