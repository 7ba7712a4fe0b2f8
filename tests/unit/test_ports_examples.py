"""Classify and regress through the rings, both ends in one process."""

import json

import numpy as np
import pytest
from ring_loop import ENCODE, Loop

from headrace import DecodeError, Signature, TensorSpec, _core
from headrace.tensors import compile_signatures

CLASSIFY = _core.DecodeOptions(default_signature="classify", method="classify")
REGRESS = _core.DecodeOptions(default_signature="regress", method="regress")


def examples_signatures():
    strings = TensorSpec("string", (None,))
    matrix = TensorSpec("float32", (None, None))
    return compile_signatures(
        {
            "classify": Signature({"inputs": strings}, {"scores": matrix}),
            "labels": Signature(
                {"inputs": strings},
                {"classes": TensorSpec("string", (None, None)), "scores": matrix},
            ),
            "regress": Signature({"inputs": strings}, {"outputs": TensorSpec("float32", (None,))}),
        }
    )


@pytest.fixture
def loop():
    loop = Loop(examples_signatures(), request_bytes=1 << 16)
    yield loop
    loop.close()


def body_of(count, signature="", **feature):
    examples = [feature or {"x": i + 0.5} for i in range(count)]
    return json.dumps({"signature_name": signature, "examples": examples}).encode()


def submit(loop, request_id, body, decode, encode=ENCODE):
    return loop.port.submit(request_id, body, decode=decode, encode=encode, deadline_ns=0)


def test_examples_are_the_one_input_and_rows(loop):
    assert submit(loop, 1, body_of(3), CLASSIFY) == 3
    batch = loop.collect()
    assert (batch.signature, batch.rows, list(batch.inputs)) == ("classify", 3, ["inputs"])
    assert all(isinstance(each, bytes) for each in batch.inputs["inputs"])
    batch.reply({"scores": np.array([[1], [2], [3]], np.float32)})
    assert loop.take() == {1: (0, b'{"results":[[["",1.0]],[["",2.0]],[["",3.0]]]}')}


def test_requests_share_a_batch_and_get_their_own_rows(loop):
    for request_id in (1, 2):
        submit(loop, request_id, body_of(request_id), REGRESS)
    batch = loop.collect()
    assert (batch.size, batch.rows) == (2, 3)
    batch.reply({"outputs": np.array([1, 2, 3], np.float32)})
    assert loop.take(2) == {1: (0, b'{"results":[1.0]}'), 2: (0, b'{"results":[2.0,3.0]}')}


def test_labels_go_with_scores(loop):
    submit(loop, 1, body_of(1, "labels"), CLASSIFY)
    classes = np.array([[b"cat", b"dog"]], dtype=object)
    loop.collect().reply({"classes": classes, "scores": np.array([[0.25, 0.75]], np.float32)})
    assert json.loads(loop.take()[1][1]) == {"results": [[["cat", 0.25], ["dog", 0.75]]]}


def test_large_request_travels_by_reference(loop):
    body = body_of(100, tag="a" * 1000)
    draft = loop.port.prepare(body, decode=REGRESS)
    assert draft.rows == 100
    loop.port.submit_draft(1, draft, encode=ENCODE, deadline_ns=0)
    submit(loop, 2, body, REGRESS)
    assert loop.port.stats()["by_reference"] == 2
    batch = loop.collect()
    assert batch.rows == 200
    batch.reply({"outputs": np.zeros(200, np.float32)})
    assert {json.loads(text)["results"] == [0.0] * 100 for _, text in loop.take(2).values()} == {
        True
    }


def test_large_reply_is_encoded_later_in_the_same_form(loop):
    submit(loop, 1, body_of(2), CLASSIFY)
    loop.collect().reply({"scores": np.zeros((2, 20_000), np.float32)})
    ((kind, reply),) = loop.take().values()
    assert kind == 1
    results = json.loads(reply.encode())["results"]
    assert [len(each) for each in results] == [20_000, 20_000]
    assert results[0][0] == ["", 0.0]


def test_outputs_that_do_not_fit_are_an_error(loop):
    submit(loop, 1, body_of(2), CLASSIFY)
    loop.collect().reply({"scores": np.zeros((2,), np.float32)})
    kind, (code, path, message) = loop.take()[1]
    assert (kind, code, path) == (2, "structure", "results")
    assert "[batch_size num_classes] but got [2]" in message


@pytest.mark.parametrize(
    ("decode", "signature", "message"),
    [
        (CLASSIFY, "nosuch", "No signature was found with the name: nosuch"),
        (CLASSIFY, "regress", "signatures that have them: 'classify', 'labels'"),
        (REGRESS, "classify", "No regression outputs found in SignatureDef: classify"),
    ],
)
def test_signature_that_does_not_fit_is_refused(loop, decode, signature, message):
    with pytest.raises(DecodeError) as caught:
        submit(loop, 1, body_of(1, signature), decode)
    assert message in caught.value.message
    assert caught.value.path == "signature_name"
    assert loop.port.in_flight == 0


def test_context_that_makes_the_request_too_large_is_refused():
    loop = Loop(examples_signatures(), request_bytes=1 << 16, max_payload_bytes=1 << 20)
    body = json.dumps({"context": {"c": "a" * 10_000}, "examples": [{}] * 1000}).encode()
    for send in (
        lambda: submit(loop, 1, body, REGRESS),
        lambda: loop.port.prepare(body, decode=REGRESS),
    ):
        with pytest.raises(DecodeError) as caught:
            send()
        assert caught.value.code == "too_large"
    loop.close()


def test_unknown_method_is_refused():
    with pytest.raises(ValueError, match="predict, classify, regress"):
        _core.DecodeOptions(method="explain")
