"""Decoding against ``json`` and NumPy, on arbitrary valid input; and on arbitrary bytes."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from decode_cases import decode_error
from headrace import TensorSpec
from headrace.codec import check_predict, decode_predict

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
shapes = npst.array_shapes(min_dims=1, max_dims=5, min_side=0, max_side=4)
settings.register_profile("decode", deadline=None, max_examples=300)
settings.load_profile("decode")


def _one(dtype: str) -> dict[str, dict[str, TensorSpec]]:
    return {"serving_default": {"x": TensorSpec(dtype)}}


def _decode(body: Any, dtype: str) -> np.ndarray:
    return decode_predict(body, _one(dtype)).tensors["x"]


def _shape_of(nested: Any) -> list[int]:
    """The shape that a value has by the rule of first elements."""
    shape = []
    while isinstance(nested, list):
        shape.append(len(nested))
        if not nested:
            break
        nested = nested[0]
    return shape


@given(st.data(), st.sampled_from(INTEGERS), st.sampled_from([None, 1, "\t"]))
def test_integer_arrays_come_back(data: st.DataObject, dtype: str, indent: Any) -> None:
    nested = data.draw(npst.arrays(dtype, shapes)).tolist()
    found = _decode(json.dumps({"inputs": nested}, indent=indent).encode(), dtype)
    assert list(found.shape) == _shape_of(nested)
    assert np.array_equal(found, np.array(nested, dtype=dtype).reshape(found.shape))


@given(npst.arrays("float64", shapes), st.sampled_from([None, 2]))
def test_float64_arrays_come_back_bit_for_bit(expected: np.ndarray, indent: Any) -> None:
    nested = expected.tolist()
    found = _decode(json.dumps({"inputs": nested}, indent=indent).encode(), "float64")
    reference = np.array(nested, dtype="float64").reshape(found.shape)
    assert np.array_equal(found, reference, equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(reference) & ~np.isnan(reference))


@given(npst.arrays("float32", shapes))
def test_float32_arrays_come_back_from_either_spelling(expected: np.ndarray) -> None:
    spellings = {"long": float, "short": lambda value: _number(str(value))}
    for spell in spellings.values():
        text = json.dumps([spell(v) for v in expected.ravel()]).replace('"', "")
        found = _decode(b'{"inputs":' + text.encode() + b"}", "float32")
        assert np.array_equal(found, expected.ravel(), equal_nan=True)


def _number(text: str) -> str:
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text)


decimals = st.from_regex(
    r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?", fullmatch=True
)


@given(st.lists(decimals, min_size=1, max_size=20), st.sampled_from(FLOATS))
def test_decimal_text_is_rounded_correctly_to_every_float(texts: list[str], dtype: str) -> None:
    found = _decode(f'{{"inputs":[{",".join(texts)}]}}'.encode(), dtype)
    for value, text in zip(found, texts, strict=True):
        _assert_nearest(value, Fraction(text))


def _assert_nearest(value: Any, exact: Fraction) -> None:
    """Among the neighbours none is nearer, and at equal distance the even one was taken."""
    kind = value.dtype.type
    bits = f"u{value.dtype.itemsize}"
    largest = Fraction(float(ml_dtypes.finfo(kind).max))
    if not np.isfinite(value):
        below = np.array(ml_dtypes.finfo(kind).max, kind)
        last = np.array(below.view(bits) - 1, bits).view(kind)
        assert abs(exact) >= largest + (largest - Fraction(float(last))) / 2
        return
    magnitude = int(np.array(abs(value), kind).view(bits))
    distance = abs(Fraction(float(value)) - exact)
    for neighbour in (magnitude - 1, magnitude + 1):
        other = np.array(max(neighbour, 0), bits).view(kind)
        if not np.isfinite(other):
            continue
        gap = abs(Fraction(float(other)) - abs(exact))
        assert distance < gap or (distance == gap and magnitude % 2 == 0) or neighbour < 0


@given(
    st.recursive(st.text() | st.binary(), lambda inner: st.lists(inner, max_size=4)), st.booleans()
)
def test_strings_come_back_or_are_ragged(value: Any, ascii_only: bool) -> None:
    body = json.dumps({"inputs": _to_json(value)}, ensure_ascii=ascii_only)
    try:
        encoded = body.encode()
    except UnicodeEncodeError:
        encoded = body.encode("utf-8", "surrogatepass")
    error = decode_error(encoded, _one("string"))
    if error is None:
        assert _decode(encoded, "string").tolist() == _to_bytes(value)
    else:
        assert error.code in ("ragged", "syntax", "invalid_utf8")


def _to_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    if isinstance(value, bytes):
        import base64

        return {"b64": base64.b64encode(value).decode()}
    return value


def _to_bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_to_bytes(item) for item in value]
    return value if isinstance(value, bytes) else value.encode()


leaves = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5)
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["x", "y", "b64", "é"]), inner, max_size=3)
    ),
    max_leaves=12,
)
documents = st.dictionaries(
    st.sampled_from(["instances", "inputs", "signature_name", "k"]), values, max_size=4
)
DTYPES = [*INTEGERS, *FLOATS, "bool", "string", "complex64"]


@given(documents, st.sampled_from(DTYPES), st.booleans())
def test_valid_json_never_is_a_syntax_error(document: Any, dtype: str, several: bool) -> None:
    body = json.dumps(document).encode()
    inputs = {"x": TensorSpec(dtype)} | ({"y": TensorSpec("float32")} if several else {})
    error = decode_error(body, {"serving_default": inputs})
    lone_surrogate = b"\\ud" in body
    if error is not None and not lone_surrogate:
        assert error.code not in ("syntax", "invalid_utf8")


TOKENS = [
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"',
        b'"x"',
        b'"instances"',
        b'"inputs"',
        b"1",
        b"-0.5e3",
    ),
    *(
        b"true",
        b"null",
        b"NaN",
        b"-Infinity",
        b" ",
        b"\\u00e9",
        b"\xff",
        b"\x00",
        b'{"b64":"QQ=="}',
    ),
]
json_like = st.lists(st.sampled_from(TOKENS), max_size=30).map(b"".join)


@given(st.binary(max_size=200) | json_like, st.sampled_from(DTYPES), st.integers(0, 20))
def test_arbitrary_bytes_raise_decode_errors_only(body: bytes, dtype: str, slack: int) -> None:
    outcomes = []
    for buffer in (body, memoryview(b"[" + body + b"]" * slack)[1 : 1 + len(body)]):
        error = decode_error(buffer, _one(dtype))
        if error is not None:
            outcomes.append((error.code, error.offset, error.path, error.message))
        else:
            check_predict(buffer)
            found = _decode(buffer, dtype)
            outcomes.append((found.shape, found.tolist() if dtype == "string" else found.tobytes()))
    assert outcomes[0] == outcomes[1]


@given(npst.arrays("float32", st.integers(1, 60)), st.integers(0, 64))
def test_any_alignment_gives_the_same(values: np.ndarray, shift: int) -> None:
    text = json.dumps([_number(str(v)) for v in values]).replace('"', "").encode()
    body = b'{"inputs":' + text + b"}"
    shifted = bytearray(shift) + body
    found = _decode(memoryview(shifted)[shift:], "float32")
    assert found.tobytes() == _decode(body, "float32").tobytes()


def test_the_reference_of_this_module_sees_a_wrong_rounding() -> None:
    _assert_nearest(np.float32(16777218), Fraction(16777217) + Fraction(1, 10**9))
    with pytest.raises(AssertionError):
        _assert_nearest(np.float32(16777216), Fraction(16777217) + Fraction(1, 10**9))
