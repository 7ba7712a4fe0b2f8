"""Predict requests: from JSON text to NumPy arrays, by the C++ core."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from headrace import _core
from headrace.tensors import Signature, TensorSpec, compile_signatures

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer

__all__ = ["PredictRequest", "check_predict", "decode_predict"]


class PredictRequest(NamedTuple):
    """A decoded request.

    Attributes:
        format: ``"row"`` (``instances``) or ``"columnar"`` (``inputs``); the response's form too.
        signature_name: The signature asked for, the default one where none was.
        tensors: One array per input of the signature, C-contiguous, data on a 64-byte boundary and
            owned by the array. Strings are object arrays of ``bytes``.
        extra: JSON text of the body's other top-level members, by name.
        rows: First extent that all inputs share; 0 where they do not share one.
    """

    format: Literal["row", "columnar"]
    signature_name: str
    tensors: dict[str, NDArray[Any]]
    extra: dict[str, str]
    rows: int


def decode_predict(
    body: Buffer,
    signatures: _core.SignatureSet | Mapping[str, Signature | Mapping[str, TensorSpec]],
    *,
    default_signature: str = "serving_default",
    check_shapes: bool = False,
    integral_floats: bool = False,
    bare_list: bool = False,
    finite_only: bool = False,
    max_depth: int = 10_000,
) -> PredictRequest:
    """The tensors of one predict request.

    Thread-safe; the GIL is released while a body of more than a few kilobytes is decoded.

    Args:
        body: The JSON text in any contiguous buffer. It is not copied, needs no padding, and must
            not be changed meanwhile.
        signatures: What the model takes: signature name to input name to spec. Calls in a row are
            faster with the result of ``headrace.tensors.compile_signatures``.
        default_signature: Signature of a body that names none.
        check_shapes: Whether tensors must have the shapes that their specs declare. A declared
            extent of 1 takes any, or none at all: exporters write the shape of the one example
            that they had, and TensorFlow Serving answers other requests to such models.
        integral_floats: Whether ``1.0`` and ``1e3`` are integers too.
        bare_list: Whether the body may be the bare list of instances.
        finite_only: Whether NaN and infinities are refused.
        max_depth: Nesting allowed in members that are not tensors.

    Raises:
        DecodeError: The body is not a predict request for these signatures.

    Spec:
        TensorFlow Serving REST API, "Predict API": request format, JSON mapping.
    """
    if not isinstance(signatures, _core.SignatureSet):
        signatures = compile_signatures(signatures)
    options = _options(
        default_signature, check_shapes, integral_floats, bare_list, finite_only, max_depth
    )
    return PredictRequest._make(_core.decode_predict(body, signatures, options))


def check_predict(
    body: Buffer,
    *,
    bare_list: bool = False,
    max_depth: int = 10_000,
) -> None:
    """Checks what is judged before a model is looked up.

    That is the syntax of the whole body, that its top level is an object, and that
    ``signature_name`` is a string: faults in these are reported even if the model is unknown.

    Raises:
        DecodeError: One of them is wrong.
    """
    _core.check_predict(body, _options("", False, False, bare_list, False, max_depth))


@lru_cache(maxsize=64)
def _options(
    default_signature: str,
    check_shapes: bool,
    integral_floats: bool,
    bare_list: bool,
    finite_only: bool,
    max_depth: int,
) -> _core.DecodeOptions:
    return _core.DecodeOptions(
        default_signature=default_signature,
        check_shapes=check_shapes,
        integral_floats=integral_floats,
        bare_list=bare_list,
        finite_only=finite_only,
        keep_extra=True,
        max_depth=max_depth,
    )
