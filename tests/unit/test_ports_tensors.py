"""Tensors in memory into the rings, through their Python face, both ends in one process."""

import gc
import json
import sys
import threading

import ml_dtypes
import numpy as np
import pytest
from ring_loop import ENCODE, Loop, WorkerThread, body_of

from headrace import DecodeError, Signature, TensorSpec
from headrace.errors import OverloadError
from headrace.tensors import compile_signatures

FLOATS = np.arange(12, dtype=np.float32).reshape(3, 4)


def signatures():
    x = TensorSpec("float32", (None, None))
    y = {"y": x}
    several = {
        "text": TensorSpec("string", (None,)),
        "flag": TensorSpec("bool", (None,)),
        "brain": TensorSpec("bfloat16", (None, 2)),
    }
    return compile_signatures(
        {
            "serving_default": Signature(inputs={"x": x}, outputs=y),
            "several": Signature(inputs=several, outputs=y),
            "scalar": Signature(inputs={"x": TensorSpec("int64", ())}, outputs=y),
        }
    )


@pytest.fixture
def loop():
    loop = Loop(signatures())
    yield loop
    loop.close()


def submit(loop, tensors, signature="serving_default", *, encode=ENCODE, **options):
    request_id = next(loop.ids)
    loop.port.submit_tensors(
        request_id=request_id,
        signature=signature,
        tensors=tensors,
        encode=encode,
        deadline_ns=0,
        **options,
    )
    return request_id


def test_array_comes_back_encoded_as_if_it_had_been_json(loop):
    ids = [submit(loop, {"x": FLOATS}), loop.submit(body_of(FLOATS.tolist()))]
    batch = loop.collect()
    assert (batch.size, batch.rows) == (2, 6)
    np.testing.assert_array_equal(batch.inputs["x"], np.concatenate([FLOATS, FLOATS]))
    batch.reply({"y": batch.inputs["x"]})
    replies = loop.take(2)
    assert replies[ids[0]] == replies[ids[1]]


def test_rows_are_returned_and_counted_in_flight(loop):
    rows = loop.port.submit_tensors(
        7, "serving_default", {"x": FLOATS}, encode=ENCODE, deadline_ns=0
    )
    assert rows == 3
    assert (loop.port.in_flight, loop.port.in_flight_rows) == (1, 3)


@pytest.mark.parametrize(("format", "member"), [("row", "predictions"), ("columnar", "outputs")])
def test_format_is_that_of_the_answer(loop, format, member):
    request_id = submit(loop, {"x": FLOATS}, format=format)
    batch = loop.collect()
    batch.reply({"y": batch.inputs["x"]})
    assert json.loads(loop.take()[request_id][1]) == {member: FLOATS.tolist()}


def test_format_that_is_none_is_a_mistake_of_the_caller(loop):
    with pytest.raises(ValueError, match="format is 'rows'"):
        submit(loop, {"x": FLOATS}, format="rows")
    with pytest.raises(ValueError, match="format is 'rows'"):
        loop.port.prepare_tensors("serving_default", {"x": FLOATS}, format="rows")


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(FLOATS),
        FLOATS.astype(">f4"),
        np.asfortranarray(FLOATS).astype(">f4"),
        np.repeat(FLOATS, 2, axis=1)[:, ::2],
        FLOATS[::-1][::-1],
        np.frombuffer(b"\0" + FLOATS.tobytes(), np.float32, offset=1).reshape(3, 4),
        np.broadcast_to(FLOATS[:1], (3, 4)),
    ],
    ids=["fortran", "big endian", "both", "strided", "reversed twice", "unaligned", "broadcast"],
)
def test_any_layout_and_byte_order_arrives_in_c_order(loop, array):
    submit(loop, {"x": array})
    np.testing.assert_array_equal(loop.collect().inputs["x"], array)


@pytest.mark.parametrize(
    "text",
    [
        np.array([b"a", "lång", b"\0\xff"], object),
        np.array([b"a", b"", b"ccc"]),
        np.array(["a", "", "lång"]),
    ],
    ids=["object", "S", "U"],
)
def test_several_inputs_of_any_dtype_and_strings_of_any_kind(loop, text):
    flag = np.array([True, False, True])
    brain = np.arange(6).reshape(3, 2).astype(ml_dtypes.bfloat16)
    submit(loop, {"text": text, "flag": flag, "brain": brain}, "several")
    batch = loop.collect()
    assert batch.rows == 3
    expected = [item.encode() if isinstance(item, str) else item for item in text.tolist()]
    assert batch.inputs["text"].tolist() == expected
    np.testing.assert_array_equal(batch.inputs["flag"], flag)
    np.testing.assert_array_equal(batch.inputs["brain"], brain)


def test_scalar_has_no_rows(loop):
    submit(loop, {"x": np.int64(-5)}, "scalar")
    batch = loop.collect()
    assert batch.inputs["x"].shape == ()
    assert batch.inputs["x"] == -5


def test_number_that_is_no_array_is_taken_for_one(loop):
    submit(loop, {"x": 7}, "scalar")
    assert loop.collect().inputs["x"] == 7


