"""What a front port measures, both ends in one process."""

import gc
import threading

import numpy as np
import pytest
from ring_loop import DECODE, ENCODE, Loop, body_of

from headrace import Signature, TensorSpec, _core
from headrace.errors import DecodeError, OverloadError
from headrace.tensors import compile_signatures

STAGES = ("receive", "decode", "wait", "run", "encode", "rows")


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


def measured(port, signature="serving_default", api=0):
    """Measure to the number of values and their total."""
    for found, number, measures in port.metrics():
        if (found, number) == (signature, api):
            return {name: (sum(counts), total) for name, (counts, total) in measures.items()}
    return None


def fill(loop):
    """Submit until the ring is full; how many were accepted."""
    for accepted in range(1000):
        try:
            loop.submit(body_of([1.0]))
        except OverloadError:
            return accepted
    pytest.fail("the ring is never full")


def answer(loop, batches=1):
    for _ in range(batches):
        batch = loop.collect()
        batch.reply({"y": batch.inputs["x"]})


def test_a_port_that_was_not_used_has_measured_nothing(loop):
    assert loop.port.metrics() == []


def test_each_stage_of_a_request_is_measured_once(loop):
    loop.submit(body_of([1.0, 2.0, 3.0]))
    assert measured(loop.port)["decode"][0] == 1
    assert measured(loop.port)["run"][0] == 0
    answer(loop)
    loop.take()
    measures = measured(loop.port)
    assert {name: count for name, (count, _) in measures.items()} == dict.fromkeys(
        (*STAGES, "batch_rows", "batch_requests"), 1
    )
    assert measures["rows"] == (1, 3)
    assert all(measures[name][1] > 0 for name in ("decode", "wait", "run", "encode"))


def test_a_run_is_counted_once_however_many_requests_it_has(loop):
    for rows in (1, 2, 3):
        loop.submit(body_of([0.0] * rows))
    answer(loop)
    loop.submit(body_of([0.0]))
    answer(loop)
    loop.take(4)
    measures = measured(loop.port)
    assert measures["batch_requests"] == (2, 4)
    assert measures["batch_rows"] == (2, 7)
    assert measures["run"][0] == measures["rows"][0] == 4


def test_requests_are_kept_apart_by_signature_and_api():
    x = TensorSpec("float32", (None,))
    signature = Signature(inputs={"x": x}, outputs={"y": x})
    loop = Loop(compile_signatures({"serving_default": signature, "other": signature}))
    for api, name in ((0, None), (2, None), (2, "other")):
        loop.port.submit(
            api + 10 * (name is None),
            body_of([1.0], name),
            decode=DECODE,
            encode=ENCODE,
            deadline_ns=0,
            api=api,
            receive_ns=5_000,
        )
    found = [(signature, api) for signature, api, _ in loop.port.metrics()]
    assert found == [("other", 2), ("serving_default", 0), ("serving_default", 2)]
    assert measured(loop.port, api=2)["receive"] == (1, 5_000)
    loop.close()


def test_api_beyond_the_last_is_refused(loop):
    with pytest.raises(ValueError, match="api: expected a number below 16"):
        loop.port.submit(1, body_of([1.0]), decode=DECODE, encode=ENCODE, deadline_ns=0, api=16)
    assert loop.port.in_flight == 0


def test_what_is_not_accepted_is_not_measured(loop):
    with pytest.raises(DecodeError):
        loop.submit(b'{"instances": ["a"]}')
    full = Loop(request_bytes=4096)
    accepted = fill(full)
    assert loop.port.metrics() == []
    assert measured(full.port)["decode"][0] == accepted
    full.close()


def test_a_request_that_expired_did_not_run(loop):
    loop.submit(body_of([1.0]), deadline_ns=1)
    assert loop.collect() is None
    loop.take()
    measures = measured(loop.port)
    assert measures["decode"][0] == 1
    assert measures["wait"] == measures["run"] == measures["batch_rows"] == (0, 0)


def test_a_run_that_failed_took_its_time(loop):
    for _ in range(2):
        loop.submit(body_of([1.0]))
    batch = loop.collect()
    assert batch.inputs  # with them the run begins
    batch.fail("internal", "no")
    loop.take(2)
    measures = measured(loop.port)
    assert measures["run"][0] == 2
    assert measures["batch_requests"] == (1, 2)
    assert measures["encode"] == (0, 0)


def test_a_request_by_reference_is_measured_as_any_other(loop):
    body = body_of([0.5] * 100_000)
    draft = loop.port.prepare(body, decode=DECODE)
    loop.port.submit_draft(7, draft, encode=ENCODE, deadline_ns=0, api=1, receive_ns=9)
    answer(loop)
    ((_, _, reply),) = [(i, *rest) for i, rest in loop.take().items()]
    assert measured(loop.port, api=1)["encode"] == (0, 0)
    reply.encode()
    measures = measured(loop.port, api=1)
    assert measures["receive"] == (1, 9)
    assert measures["rows"] == (1, 100_000)
    assert all(measures[name][0] == 1 for name in STAGES)


def test_large_answers_are_measured_by_the_threads_that_encode_them():
    loop = Loop(reply_bytes=16 << 20)
    replies = []
    for _ in range(4):
        loop.submit(body_of([0.5] * 20_000))
        answer(loop)
        replies += [reply for _, reply in loop.take().values()]
    threads = [threading.Thread(target=reply.encode) for reply in replies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert measured(loop.port)["encode"][0] == 4
    loop.close()


def test_an_answer_may_be_encoded_when_its_port_has_gone(loop):
    loop.submit(body_of([0.5] * 20_000))
    answer(loop)
    ((_, reply),) = loop.take().values()
    loop.port = Loop().port
    gc.collect()
    assert len(reply.encode()) > 20_000


def test_successor_goes_on_counting():
    dead, new = Loop(), Loop()
    dead.submit(body_of([1.0]))
    answer(dead)
    dead.take()
    lost = dead.submit(body_of([1.0, 2.0]))
    new.port.continue_metrics(dead.port)
    new.port.push_again(dead.port, lost, alone=True)
    answer(new)
    new.take()
    measures = measured(new.port)
    # Decoded once, though it was submitted twice.
    assert measures["rows"] == (2, 3)
    assert measures["run"][0] == measures["batch_requests"][0] == 2
    dead.close()
    new.close()


def test_measures_have_a_bucket_for_each_bound_and_one_above():
    loop = Loop()
    loop.submit(body_of([1.0]))
    ((_, _, measures),) = loop.port.metrics()
    sizes = {"rows", "batch_rows", "batch_requests"}
    for name, (counts, _) in measures.items():
        bounds = _core.size_bounds() if name in sizes else _core.time_bounds_ns()
        assert len(counts) == len(bounds) + 1
    assert np.flatnonzero(measures["rows"][0]).tolist() == [0]
    loop.close()
