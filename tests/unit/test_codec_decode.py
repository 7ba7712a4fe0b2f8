"""`headrace.codec.decode_predict`: the vectors, and what only the Python face has."""

from __future__ import annotations

import array
import json
import mmap
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from decode_cases import FILES, VECTORS, DecodeCase, check, load_cases
from headrace import DecodeError, Signature, TensorSpec, _core
from headrace.codec import check_predict, decode_predict
from headrace.errors import SpecError
from headrace.tensors import compile_signatures

CASES = load_cases()
FLOATS = {"serving_default": {"x": TensorSpec("float32")}}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_decode_gives_what_the_vector_says(case: DecodeCase) -> None:
    check(case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_decode_of_a_slice_gives_the_same_whatever_surrounds_it(case: DecodeCase) -> None:
    for filler in (b'"', b"0", b"]}", b"\\", b"\xff"):
        larger = filler * 65 + case.body + filler * 65
        start = 65 * len(filler)
        check(case, memoryview(larger)[start : start + len(case.body)])


def test_deviations_name_existing_cases_and_reasons() -> None:
    import json

    deviations = json.loads((VECTORS / "decode-deviations.json").read_text())
    ids = {case.id for case in CASES}
    assert set(deviations["cases"]) <= ids
    used = {case["reason"] for case in deviations["cases"].values()}
    assert used == set(deviations["reasons"])
    assert (
        len(ids)
        == len(CASES)
        == sum(len((VECTORS / file).read_text().splitlines()) for file in FILES)
    )


def test_every_error_code_of_decoding_has_a_vector() -> None:
    codes = {case.expect.get("code") for case in CASES} - {None}
    assert codes == {
        "syntax",
        "invalid_utf8",
        "too_deep",
        "structure",
        "unknown_signature",
        "unknown_input",
        "missing_input",
        "duplicate_input",
        "type",
        "range",
        "ragged",
        "shape",
        "base64",
        "unsupported_dtype",
        "non_finite",
    }


@pytest.mark.parametrize(
    "wrap",
    [bytes, bytearray, memoryview, lambda b: array.array("B", b), lambda b: np.frombuffer(b, "u1")],
)
def test_decode_takes_any_contiguous_buffer(wrap) -> None:
    request = decode_predict(wrap(b'{"instances":[1,2]}'), FLOATS)
    assert request.tensors["x"].tolist() == [1, 2]


def test_decode_reads_nothing_behind_a_body_that_ends_at_a_page() -> None:
    # The last page of a private map is followed by nothing readable with a guard page behind it.
    body = b'{"instances":[1.5,2.25,"\\u00e9"]}'
    pages = mmap.mmap(-1, mmap.PAGESIZE)
    pages[-len(body) :] = body
    view = memoryview(pages)[-len(body) :]
    with pytest.raises(DecodeError, match="String"):
        decode_predict(view, FLOATS)
    view.release()
    pages.close()


def test_decode_refuses_what_is_not_a_contiguous_buffer() -> None:
    with pytest.raises(TypeError):
        decode_predict("{}", FLOATS)  # type: ignore[arg-type]
    with pytest.raises(BufferError):
        decode_predict(memoryview(b'{"instances":[1,2]}')[::2], FLOATS)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("bool", np.bool_),
        ("int8", np.int8),
        ("uint16", np.uint16),
        ("float16", np.float16),
        ("bfloat16", ml_dtypes.bfloat16),
        ("DT_DOUBLE", np.float64),
        ("string", np.object_),
    ],
)
def test_arrays_have_the_declared_dtype_even_when_empty(dtype: str, expected: type) -> None:
    request = decode_predict(b'{"inputs":[]}', {"serving_default": {"x": TensorSpec(dtype)}})
    assert request.tensors["x"].dtype == expected
    assert request.tensors["x"].shape == (0,)


