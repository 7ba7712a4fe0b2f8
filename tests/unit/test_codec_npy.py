from __future__ import annotations

import io
import re
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from headrace.codec.npy import read_npy, write_npy
from headrace.errors import DecodeError

ARRAY = np.arange(6, dtype="<f4").reshape(2, 3)
HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"


def saved(array: Any, version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of versions that old readers do not know
        np.lib.format.write_array(file, np.asanyarray(array), version)
    return file.getvalue()


def file_of(header: str | bytes, data: bytes = ARRAY.tobytes(), version: int = 1) -> bytes:
    text = header.encode() if isinstance(header, str) else header
    size = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes((version, 0)) + size + text + data


def refusal(body: bytes) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        read_npy(body)
    assert len(caught.value.message) < 700
    return caught.value


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("descr", ["<f4", ">f4", "<i8", ">u2", "|i1", "|b1", "<f2", ">f8"])
def test_what_numpy_saves_is_read(version: tuple[int, int], order: Any, descr: str) -> None:
    array = np.arange(24).reshape(2, 3, 4).astype(descr).copy(order)
    read = read_npy(saved(array, version))
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,) * 64])
def test_scalars_nothing_and_the_highest_rank(shape: tuple[int, ...]) -> None:
    array = np.full(shape, 1.5)
    np.testing.assert_array_equal(read_npy(saved(array)), array)


def test_bfloat16_is_two_bytes_as_numpy_saves_it() -> None:
    array = np.array([1.5, -2], ml_dtypes.bfloat16)
    read = read_npy(saved(array))
    assert read.dtype == np.dtype("V2")
    np.testing.assert_array_equal(read.view(ml_dtypes.bfloat16), array)
    assert write_npy(array) == saved(array)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr':'<f4','fortran_order':False,'shape':(2,3)}",
        '{"shape": (2, 3,), "fortran_order": False, "descr": "<f4"}',
        " { 'fortran_order' : False ,\n'shape' : ( 2 , 3 ) , 'descr' : '<f4' } \n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }",
        "{'descr': '=f4', 'fortran_order': False, 'shape': (2, 3), }",
    ],
)
def test_headers_that_other_writers_write(header: str) -> None:
    np.testing.assert_array_equal(read_npy(file_of(header)), ARRAY)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "{",
        "}",
        "{}",
        "[]",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} + {}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': True}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (L,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 6}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': 'False', 'shape': (2, 3)}",
        "{'descr': True, 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': __import__('os').abort(), 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}\0",
        "ü" * 100,
        "(" * 5000,
    ],
)
def test_header_that_is_none_is_refused_with_an_example(header: str) -> None:
    error = refusal(file_of(header))
    assert error.code == "syntax"
    assert "expected a header such as {'descr': '<f4'," in error.message


@pytest.mark.parametrize("length", [0, 1, 6, 7, 8, 9, 10, 11, 20, 127])
def test_file_that_ends_too_early(length: int) -> None:
    assert refusal(saved(ARRAY)[:length]).code == "syntax"


@pytest.mark.parametrize("version", [b"\0\0", b"\1\1", b"\4\0", b"\xff\xff"])
def test_version_that_is_not_known_is_named(version: bytes) -> None:
    body = saved(ARRAY)
    error = refusal(body[:6] + version + body[8:])
    assert f"version {version[0]}.{version[1]} is not known" in error.message


def test_header_beyond_the_limit_is_refused_though_it_is_right() -> None:
    padded = HEADER + " " * (10_001 - len(HEADER))
    assert "10001 bytes is above the limit" in refusal(file_of(padded, version=2)).message
    assert "4294967295 bytes" in refusal(b"\x93NUMPY\2\0" + b"\xff" * 4).message
    np.testing.assert_array_equal(read_npy(file_of(padded[:10_000], version=2)), ARRAY)


@pytest.mark.parametrize(
    "array",
    [
        np.array([b"a", None], object),
        np.array([b"ab"]),
        np.array(["ab"]),
        np.array([1j], "c8"),
        np.array([1], "M8[s]"),
        np.array([1], "m8[s]"),
        np.zeros(2, "V3"),
        np.zeros(2, np.longdouble),
    ],
    ids=lambda array: str(array.dtype),
)
def test_pickles_and_what_is_no_number_are_refused_by_name(array: Any) -> None:
    error = refusal(saved(array))
    assert error.code == "unsupported_dtype"
    assert repr(array.dtype.str) in error.message


@pytest.mark.parametrize("descr", ["", "f", "4", "<f3", "<f4x", "x" * 10_000, "<i16", "<b2"])
def test_dtype_that_is_none_is_refused(descr: str) -> None:
    error = refusal(file_of(HEADER.replace("<f4", descr), version=2))
    assert error.code in ("unsupported_dtype", "syntax")


@pytest.mark.parametrize("extra", [-24, -1, 1, 1000])
def test_array_must_be_all_that_follows(extra: int) -> None:
    body = saved(ARRAY)
    body = body[:extra] if extra < 0 else body + bytes(extra)
    error = refusal(body)
    assert re.search(rf"takes 24 bytes, but {24 + extra} follow", error.message)
    assert error.offset == 128


@pytest.mark.parametrize(
    "shape", ["4611686018427387904, 4", "0, 9223372036854775807, 9", ", ".join(["1"] * 65)]
)
def test_shape_that_no_tensor_has(shape: str) -> None:
    assert refusal(file_of(HEADER.replace("2, 3", shape), b"")).code == "shape"


def test_any_buffer_is_read_in_place() -> None:
    body = saved(ARRAY)
    for buffer in (
        body,
        bytearray(body),
        memoryview(b"x" + body)[1:],
        np.frombuffer(body, "u1").data,
    ):
        assert np.shares_memory(read_npy(buffer), np.frombuffer(buffer, np.uint8))


@pytest.mark.parametrize("array", [ARRAY, np.array(True), np.zeros((0, 2), "<u2"), np.int8([3])])
def test_written_as_numpy_writes_it(array: Any) -> None:
    assert write_npy(array) == saved(array)
