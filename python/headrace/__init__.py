"""Headrace: a model server that speaks TensorFlow Serving's REST API over a C++ core.

``headrace.Server`` serves models from inside a program, ``headrace serve`` from a shell, and
``headrace.codec`` turns request bodies into arrays and arrays into answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import DecodeError, EncodeError, HeadraceError, SpecError
from headrace.tensors import Signature, TensorSpec

if TYPE_CHECKING:
    from headrace import codec
    from headrace.server.run import Server

__all__ = [
    "DecodeError",
    "EncodeError",
    "HeadraceError",
    "Server",
    "Signature",
    "SpecError",
    "TensorSpec",
    "codec",
]

__version__ = "0.1.0"

# Imported when first used: a program that only wants the codec pays for no event loop.
_LAZY = {"Server": "headrace.server.run", "codec": "headrace.codec"}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_LAZY[name])
    return module if name == "codec" else getattr(module, name)