@pytest.mark.parametrize("prepare", [False, True])
@pytest.mark.parametrize(
    ("tensors", "signature", "code", "message"),
    [
        ({"x": FLOATS}, "nope", "unknown_signature", "'several'"),
        ({}, "serving_default", "missing_input", "Missing named input: x"),
        ({"z": FLOATS}, "serving_default", "unknown_input", "No input is named z"),
        ({"x": FLOATS.astype("f8")}, "serving_default", "type", "has dtype float64, expected flo"),
        ({"x": FLOATS.astype("c8")}, "serving_default", "type", "has dtype complex64"),
        ({"x": np.array(["a"])}, "serving_default", "type", "has dtype string, expected float32"),
        ({"x": FLOATS[0, 0]}, "serving_default", "shape", r"has shape \[\], expected \[\?,\?\]"),
        ({"x": np.zeros((2**30, 0), "f4")}, "serving_default", "shape", "there are no elements"),
    ],
)
def test_what_does_not_fit_the_signature_is_named(loop, tensors, signature, code, message, prepare):
    with pytest.raises(DecodeError, match=message) as caught:
        if prepare:
            loop.port.prepare_tensors(signature=signature, tensors=tensors)
        else:
            submit(loop, tensors, signature)
    assert caught.value.code == code
    assert loop.port.in_flight == 0
    assert loop.collect() is None


def test_bool_of_another_byte_is_refused(loop):
    flag = np.array([0, 1, 3], np.uint8).view(bool)
    with pytest.raises(DecodeError, match="'flag' has the byte 3 at element 2") as caught:
        submit(
            loop,
            {"text": [b""] * 3, "flag": flag, "brain": np.zeros((3, 2), ml_dtypes.bfloat16)},
            "several",
        )
    assert caught.value.code == "range"


def test_objects_that_are_no_text_are_a_mistake_of_the_caller(loop):
    with pytest.raises(TypeError, match="must hold bytes or str"):
        submit(loop, {"text": np.array([1, 2], object)}, "several")
    with pytest.raises(TypeError):
        submit(loop, {1: FLOATS})
    assert loop.port.in_flight == 0


def test_large_array_travels_by_reference_from_either_call():
    loop = Loop(signatures(), max_rows=2000)
    large = np.random.default_rng(1).random((1000, 300), np.float32)
    submit(loop, {"x": large})
    drafts = []
    thread = threading.Thread(
        target=lambda: drafts.append(loop.port.prepare_tensors("serving_default", {"x": large}))
    )
    thread.start()
    thread.join()
    (draft,) = drafts
    assert (draft.rows, draft.nbytes) == (1000, large.nbytes)
    loop.port.submit_draft(99, draft, encode=ENCODE, deadline_ns=0)
    assert loop.port.stats()["by_reference"] == 2
    batch = loop.collect()
    np.testing.assert_array_equal(batch.inputs["x"], np.concatenate([large, large]))


def test_more_than_a_payload_may_be_is_too_large():
    loop = Loop(signatures(), max_payload_bytes=1000, request_bytes=4096)
    with pytest.raises(DecodeError, match="needs more memory") as caught:
        submit(loop, {"x": np.zeros((100, 100), np.float32)})
    assert caught.value.code == "too_large"
    loop.close()


def test_full_ring_is_overload():
    loop = Loop(signatures(), request_bytes=4096)
    with pytest.raises(OverloadError):
        for _ in range(100):
            submit(loop, {"x": FLOATS})
    loop.close()


def test_array_may_change_and_go_once_it_was_submitted(loop):
    array = FLOATS.copy()
    submit(loop, {"x": array})
    array[:] = -1
    del array
    gc.collect()
    np.testing.assert_array_equal(loop.collect().inputs["x"], FLOATS)


def test_arrays_and_names_are_not_kept(loop):
    array, name = FLOATS.copy(), "x" * 1
    before = sys.getrefcount(array), sys.getrefcount(name)
    for _ in range(20):
        submit(loop, {name: array})
        loop.port.prepare_tensors("serving_default", {name: array})
        with pytest.raises(DecodeError):
            submit(loop, {name: array}, "scalar")
    assert (sys.getrefcount(array), sys.getrefcount(name)) == before


def test_requests_and_the_encoding_done_by_others_are_measured(loop):
    request_id = submit(loop, {"x": FLOATS}, encode=None, api=2, receive_ns=5_000)
    batch = loop.collect()
    batch.reply({"y": batch.inputs["x"]})
    kind, reply = loop.take()[request_id]
    assert kind == 1
    np.testing.assert_array_equal(reply.tensors()["y"], FLOATS)
    reply.record_encode_ns(elapsed_ns=1234)
    ((signature, api, measured),) = loop.port.metrics()
    assert (signature, api) == ("serving_default", 2)
    for name in ("receive", "decode", "wait", "run", "encode", "rows"):
        assert sum(measured[name][0]) == 1, name
    assert measured["rows"][1] == 3
    assert measured["encode"][1] == 1234


def test_many_threads_prepare_at_once(loop):
    worker = WorkerThread(loop, lambda inputs: {"y": inputs["x"]})
    arrays = [np.full((50, 40 + i), i, np.float32) for i in range(8)]
    drafts = {}

    def prepare(i):
        for _ in range(20):
            drafts[i] = loop.port.prepare_tensors("serving_default", {"x": arrays[i]})

    threads = [threading.Thread(target=prepare, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, draft in drafts.items():
        loop.port.submit_draft(i, draft, encode=None, deadline_ns=0)
    for i, (_, reply) in loop.take(8).items():
        np.testing.assert_array_equal(reply.tensors()["y"], arrays[i])
    loop.close()
    worker.join()
