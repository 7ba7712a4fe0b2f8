"""What is encoded reads back, by ``json`` and NumPy, for any values, dtypes and shapes."""

from __future__ import annotations

import base64
import json
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from headrace.codec import encode_error, encode_predict

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def bits(array: np.ndarray) -> bytes:
    """Bytes that tell -0.0 from 0.0 and hold every NaN for the same."""
    return np.where(np.isnan(array), np.array(np.nan, array.dtype), array).tobytes()


@given(hnp.arrays(st.sampled_from([*INTEGERS, *FLOATS, "bool"]), SHAPES), st.booleans())
def test_numbers_read_back_bit_for_bit(array: np.ndarray, pretty: bool) -> None:
    parsed = json.loads(encode_predict({"y": array}, "columnar", pretty=pretty))["outputs"]
    again = np.array(parsed, array.dtype).reshape(array.shape)
    if array.dtype.kind == "f":
        assert bits(again) == bits(array)
    else:
        assert again.tobytes() == array.tobytes()
    if 0 not in array.shape:
        assert np.array(parsed, array.dtype).shape == array.shape


@given(hnp.arrays("uint16", st.integers(1, 50)))
def test_bfloat16_reads_back(values: np.ndarray) -> None:
    array = values.view(ml_dtypes.bfloat16)
    again = np.array(json.loads(encode_predict({"y": array}, "row"))["predictions"])
    again = again.astype(ml_dtypes.bfloat16)
    finite = ~np.isnan(array.astype("float32"))
    assert (again.view("uint16") == values)[finite].all()
    assert np.isnan(again.astype("float32")[~finite]).all()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_float64_is_spelled_as_json_dumps_spells_it(values: list[float]) -> None:
    body = encode_predict({"y": np.array(values)}, "row")
    assert body == json.dumps({"predictions": values}, separators=(",", ":")).encode()


@given(st.lists(st.text(), min_size=1), st.booleans())
def test_strings_read_back(values: list[str], pretty: bool) -> None:
    array = np.array([value.encode() for value in values], object)
    body = encode_predict({"y": array, "y_bytes": array}, "row", pretty=pretty)
    rows = json.loads(body)["predictions"]
    assert [row["y"] for row in rows] == values
    assert [base64.b64decode(row["y_bytes"]["b64"]).decode() for row in rows] == values


@given(st.lists(st.binary(), min_size=1))
def test_invalid_utf8_as_b64_tells_text_from_bytes(values: list[bytes]) -> None:
    array = np.array([*values, None], object)[:-1]  # one dimension, whatever the values
    body = encode_predict({"y": array}, "row", invalid_utf8="b64")
    for value, read in zip(values, json.loads(body)["predictions"], strict=True):
        if isinstance(read, dict):
            assert base64.b64decode(read["b64"], validate=True) == value
        else:
            assert read.encode() == value


@given(st.binary())
def test_error_bodies_replace_as_python_does(message: bytes) -> None:
    body = encode_error(message).decode("utf-8")
    assert json.loads(body)["error"] == message.decode(errors="replace")


@given(st.data())
def test_rows_are_the_slices_of_every_output(data: Any) -> None:
    rows = data.draw(st.integers(0, 4))
    outputs = {
        name: data.draw(
            hnp.arrays("int32", hnp.array_shapes(min_dims=0, max_dims=2).map(lambda s: (rows, *s)))
        )
        for name in data.draw(st.sets(st.text(max_size=3), min_size=2, max_size=4))
    }
    parsed = json.loads(encode_predict(outputs, "row"))["predictions"]
    assert parsed == [
        {name: array[row].tolist() for name, array in outputs.items()} for row in range(rows)
    ]
