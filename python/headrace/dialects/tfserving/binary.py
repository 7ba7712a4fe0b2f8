"""Tensors without JSON on the URL of predict: what TensorFlow Serving never had.

The body's form is said by ``Content-Type``, that of the answer by ``Accept``, and neither depends
on the other. A form that is not known means JSON, since TensorFlow Serving looks at neither header.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace import _core
from headrace.codec.npy import read_npy, write_npy
from headrace.codec.raw import numpy_dtype, raw_bytes, read_raw, tensor_bytes
from headrace.dialects.tfserving.errors import Failure
from headrace.dialects.tfserving.media import JSON, NPY, OCTET_STREAM, content_type, preferred
from headrace.dialects.tfserving.wishes import wish_values
from headrace.errors import DecodeError
from headrace.tensors import GivenTensors, Signature

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer

__all__ = ["TensorAnswer", "TensorBody", "parse_answer_form", "parse_body_form", "write_tensor"]

_DEFAULT_SIGNATURE: Final = "serving_default"
_EXTENT: Final = re.compile(r"-?[0-9]{1,19}")

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class TensorBody:
    """The form of a body that is the tensor of a signature's only input.

    Attributes:
        media_type: ``OCTET_STREAM`` or ``NPY``.
        signature_name: Whose input it is.
        shape: Its shape, where the body does not say it itself.
    """

    media_type: bytes
    signature_name: str = _DEFAULT_SIGNATURE
    shape: tuple[int, ...] = ()

    def read(self, signatures: Mapping[str, Signature], body: Buffer) -> GivenTensors:
        """The request that a body is. Its arrays are views of the body.

        An answer in JSON is to have rows, but for a scalar, which has none. Whether signature,
        dtype and shape are right is left to the core, as far as the body can be read without.

        Raises:
            DecodeError: It is no tensor of this form, or the signature takes none.
        """
        signature = signatures.get(self.signature_name)
        if signature is None or not signature.inputs:
            return GivenTensors(self.signature_name, {})
        if len(signature.inputs) > 1:
            raise DecodeError(
                f"a body of type {self._type} is one tensor, but signature "
                f"'{self.signature_name}' has the inputs {', '.join(sorted(signature.inputs))}; "
                "they can be sent as JSON"
            )
        ((name, spec),) = signature.inputs.items()
        if spec.dtype == "string" or _core.numpy_name(spec.dtype) == "unsupported":
            raise DecodeError(
                f"Input '{name}' takes {spec.dtype}, which has no form as {self._type}",
                code="unsupported_dtype",
            )
        try:
            array = self._array(body, spec.dtype)
        except DecodeError as error:
            message = f"Input '{name}': {error.message}"
            raise DecodeError(message, code=error.code, offset=error.offset) from None
        return GivenTensors(
            self.signature_name, {name: array}, format="row" if array.ndim else "columnar"
        )

    @property
    def _type(self) -> str:
        return self.media_type.decode()

    def _array(self, body: Buffer, dtype: str) -> NDArray[Any]:
        expected = numpy_dtype(dtype)
        if self.media_type == OCTET_STREAM:
            return read_raw(body, expected, self.shape)
        array = read_npy(body)
        return array.view(expected) if (array.dtype.str, dtype) == ("|V2", "bfloat16") else array


@dataclass(frozen=True, slots=True)
class TensorAnswer:
    """An answer that is one tensor.

    Attributes:
        body: Its bytes.
        content_type: Their media type.
        headers: What the bytes do not say.
    """

    body: bytes | memoryview
    content_type: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


def parse_body_form(target: str, headers: Headers) -> TensorBody | Failure | None:
    """The form of the body that follows a request's head.

    Args:
        target: Request target, bytes mapped one to one (Latin-1).
        headers: Name in lower case and value.

    Returns:
        The form; None for JSON; or the failure to answer with.
    """
    media_type = content_type(headers)
    if media_type not in (OCTET_STREAM, NPY):
        return None
    name = wish_values(target, headers).get("signature_name") or _DEFAULT_SIGNATURE
    if media_type == NPY:
        return TensorBody(NPY, name)
    shape = _shape(headers)
    if shape is None or isinstance(shape, Failure):
        return shape
    return TensorBody(OCTET_STREAM, name, shape)


def parse_answer_form(headers: Headers) -> bytes | None:
    """The media type that the client wants most; None: JSON.

    Only what is named is given: ``*/*`` stands for JSON, whatever its quality is.
    """
    # Nearly nobody names any: they pay for this look alone, with every head that is new.
    lines = [value.lower() for name, value in headers if name == b"accept"]
    if not any(NPY in line or OCTET_STREAM in line for line in lines):
        return None
    wanted = preferred(headers, (JSON, NPY, OCTET_STREAM))
    return None if wanted == JSON else wanted


def write_tensor(
    outputs: Mapping[str, NDArray[Any]], only: Iterable[str], media_type: bytes
) -> TensorAnswer | Failure:
    """The answer to who wants a tensor.

    Args:
        outputs: What the model gave, name to array.
        only: The outputs that are asked for; none: all of them.
        media_type: ``OCTET_STREAM`` or ``NPY``.

    Returns:
        The answer; or the failure: there is no such output (400), or it is not exactly one output,
        and of numbers (406).
    """
    wanted = sorted(set(only) or outputs)
    kind = media_type.decode()
    if unknown := [name for name in wanted if name not in outputs]:
        return Failure.invalid(
            f"The model has no output named {_quoted(unknown)}; it gave {_quoted(sorted(outputs))}"
        )
    if len(wanted) != 1:
        return Failure(
            406,
            f"an answer of type {kind} is one tensor, but the model gave {_quoted(wanted)}; choose "
            "one with outputs=NAME in the query, or accept application/json",
        )
    (name,) = wanted
    array = outputs[name]
    if array.dtype.hasobject:
        return Failure(
            406,
            f"output {_quoted([name])} is of strings, which have no form as {kind}; "
            "accept application/json",
        )
    if media_type == NPY:
        return TensorAnswer(write_npy(array), NPY)
    headers = (
        (b"X-Tensor-Shape", ",".join(map(str, array.shape)).encode()),
        (b"X-Tensor-Dtype", array.dtype.name.encode()),
    )
    return TensorAnswer(raw_bytes(array), OCTET_STREAM, headers)


def _shape(headers: Headers) -> tuple[int, ...] | Failure | None:
    """What X-Tensor-Shape says; None: there is no such header."""
    value = next((value for name, value in headers if name == b"x-tensor-shape"), None)
    if value is None:
        return None
    text = value.decode("latin-1").strip()
    parts = [part.strip() for part in text.split(",")] if text else []
    wrong = next((part for part in parts if not _EXTENT.fullmatch(part)), None)
    if wrong is not None:
        return Failure.invalid(
            f"X-Tensor-Shape: expected extents such as 2,3, found '{_printable(wrong)}'"
        )
    shape = tuple(map(int, parts))
    try:
        tensor_bytes(shape, 1)
    except DecodeError as error:
        return Failure.invalid(f"X-Tensor-Shape: {error.message}")
    return shape


def _printable(text: str) -> str:
    return text[:80].encode("ascii", "backslashreplace").decode()


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name[:256]}"' for name in names)
