from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest

from headrace.codec.raw import numpy_dtype, raw_bytes, read_raw, tensor_bytes
from headrace.errors import DecodeError


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((), 4), ((0,), 0), ((2, 3), 24), ((1,) * 64, 4), ((2**61 - 1,), 4 * (2**61 - 1))],
)
def test_bytes_of_a_shape(shape: tuple[int, ...], expected: int) -> None:
    assert tensor_bytes(shape, 4) == expected


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1,) * 65, "rank 65 is above the limit of 64"),
        ((2, -1), r"shape \[2,-1\] has a negative extent"),
        ((2**61,), "larger than any memory"),
        ((2**32, 2**32), "larger than any memory"),
        ((0, 2**62, 2**62), "larger than any memory"),
        ((2**63,) * 64, "larger than any memory"),
    ],
)
def test_shape_that_no_tensor_has(shape: Sequence[int], message: str) -> None:
    with pytest.raises(DecodeError, match=message) as caught:
        tensor_bytes(shape, 4)
    assert caught.value.code == "shape"


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_array_of_bytes_and_bytes_of_the_array(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.ones(shape, numpy_dtype(dtype))
    body = raw_bytes(array)
    assert (body.ndim, body.format, len(body)) == (1, "B", array.nbytes)
    again = read_raw(body, numpy_dtype(dtype), shape)
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(again, array)


def test_bfloat16_is_that_of_ml_dtypes() -> None:
    assert numpy_dtype("bfloat16") == np.dtype(ml_dtypes.bfloat16)


def test_bytes_are_those_of_c_order() -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    assert bytes(raw_bytes(np.asfortranarray(array))) == array.tobytes()


def test_views_share_the_memory() -> None:
    body = bytearray(8)
    array = read_raw(body, np.dtype("<i4"), (2,))
    body[0] = 7
    assert array[0] == 7
    assert np.shares_memory(array, np.frombuffer(raw_bytes(array), np.uint8))


@pytest.mark.parametrize("size", [0, 23, 25, 48])
def test_body_of_another_size_is_refused_with_both(size: int) -> None:
    message = rf"shape \[2,3\] of float32 takes 24 bytes, but the body has {size}"
    with pytest.raises(DecodeError, match=message):
        read_raw(bytes(size), np.dtype("f4"), (2, 3))