def test_arrays_are_aligned_writable_contiguous_and_own_their_memory() -> None:
    request = decode_predict(b'{"instances":[[1,2],[3,4]]}', FLOATS)
    x = request.tensors["x"]
    assert x.ctypes.data % 64 == 0
    assert x.flags.c_contiguous
    assert x.flags.writeable
    x += 1
    assert x.tolist() == [[2, 3], [4, 5]]


def test_scalars_have_no_dimensions() -> None:
    request = decode_predict(b'{"inputs":4.5}', FLOATS)
    assert request.tensors["x"].shape == ()
    assert request.rows == 0
    text = decode_predict(b'{"inputs":"a"}', {"serving_default": {"x": TensorSpec("string")}})
    assert text.tensors["x"].item() == b"a"


def test_extra_holds_raw_text_of_other_members_the_first_of_each_name() -> None:
    body = b'{"id": "a", "instances":[1], "p": {"k" : [1, NaN]}, "id":2, "signature_name":""}'
    request = decode_predict(body, FLOATS)
    assert request.extra == {"id": '"a"', "p": '{"k" : [1, NaN]}'}
    assert request.signature_name == "serving_default"
    assert request.rows == 1


def test_signatures_may_be_specs_signature_objects_or_compiled() -> None:
    specs = {"x": TensorSpec("int32")}
    for signatures in (
        {"s": specs},
        {"s": Signature(inputs=specs, outputs={})},
        compile_signatures({"s": specs}),
    ):
        request = decode_predict(b'{"instances":[1]}', signatures, default_signature="s")
        assert request.signature_name == "s"


def test_a_signature_without_inputs_is_an_error() -> None:
    with pytest.raises(DecodeError, match="Failed to get input map for signature: s"):
        decode_predict(b'{"instances":[1]}', {"s": {}}, default_signature="s")


def test_an_unknown_signature_names_those_that_exist() -> None:
    signatures = {"classify": FLOATS["serving_default"], "regress": FLOATS["serving_default"]}
    with pytest.raises(DecodeError) as caught:
        decode_predict(b'{"instances":[1],"signature_name":"regres"}', signatures)
    assert caught.value.code == "unknown_signature"
    assert (
        "those that exist: 'classify', 'regress'; did you mean 'regress'?" in caught.value.message
    )
    assert caught.value.path == "signature_name"


def test_errors_of_bytes_that_are_not_utf8_are_still_text() -> None:
    with pytest.raises(DecodeError) as caught:
        decode_predict(b'{"instances":[1],\xff\xfe}', FLOATS)
    assert caught.value.offset == 17
    caught.value.message.encode()


def test_errors_survive_pickling() -> None:
    with pytest.raises(DecodeError) as caught:
        decode_predict(b'{"instances":[[1],[2,3]]}', FLOATS)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.message, copy.code, copy.offset, copy.path) == (
        caught.value.message,
        "ragged",
        18,
        "instances[1]",
    )


def test_long_values_names_and_paths_are_cut_in_messages() -> None:
    long = "x" * 100_000
    for body in (
        f'{{"instances":["{long}"]}}',
        f'{{"instances":[{{"{long}":1}}]}}',
        f'{{"signature_name":"{long}","instances":[1]}}',
        f'{{"{long}":{{"{long}":[tru]}}}}',
    ):
        with pytest.raises(DecodeError) as caught:
            decode_predict(body.encode(), FLOATS)
        assert len(caught.value.message) < 1500
        assert len(caught.value.path) < 1000


def test_check_predict_judges_only_what_comes_before_the_model() -> None:
    check_predict(b'{"instances":"anything"}')
    check_predict(b"{}")
    check_predict(b"[1]", bare_list=True)
    for body, code in (
        (b"{", "syntax"),
        (b"[1]", "structure"),
        (b'{"signature_name":1}', "structure"),
        (b'{"a":"\xff"}', "invalid_utf8"),
        (b'{"a":[[[1]]]}', "too_deep"),
    ):
        with pytest.raises(DecodeError) as caught:
            check_predict(body, max_depth=3)
        assert caught.value.code == code


