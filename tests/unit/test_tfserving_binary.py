"""Bodies and answers that are a tensor: their headers, and what is refused."""

from __future__ import annotations

import io
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from headrace.dialects.tfserving.binary import (
    TensorAnswer,
    TensorBody,
    parse_answer_form,
    parse_body_form,
    write_tensor,
)
from headrace.dialects.tfserving.errors import Failure
from headrace.dialects.tfserving.media import NPY, OCTET_STREAM
from headrace.errors import DecodeError
from headrace.tensors import Signature, TensorSpec

TARGET = "/v1/models/m:predict"
ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


def signatures() -> dict[str, Signature]:
    def of(**inputs: TensorSpec) -> Signature:
        return Signature(inputs=inputs, outputs={})

    return {
        "serving_default": of(x=TensorSpec("float32", (None, 3))),
        "brain": of(x=TensorSpec("bfloat16", (None,))),
        "several": of(b=TensorSpec("float32"), a=TensorSpec("string")),
        "text": of(t=TensorSpec("string", (None,))),
        "quantized": of(q=TensorSpec("qint8", (None,))),
        "nothing": of(),
    }


def saved(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def body_form(*headers: tuple[str, str], target: str = TARGET) -> TensorBody | Failure | None:
    return parse_body_form(target, [(name.encode(), value.encode()) for name, value in headers])


def shape_of(value: str) -> tuple[int, ...]:
    form = body_form(("content-type", "application/octet-stream"), ("x-tensor-shape", value))
    assert isinstance(form, TensorBody)
    return form.shape


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("content-type", "application/json")],
        [("content-type", "application/x-www-form-urlencoded"), ("x-tensor-shape", "2")],
        [("x-tensor-shape", "2")],
        [("content-type", "application/octet-stream")],
        [("content-type", "application/vnd.apache.arrow.stream")],
    ],
)
def test_other_bodies_are_json(headers: list[tuple[str, str]]) -> None:
    assert body_form(*headers) is None


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        ("2,3", (2, 3)),
        (" 2 , 3 ", (2, 3)),
        ("0", (0,)),
        ("007", (7,)),
        ("", ()),
        (",".join(["1"] * 64), (1,) * 64),
        ("9223372036854775807", (2**63 - 1,)),
    ],
)
def test_shape_is_a_list_of_extents(value: str, shape: tuple[int, ...]) -> None:
    assert shape_of(value) == shape


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a", "expected extents such as 2,3, found 'a'"),
        ("2,,3", "found ''"),
        ("2,3,", "found ''"),
        ("[2,3]", r"found '\[2'"),
        ("2.0", "found '2.0'"),
        ("+2", r"found '\+2'"),
        ("²", "found"),
        ("1" * 5000, "found '1111"),
        ("2,-1", r"shape \[2,-1\] has a negative extent"),
        ("9223372036854775808", "larger than any memory"),
        ("4294967296,4294967296", "larger than any memory"),
        (",".join(["1"] * 65), "rank 65 is above the limit of 64"),
    ],
)
def test_shape_that_is_none_is_refused_from_the_head(value: str, message: str) -> None:
    form = body_form(("content-type", "application/octet-stream"), ("x-tensor-shape", value))
    assert isinstance(form, Failure)
    assert form.status == 400
    assert form.message.startswith("X-Tensor-Shape: ")
    assert len(form.message) < 200
    assert re.search(message, form.message)


@pytest.mark.parametrize(
    ("target", "headers", "name"),
    [
        (TARGET, [], "serving_default"),
        (f"{TARGET}?signature_name=", [], "serving_default"),
        (f"{TARGET}?signature_name=a%20b", [], "a b"),
        (TARGET, [("x-headrace-signature-name", "c")], "c"),
        (f"{TARGET}?signature_name=d", [("x-headrace-signature-name", "c")], "d"),
    ],
)
@pytest.mark.parametrize("media_type", ["application/x-npy", "application/octet-stream"])
def test_signature_is_named_by_query_or_header(
    target: str, headers: list[tuple[str, str]], name: str, media_type: str
) -> None:
    form = body_form(("content-type", media_type), ("x-tensor-shape", "1"), *headers, target=target)
    assert isinstance(form, TensorBody)
    assert form.signature_name == name


@pytest.mark.parametrize(
    ("form", "body"),
    [
        (TensorBody(OCTET_STREAM, shape=(2, 3)), ARRAY.tobytes()),
        (TensorBody(NPY), saved(ARRAY)),
        (TensorBody(NPY), saved(np.asfortranarray(ARRAY))),
        (TensorBody(NPY), memoryview(saved(ARRAY.astype(">f4")))),
    ],
)
def test_body_becomes_the_only_input(form: TensorBody, body: bytes) -> None:
    given = form.read(signatures(), body)
    assert (given.signature, given.format, list(given.tensors)) == ("serving_default", "row", ["x"])
    np.testing.assert_array_equal(given.tensors["x"], ARRAY)


