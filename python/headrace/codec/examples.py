"""Classify and regress requests: from JSON text to serialized Examples, by the C++ core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from headrace import _core
from headrace.tensors import Signature, compile_signatures

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined]  # Python 3.12

    import numpy as np

__all__ = ["ExamplesRequest", "check_examples", "decode_examples"]


@dataclass(frozen=True, slots=True)
class ExamplesRequest:
    """A decoded request.

    Attributes:
        signature_name: The signature asked for, the default one where none was.
        serialized: Object array of shape (examples,): of each the bytes of a ``tf.train.Example``
            message. Those of the context stand before them, so that reading the whole merges both;
            where they share a feature the example's counts.
    """

    signature_name: str
    serialized: np.ndarray


def decode_examples(
    body: Buffer,
    signatures: _core.SignatureSet | Mapping[str, Signature] | None = None,
    *,
    default_signature: str = "serving_default",
    finite_only: bool = False,
    max_depth: int = 10_000,
    max_bytes: int = 1 << 30,
) -> ExamplesRequest:
    """The Examples of one classify or regress request.

    Thread-safe; the GIL is released while a body of more than a few kilobytes is decoded.

    Args:
        body: The JSON text in any contiguous buffer. It is not copied, needs no padding, and must
            not be changed meanwhile.
        signatures: Where whole numbers may have to become floats: see
            ``Signature.float_features``. Whether the signature exists is not judged here.
        default_signature: Signature of a body that names none.
        finite_only: Whether NaN and infinities are refused.
        max_depth: Nesting allowed in ignored members.
        max_bytes: Most that the messages may take; the context counts once for each example.

    Raises:
        DecodeError: The body is not such a request.

    Spec:
        TensorFlow Serving REST API, "Classify and Regress API": request format.
    """
    if signatures is not None and not isinstance(signatures, _core.SignatureSet):
        signatures = compile_signatures(signatures)
    options = _options(default_signature, finite_only, max_depth)
    return ExamplesRequest(*_core.decode_examples(body, signatures, options, max_bytes))


def check_examples(body: Buffer, *, max_depth: int = 10_000) -> None:
    """Checks what is judged before a model is looked up, which is all of the body.

    Raises:
        DecodeError: The body is not a classify or regress request.
    """
    _core.check_examples(body, _options("", False, max_depth))


@lru_cache(maxsize=64)
def _options(default_signature: str, finite_only: bool, max_depth: int) -> _core.DecodeOptions:
    return _core.DecodeOptions(
        default_signature=default_signature, finite_only=finite_only, max_depth=max_depth
    )
