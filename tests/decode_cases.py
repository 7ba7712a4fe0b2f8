"""The decode vectors, as the Python suites read them. Format: ``tests/vectors/README.md``."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headrace import DecodeError, TensorSpec
from headrace.codec import decode_predict

VECTORS = Path(__file__).parent / "vectors"
FILES = ("decode.jsonl", "decode-oracle.jsonl", "decode-errors.jsonl")
FLOATS = ("float16", "half", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class DecodeCase:
    id: str
    body: bytes
    signatures: dict[str, dict[str, TensorSpec]]
    options: dict[str, Any]
    expect: dict[str, Any]


def load_cases() -> list[DecodeCase]:
    deviations = json.loads((VECTORS / "decode-deviations.json").read_text())
    cases = []
    for file in FILES:
        for line in (VECTORS / file).read_text().splitlines():
            raw = json.loads(line)
            body = base64.b64decode(raw["body_b64"]) if "body_b64" in raw else raw["body"].encode()
            expect = deviations["cases"].get(raw["id"], raw)["expect"]
            inputs = {name: _spec(spec) for name, spec in raw["inputs"].items()}
            signatures = {raw.get("signature", "serving_default"): inputs}
            cases.append(DecodeCase(raw["id"], body, signatures, raw.get("options", {}), expect))
    return cases


def _spec(raw: str | dict[str, Any]) -> TensorSpec:
    return TensorSpec(raw) if isinstance(raw, str) else TensorSpec(raw["dtype"], raw["shape"])


def decode_error(body: Any, signatures: Any, **options: Any) -> DecodeError | None:
    """The error that a body gives, checked for what every error must have; None: it decodes."""
    try:
        decode_predict(body, signatures, **options)
    except DecodeError as caught:
        error = caught
    else:
        return None
    assert error.offset is not None
    assert 0 <= error.offset <= len(body)
    error.message.encode()
    error.path.encode()
    return error


def check(case: DecodeCase, body: Any = None) -> None:
    """Decode, and assert that the answer is what the case says."""
    body = case.body if body is None else body
    error = decode_error(body, case.signatures, **case.options)
    if error is not None:
        check_error(case, error)
        return
    assert "error" not in case.expect
    request = decode_predict(body, case.signatures, **case.options)
    assert request.format == case.expect["format"]
    assert set(request.tensors) == set(case.expect["tensors"])
    (inputs,) = case.signatures.values()
    for name, tensor in case.expect["tensors"].items():
        array = request.tensors[name]
        assert list(array.shape) == tensor["shape"]
        assert array.size == len(tensor["values"])
        check_values(inputs[name].dtype, array, tensor["values"])


def check_error(case: DecodeCase, error: DecodeError) -> None:
    assert "error" in case.expect, error.message
    for part in case.expect.get("contains", ()):
        assert part in error.message
    for attribute in ("code", "offset", "path"):
        if attribute in case.expect:
            assert getattr(error, attribute) == case.expect[attribute], error.message
    if case.expect["error"] == 501:
        assert error.code == "unsupported_dtype"


def check_values(dtype: str, array: np.ndarray, expected: list[Any]) -> None:
    if dtype == "string":
        assert [base64.b64encode(item).decode() for item in array.ravel()] == expected
        return
    if dtype not in FLOATS:
        assert array.ravel().tolist() == expected
        return
    bits = np.array([int(item, 16) for item in expected], dtype=f"u{array.itemsize}")
    wanted = bits.view(array.dtype)
    found = array.reshape(-1)
    same = (found.view(bits.dtype) == bits) | (np.isnan(found) & np.isnan(wanted))
    assert same.all(), (found[~same], wanted[~same])
