"""The ``.npy`` reader against NumPy's, and against whatever else a body may hold."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from headrace.codec.npy import read_npy, write_npy
from headrace.errors import DecodeError

DTYPES = st.one_of(
    stn.boolean_dtypes(),
    stn.integer_dtypes(endianness="?"),
    stn.unsigned_integer_dtypes(endianness="?"),
    stn.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
)
ARRAYS = stn.arrays(DTYPES, stn.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))


def saved(array: Any, version: tuple[int, int] = (1, 0)) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of versions that old readers do not know
        np.lib.format.write_array(file, array, version)
    return file.getvalue()


@given(ARRAYS, st.sampled_from([(1, 0), (2, 0), (3, 0)]), st.sampled_from("CF"))
def test_what_numpy_saves_is_read(array: Any, version: tuple[int, int], order: Any) -> None:
    read = read_npy(saved(array.copy(order), version))
    assert (read.dtype, read.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(read, array)


@given(ARRAYS)
def test_round_trip_keeps_every_bit(array: Any) -> None:
    native = array.astype(array.dtype.newbyteorder("="))
    read = read_npy(write_npy(native))
    assert read.tobytes() == native.tobytes()
    np.testing.assert_array_equal(np.load(io.BytesIO(write_npy(native))), native)


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_an_array_or_refused(body: bytes, begun: bool) -> None:
    try:
        read_npy(b"\x93NUMPY\x01\x00" + body if begun else body)
    except DecodeError as error:
        assert len(error.message) < 1000


@given(st.data())
@settings(max_examples=300)
def test_near_misses_are_what_numpy_reads_or_refused(data: st.DataObject) -> None:
    body = bytearray(saved(data.draw(ARRAYS)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body)))
        cut = data.draw(st.integers(0, 3))
        body[at : at + cut] = data.draw(
            st.one_of(st.binary(max_size=3), st.sampled_from([b"0", b"9" * 20, b",", b"'", b"("]))
        )
    try:
        array = read_npy(bytes(body))
    except DecodeError:
        return
    np.testing.assert_array_equal(array, np.load(io.BytesIO(bytes(body)), allow_pickle=False))
