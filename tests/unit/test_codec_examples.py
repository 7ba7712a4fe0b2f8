"""Classify and regress requests to serialized Examples."""

import base64
import json
import struct
from pathlib import Path

import numpy as np
import pytest

from headrace import DecodeError, Signature
from headrace.codec import check_examples, decode_examples

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "vectors/examples.jsonl").read_text().splitlines()
]


def decode(case):
    options = dict(case.get("options", {}))
    floats = frozenset(options.pop("float_features", ()))
    signatures = {"serving_default": Signature({}, {}, float_features=floats)}
    return decode_examples(body_of(case), signatures, **options)


def body_of(case):
    return base64.b64decode(case["body_b64"]) if "body_b64" in case else case["body"].encode()


def expected_examples(expect):
    context = expect.get("context", {})
    return [context | example for example in expect["examples"]]


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["id"])
def test_vector_gives_what_it_says(case):
    expect = case["expect"]
    if "error" in expect:
        with pytest.raises(DecodeError) as caught:
            decode(case)
        for part in expect.get("contains", ()):
            assert part in caught.value.message
        for attribute in ("code", "offset", "path"):
            if attribute in expect:
                assert getattr(caught.value, attribute) == expect[attribute]
        return
    request = decode(case)
    assert request.signature_name == expect.get("signature_name", "serving_default")
    assert request.serialized.dtype == object
    assert [read_example(each) for each in request.serialized] == expected_examples(expect)


@pytest.mark.tensorflow
def test_protobuf_reads_the_same():
    import tensorflow as tf

    for case in VECTORS:
        if "error" in case["expect"]:
            continue
        for serialized, expected in zip(
            decode(case).serialized, expected_examples(case["expect"]), strict=True
        ):
            assert from_proto(tf.train.Example.FromString(serialized)) == expected, case["id"]


@pytest.mark.parametrize("size", [0, 1, 50])
def test_check_says_what_decoding_says(size):
    check_examples(json.dumps({"examples": [{"x": 1}] * (size + 1)}).encode())
    body = json.dumps({"examples": [{"x": 1}] * size + [1]}).encode()
    with pytest.raises(DecodeError) as checked:
        check_examples(body)
    with pytest.raises(DecodeError) as decoded:
        decode_examples(body)
    assert checked.value.message == decoded.value.message


def test_any_contiguous_buffer_is_taken():
    body = bytearray(b'{"examples": [{"x": 1.5}]}')
    for view in (body, memoryview(body), np.frombuffer(body, np.uint8)):
        assert decode_examples(view).serialized.shape == (1,)


def test_context_counts_for_each_example_against_the_limit():
    body = json.dumps({"context": {"c": "a" * 1000}, "examples": [{}] * 1000}).encode()
    assert decode_examples(body).serialized.shape == (1000,)
    with pytest.raises(DecodeError, match="more than 100000") as caught:
        decode_examples(body, max_bytes=100_000)
    assert caught.value.code == "too_large"


def read_example(message):
    """A reader of the wire format that is independent of the writer."""
    features = {}
    for field, contents in fields(message):
        assert field == 1
        for entry_field, entry in fields(contents):
            assert entry_field == 1
            (key, name), (value, feature) = fields(entry)
            assert (key, value) == (1, 2)
            features[name.decode()] = read_feature(feature)
    return features


def read_feature(message):
    kind, values = None, []
    for field, feature_list in fields(message):
        kind = (None, "bytes", "float", "int64")[field]
        for list_field, contents in fields(feature_list):
            assert list_field == 1
            if kind == "bytes":
                values.append(base64.b64encode(contents).decode())
            elif kind == "float":
                values += [contents[i : i + 4][::-1].hex() for i in range(0, len(contents), 4)]
            else:
                values += [number - (number >> 63 << 64) for number in varints(contents)]
    return {"kind": kind, "values": values}


def fields(message):
    found, at = [], 0
    while at < len(message):
        tag, at = varint(message, at)
        size, at = varint(message, at)
        assert tag & 7 == 2
        assert at + size <= len(message)
        found.append((tag >> 3, message[at : at + size]))
        at += size
    return found


def varints(message):
    at = 0
    while at < len(message):
        number, at = varint(message, at)
        yield number


def varint(message, at):
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


def from_proto(example):
    features = {}
    for name, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        values = list(getattr(feature, kind).value) if kind else []
        if kind == "float_list":
            values = [struct.pack(">f", value).hex() for value in values]
        elif kind == "bytes_list":
            values = [base64.b64encode(value).decode() for value in values]
        features[name] = {"kind": kind and kind.removesuffix("_list"), "values": values}
    return features