def test_scalar_is_answered_by_columns() -> None:
    assert TensorBody(NPY).read(signatures(), saved(np.float32(1))).format == "columnar"
    assert TensorBody(OCTET_STREAM).read(signatures(), bytes(4)).format == "columnar"


def test_bfloat16_is_what_two_bytes_are_read_as() -> None:
    array = np.array([1, -2], ml_dtypes.bfloat16)
    for form, body in (
        (TensorBody(NPY, "brain"), saved(array)),
        (TensorBody(OCTET_STREAM, "brain", (2,)), array.tobytes()),
    ):
        x = form.read(signatures(), body).tensors["x"]
        assert np.asarray(x).dtype == array.dtype
        np.testing.assert_array_equal(x, array)
    assert TensorBody(NPY).read(signatures(), saved(array)).tensors["x"].dtype == "V2"  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["nope", "nothing"])
def test_signature_that_takes_nothing_is_left_to_the_core(name: str) -> None:
    given = TensorBody(NPY, name).read(signatures(), b"")
    assert (given.signature, given.tensors) == (name, {})


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("several", "structure", "is one tensor, but signature 'several' has the inputs a, b;"),
        ("text", "unsupported_dtype", "Input 't' takes string, which has no form as application/"),
        ("quantized", "unsupported_dtype", "Input 'q' takes qint8, which has no form"),
    ],
)
@pytest.mark.parametrize("media_type", [NPY, OCTET_STREAM])
def test_signature_that_takes_no_such_body(
    media_type: bytes, name: str, code: str, message: str
) -> None:
    with pytest.raises(DecodeError, match=message) as caught:
        TensorBody(media_type, name).read(signatures(), b"")
    assert caught.value.code == code


def test_body_that_cannot_be_read_names_the_input() -> None:
    with pytest.raises(DecodeError, match=r"Input 'x': the body is no \.npy array") as caught:
        TensorBody(NPY).read(signatures(), b'{"instances": [1]}')
    assert (caught.value.code, caught.value.offset) == ("syntax", 0)
    with pytest.raises(
        DecodeError, match=r"Input 'x': shape \[2,3\] of float32 takes 24 bytes, bu"
    ):
        TensorBody(OCTET_STREAM, shape=(2, 3)).read(signatures(), bytes(23))


def test_answer_is_json_unless_another_form_is_wanted_more() -> None:
    assert parse_answer_form([]) is None
    assert parse_answer_form([(b"accept", b"*/*")]) is None
    assert parse_answer_form([(b"accept", b"application/json;q=0, */*")]) is None
    assert parse_answer_form([(b"accept", b"application/x-npy;q=0.1, */*;q=0.2")]) is None
    assert parse_answer_form([(b"accept", b"Application/X-NPY")]) == NPY
    lines = [(b"accept", b"text/plain"), (b"accept", b"application/octet-stream")]
    assert parse_answer_form(lines) == OCTET_STREAM


def answer(outputs: dict[str, Any], *only: str, media_type: bytes = OCTET_STREAM) -> TensorAnswer:
    written = write_tensor(outputs, only, media_type)
    assert isinstance(written, TensorAnswer)
    return written


def test_raw_bytes_come_with_shape_and_dtype() -> None:
    written = answer({"y": ARRAY})
    assert bytes(written.body) == ARRAY.tobytes()
    assert written.content_type == OCTET_STREAM
    assert written.headers == ((b"X-Tensor-Shape", b"2,3"), (b"X-Tensor-Dtype", b"float32"))
    assert answer({"y": np.array(True)}).headers[0] == (b"X-Tensor-Shape", b"")


def test_file_says_its_shape_itself() -> None:
    written = answer({"y": ARRAY}, media_type=NPY)
    assert (written.body, written.content_type, written.headers) == (saved(ARRAY), NPY, ())


def test_one_of_several_outputs_is_chosen() -> None:
    outputs = {"a": ARRAY, "b": np.int8([1])}
    assert answer(outputs, "b").headers[1] == (b"X-Tensor-Dtype", b"int8")
    assert answer(outputs, "b", "b").headers[1] == (b"X-Tensor-Dtype", b"int8")


@pytest.mark.parametrize(
    ("outputs", "only", "status", "message"),
    [
        ({"b": ARRAY, "a": ARRAY}, (), 406, 'the model gave "a", "b"; choose one with outputs=NAM'),
        ({"b": ARRAY, "a": ARRAY}, ("a", "b"), 406, 'gave "a", "b"'),
        ({}, (), 406, "one tensor"),
        ({"a": ARRAY}, ("z",), 400, 'The model has no output named "z"; it gave "a"'),
        ({"a": np.array([b"t"], object)}, (), 406, 'output "a" is of strings, which have no form'),
    ],
)
@pytest.mark.parametrize("media_type", [NPY, OCTET_STREAM])
def test_answer_that_is_not_one_tensor_of_numbers(
    outputs: dict[str, Any], only: tuple[str, ...], status: int, message: str, media_type: bytes
) -> None:
    failure = write_tensor(outputs, only, media_type)
    assert isinstance(failure, Failure)
    assert failure.status == status
    assert message in failure.message