def test_hostile_nesting_is_refused_in_linear_time_and_without_recursion() -> None:
    deep = b"[" * 5_000_000
    for body in (b'{"instances":' + deep, b'{"k":' + deep, deep, b'{"instances":' + deep + b"]}"):
        with pytest.raises(DecodeError):
            decode_predict(body, FLOATS)
    nested = b'{"k":' + b'{"a":[' * 4_900 + b"]}" * 4_900 + b',"instances":[1]}'
    assert decode_predict(nested, FLOATS).rows == 1


def test_a_bound_is_an_upper_bound_of_the_arrays() -> None:
    signatures = compile_signatures(FLOATS)
    body = b'{"instances":[[1,2],[3,4]]}'
    assert _core.decoded_bytes_bound(body, signatures) >= 16
    assert _core.decoded_bytes_bound(b"", signatures) >= 0


def test_bound_functions_take_their_arguments_by_keyword() -> None:
    signatures = compile_signatures(FLOATS)
    options = _core.DecodeOptions(
        default_signature="serving_default",
        check_shapes=False,
        integral_floats=False,
        bare_list=False,
        finite_only=False,
        keep_extra=False,
        max_depth=100,
    )
    body = b'{"instances":[1]}'
    assert _core.decode_predict(body=body, signatures=signatures, options=options)[0] == "row"
    _core.check_predict(body=body, options=options)
    assert _core.decoded_bytes_bound(body=body, signatures=signatures) > 0
    with pytest.raises(TypeError):
        _core.DecodeOptions("serving_default")


def test_unknown_dtypes_and_impossible_shapes_are_spec_errors() -> None:
    for arguments in (("float33",), ("float32", (-1,)), ("float32", (None,) * 65)):
        with pytest.raises(SpecError):
            TensorSpec(*arguments)


def test_importing_the_codec_is_light() -> None:
    code = (
        "import sys, headrace.codec as c; c.decode_predict; "
        "sys.exit(any(m in sys.modules for m in ('tensorflow', 'asyncio', 'ml_dtypes')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize(
    ("declared", "sent", "fits"),
    [
        ([None], [1.0, 2.0], True),
        ([1], [1.0, 2.0], True),
        ([None, 1], [1.0, 2.0], True),
        ([None, 1], [[1.0], [2.0]], True),
        ([None, 1, 2], [[1.0, 2.0]], True),
        ([None, 2], [[1.0, 2.0]], True),
        ([None, 2], [[1.0, 2.0, 3.0]], False),
        ([None, 2], [1.0, 2.0], False),
        ([None], [[1.0, 2.0]], False),
        ([2], [1.0, 2.0, 3.0], False),
        ([], 1.0, True),
        ([], [1.0], False),
        ([1, 1], 1.0, True),
        (None, [[1.0]], True),
    ],
)
def test_declared_shapes_are_checked_but_for_extents_of_one(
    declared: list[int | None] | None, sent: object, fits: bool
) -> None:
    signatures = {"serving_default": {"x": TensorSpec("float32", declared)}}
    body = json.dumps({"inputs": sent}).encode()
    decode_predict(body, signatures)
    if fits:
        request = decode_predict(body, signatures, check_shapes=True)
        assert request.tensors["x"].shape == np.asarray(sent).shape
    else:
        with pytest.raises(DecodeError) as caught:
            decode_predict(body, signatures, check_shapes=True)
        assert caught.value.code == "shape"
        assert "Input 'x' has shape" in caught.value.message


def test_limit_of_depth_is_not_for_tensors_even_if_no_model_is_known() -> None:
    signatures = {"serving_default": {"x": TensorSpec("float32")}}
    for rank in (9, 63):
        tensor = "[" * rank + "1" + "]" * rank
        for body in (f'{{"instances": {tensor}}}', f'{{"instances": [{{"x": {tensor}}}]}}'):
            decode_predict(body.encode(), signatures, max_depth=8)
            check_predict(body.encode(), max_depth=8)
