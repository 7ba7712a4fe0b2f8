"""Bytes without any frame to arrays and back: little-endian, in C order, dtype and shape apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from headrace.errors import DecodeError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer

__all__ = ["numpy_dtype", "raw_bytes", "read_raw", "shape_text", "tensor_bytes"]

_MAX_RANK: Final = 64
_MAX_BYTES: Final = 2**63 - 1


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype by the name that a `TensorSpec` has; not for strings."""
    if name == "bfloat16":
        import ml_dtypes

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(name)


def shape_text(shape: Sequence[int | None]) -> str:
    """``[2,3]``, as messages write a shape."""
    return "[" + ",".join(map(str, shape)) + "]"


def tensor_bytes(shape: Sequence[int], item_bytes: int) -> int:
    """Bytes of a tensor.

    Raises:
        DecodeError: ``shape``: no tensor can have it.
    """
    if len(shape) > _MAX_RANK:
        raise DecodeError(f"rank {len(shape)} is above the limit of {_MAX_RANK}", code="shape")
    if any(extent < 0 for extent in shape):
        raise DecodeError(f"shape {shape_text(shape)} has a negative extent", code="shape")
    # NumPy wants room for the extents that are not 0, even where there is nothing to hold.
    if math.prod(extent for extent in shape if extent) * item_bytes > _MAX_BYTES:
        raise DecodeError(
            f"shape {shape_text(shape)} is larger than any memory is addressed", code="shape"
        )
    return math.prod(shape) * item_bytes


def read_raw(body: Buffer, dtype: np.dtype[Any], shape: Sequence[int]) -> NDArray[Any]:
    """The array whose bytes these are; a view of them.

    Raises:
        DecodeError: ``structure`` where they are more or fewer; as `tensor_bytes`.
    """
    found = memoryview(body).nbytes
    expected = tensor_bytes(shape, dtype.itemsize)
    if found != expected:
        raise DecodeError(
            f"shape {shape_text(shape)} of {dtype.name} takes {expected} bytes, "
            f"but the body has {found}"
        )
    return np.ndarray(tuple(shape), dtype, memoryview(body))


def raw_bytes(array: NDArray[Any]) -> memoryview:
    """The bytes of an array; a view of it where it lies in C order."""
    # Not array.data: buffers know nothing of bfloat16, and cannot be cast without elements.
    return np.ravel(array).view(np.uint8).data
