from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.bench.bodies import input_specs, make_body
from headrace.codec import decode_predict
from headrace.dialects.tfserving.status import metadata_body
from headrace.errors import SpecError
from headrace.tensors import Signature, TensorSpec, compile_signatures


def metadata(**signatures: dict[str, TensorSpec]) -> Any:
    """As the server says it."""
    return json.loads(
        metadata_body("m", 1, {name: Signature(inputs, {}) for name, inputs in signatures.items()})
    )


def body_for(
    inputs: dict[str, TensorSpec], *, rows: int = 3, extent: int = 2, seed: int = 1
) -> tuple[Any, dict[str, Any]]:
    """The body, and the tensors that a server reads from it."""
    specs = input_specs(metadata(serving_default=inputs), "serving_default")
    assert specs == inputs
    body = make_body(specs, "serving_default", rows=rows, extent=extent, seed=seed)
    signatures = compile_signatures({"serving_default": inputs})
    return json.loads(body), dict(decode_predict(body, signatures).tensors)


def test_one_input_by_rows() -> None:
    body, tensors = body_for({"x": TensorSpec("float32", (None, 4))})
    assert body.keys() == {"instances"}
    assert tensors["x"].shape == (3, 4)
    assert ((tensors["x"] >= 0) & (tensors["x"] < 1)).all()


def test_several_inputs_by_rows_and_free_extents() -> None:
    body, tensors = body_for(
        {"ids": TensorSpec("int32", (None, None)), "text": TensorSpec("string", (None,))}
    )
    assert [row.keys() for row in body["instances"]] == [{"ids", "text"}] * 3
    assert tensors["ids"].shape == (3, 2)
    assert tensors["text"].shape == (3,)


@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_inputs_without_rows_are_whole_tensors(shape: tuple[int, ...]) -> None:
    body, tensors = body_for({"x": TensorSpec("float64", shape), "y": TensorSpec("bool", (None,))})
    assert body.keys() == {"inputs"}
    assert tensors["x"].shape == shape
    assert tensors["y"].shape == (3,)


DTYPES = (
    *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("half", "bfloat16", "float", "double"),
)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_that_json_has_a_form_for(dtype: str) -> None:
    _, tensors = body_for({"x": TensorSpec(dtype, (None,))}, rows=50)
    assert len(set(tensors["x"].tolist())) > 1


def test_seed_decides_the_values() -> None:
    inputs = {"x": TensorSpec("float32", (None,))}
    first, same, other = (body_for(inputs, seed=seed)[0] for seed in (1, 1, 2))
    assert first == same != other


def test_other_signatures_are_named() -> None:
    specs = {"x": TensorSpec("float32", (None,))}
    body = json.loads(make_body(specs, "other", rows=1, extent=1, seed=1))
    assert body["signature_name"] == "other"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (TensorSpec("float32"), "input 'x' has an unknown rank"),
        (TensorSpec("complex64", (None,)), "input 'x' of dtype complex64 has no form in JSON"),
    ],
)
def test_inputs_that_nobody_can_make_up(spec: TensorSpec, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        make_body({"x": spec}, "serving_default", rows=1, extent=1, seed=1)


def test_signature_that_is_not_there() -> None:
    said = metadata(a={}, b={})
    with pytest.raises(SpecError, match=r"no signature 'c' \(there are a, b\)"):
        input_specs(said, "c")
    with pytest.raises(SpecError, match="lists no signatures"):
        input_specs({"metadata": []}, "c")
