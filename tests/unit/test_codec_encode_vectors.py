"""TF Serving's own answers: the same JSON in compact form, the same bytes in pretty form.

Vectors hold floats as big-endian hex of their bits and strings as base64. ``key_order`` is the
order in which TF Serving happened to write the outputs; Headrace sorts them.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from headrace import EncodeError
from headrace.codec import encode_classify, encode_predict, encode_regress

VECTORS = Path(__file__).parents[1] / "vectors"
FLOATS = {"float16": ">f2", "bfloat16": ">u2", "float32": ">f4", "float64": ">f8"}


def load(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (VECTORS / name).read_text("utf-8").splitlines()]


DEVIATIONS = {
    case_id: deviation["instead"]
    for deviation in load("encode-deviations.jsonl")
    for case_id in deviation["ids"]
}
PREDICT = load("encode.jsonl")
RESULTS = load("encode-results.jsonl")
REGULAR = [case for case in PREDICT if case["id"] not in DEVIATIONS]


def by_id(cases: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in cases]


def to_array(dtype: str, shape: list[int], values: list[Any]) -> np.ndarray:
    if dtype == "string":
        array = np.empty(len(values), dtype=object)
        array[:] = [base64.b64decode(value) for value in values]
        return array.reshape(shape)
    if dtype in FLOATS:
        bits = b"".join(bytes.fromhex(value) for value in values)
        array = np.frombuffer(bits, dtype=FLOATS[dtype])
        array = array.astype(array.dtype.newbyteorder("="))
        if dtype == "bfloat16":
            array = array.view(ml_dtypes.bfloat16)
    else:
        array = np.array([] if dtype == "complex64" else values, dtype=dtype)
    if array.size == 0 and -1 not in shape:  # cases of refused dtypes give no values
        array = np.zeros(shape, array.dtype)
    return array.reshape(shape)


def tensors_of(case: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: to_array(**tensor) for name, tensor in case["tensors"].items()}


def text_of(case: dict[str, Any]) -> bytes:
    return base64.b64decode(case["text_b64"]) if "text_b64" in case else case["text"].encode()


def tokens(text: bytes) -> Any:
    """The parsed text with its numbers as they are spelled."""
    return json.loads(text, parse_float=str, parse_int=str, parse_constant=str)


def same(ours: Any, theirs: Any, float_type: type) -> bool:
    """Whether two parsed texts hold the same values, floats by their bits in ``float_type``."""
    if isinstance(theirs, dict):
        return (
            isinstance(ours, dict)
            and ours.keys() == theirs.keys()
            and all(same(ours[key], theirs[key], float_type) for key in theirs)
        )
    if isinstance(theirs, list):
        return (
            isinstance(ours, list)
            and len(ours) == len(theirs)
            and all(map(same, ours, theirs, [float_type] * len(ours)))
        )
    if isinstance(theirs, float):
        return isinstance(ours, float) and (
            float_type(ours).tobytes() == float_type(theirs).tobytes()
        )
    return bool(type(ours) is type(theirs) and ours == theirs)


def narrowest_float(case: dict[str, Any]) -> type:
    dtypes = {tensor["dtype"] for tensor in case["tensors"].values()}
    return np.float32 if "float32" in dtypes else np.float64


@pytest.mark.parametrize("case", by_id([c for c in REGULAR if "error" not in c]))
def test_encode_compact_holds_the_values_that_tfserving_wrote(case: dict[str, Any]) -> None:
    body = encode_predict(tensors_of(case), case["format"])
    assert b"\n" not in body
    expected = case["json"] if "json" in case else json.loads(text_of(case))
    assert same(json.loads(body), expected, narrowest_float(case))


@pytest.mark.parametrize("case", by_id([c for c in REGULAR if "text" in c or "text_b64" in c]))
def test_encode_pretty_gives_tfservings_bytes(case: dict[str, Any]) -> None:
    body = encode_predict(tensors_of(case), case["format"], pretty=True)
    key_order = case.get("key_order", [])
    if key_order == sorted(key_order):
        assert body == text_of(case)
    else:
        assert tokens(body) == tokens(text_of(case))
        assert lines(body) == lines(text_of(case))


def lines(text: bytes) -> list[bytes]:
    """In any order, and without the comma that the last member of an object lacks."""
    return sorted(line.rstrip(b",") for line in text.splitlines())


@pytest.mark.parametrize("case", by_id([c for c in REGULAR if "error" in c]))
def test_encode_refuses_what_tfserving_refuses_in_its_words(case: dict[str, Any]) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_predict(tensors_of(case), case["format"])
    assert case["error"] in caught.value.message


@pytest.mark.parametrize("case", by_id([c for c in PREDICT if c["id"] in DEVIATIONS]))
def test_encode_deviates_on_purpose(case: dict[str, Any]) -> None:
    instead = DEVIATIONS[case["id"]]
    if instead == "skipped":
        pytest.skip("not reachable through NumPy")
    if instead == "written":
        body = json.loads(encode_predict(tensors_of(case), case["format"]))
        assert list(body.values()) == [np.zeros(case["tensors"].popitem()[1]["shape"]).tolist()]
        return
    with pytest.raises(EncodeError) as caught:
        encode_predict(tensors_of(case), case["format"])
    assert caught.value.code == instead


def encode_results(case: dict[str, Any], *, pretty: bool) -> bytes:
    if case["method"] == "regress":
        return encode_regress(to_array("float32", [-1], case["results"]), pretty=pretty)
    pairs = [pair for example in case["results"] for pair in example]
    return encode_classify(
        to_array("string", [-1], [label for label, _ in pairs]),
        to_array("float32", [len(pairs)], [score for _, score in pairs]),
        counts=[len(example) for example in case["results"]],
        pretty=pretty,
    )


@pytest.mark.parametrize("case", by_id([c for c in RESULTS if "text" in c]))
def test_encode_results_gives_tfservings_answer(case: dict[str, Any]) -> None:
    assert encode_results(case, pretty=True) == text_of(case)
    compact = json.loads(encode_results(case, pretty=False))
    assert same(compact, json.loads(text_of(case)), np.float32)


@pytest.mark.parametrize("case", by_id([c for c in RESULTS if "error" in c]))
def test_encode_results_refuses_what_tfserving_refuses(case: dict[str, Any]) -> None:
    with pytest.raises(EncodeError, match=case["error"]):
        encode_results(case, pretty=False)


def test_every_deviation_names_a_case_and_a_reason() -> None:
    ids = {case["id"] for case in PREDICT}
    for deviation in load("encode-deviations.jsonl"):
        assert deviation["why"]
        assert set(deviation["ids"]) <= ids
