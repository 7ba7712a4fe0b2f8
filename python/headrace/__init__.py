"""Headrace: a model server that speaks TensorFlow Serving's REST API over a C++ core."""

from headrace.errors import DecodeError, EncodeError, HeadraceError
from headrace.tensors import Signature, TensorSpec

__all__ = [
    "DecodeError",
    "EncodeError",
    "HeadraceError",
    "Signature",
    "TensorSpec",
]

__version__ = "0.1.0"
