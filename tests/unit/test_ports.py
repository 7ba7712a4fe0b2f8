"""The rings through their Python face, both ends in one process."""

import gc
import json
import os
import select
import sys
import threading
import time

import numpy as np
import pytest
from ring_loop import DECODE, ENCODE, Loop, WorkerThread, body_of

from headrace import DecodeError, Signature, TensorSpec, _core
from headrace.errors import EncodeError, OverloadError, RemoteProtocolError
from headrace.tensors import compile_signatures

ONE_ROW = _core.BatchSettings(max_rows=1)


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


def echo(inputs):
    return {"y": inputs["x"] * 2}


def test_request_comes_back_encoded(loop):
    request_id = loop.submit(body_of([1.0, 2.5]))
    batch = loop.collect()
    assert (batch.signature, batch.size, batch.rows) == ("serving_default", 1, 2)
    np.testing.assert_array_equal(batch.inputs["x"], np.array([1, 2.5], np.float32))
    batch.reply(echo(batch.inputs))
    assert loop.take() == {request_id: (0, b'{"predictions":[2.0,5.0]}')}


def test_columnar_request_is_answered_in_columns(loop):
    request_id = loop.submit(b'{"inputs": {"x": [1.0]}}')
    batch = loop.collect()
    batch.reply(echo(batch.inputs))
    assert json.loads(loop.take()[request_id][1]) == {"outputs": [2.0]}


def test_submit_returns_rows_and_counts_what_is_in_flight(loop):
    rows = loop.port.submit(7, body_of([1, 2, 3]), decode=DECODE, encode=ENCODE, deadline_ns=0)
    assert rows == 3
    assert (loop.port.in_flight, loop.port.in_flight_rows) == (1, 3)
    assert 0 < loop.port.in_flight_bytes <= loop.port.capacity_bytes
    batch = loop.collect()
    batch.reply(echo(batch.inputs))
    loop.take()
    assert (loop.port.in_flight, loop.port.in_flight_rows, loop.port.in_flight_bytes) == (0, 0, 0)


def test_bad_body_raises_and_leaves_nothing(loop):
    with pytest.raises(DecodeError) as caught:
        loop.submit(b'{"instances": [1, "a"]}')
    assert caught.value.path
    assert loop.port.in_flight == 0
    assert loop.collect() is None


def test_requests_are_stacked_and_rows_go_back(loop):
    ids = [loop.submit(body_of([float(i)] * (i + 1))) for i in range(4)]
    batch = loop.collect()
    assert (batch.size, batch.rows) == (4, 10)
    batch.reply(echo(batch.inputs))
    replies = loop.take(4)
    for i, request_id in enumerate(ids):
        assert json.loads(replies[request_id][1]) == {"predictions": [2.0 * i] * (i + 1)}


def test_row_limit_keeps_the_rest_for_the_next_batch():
    loop = Loop(max_rows=4)
    for _ in range(5):
        loop.submit(body_of([1.0, 2.0]))
    sizes = [loop.collect().size for _ in range(3)]
    assert sizes == [2, 2, 1]


def test_larger_than_the_row_limit_runs_alone():
    loop = Loop(max_rows=4)
    loop.submit(body_of([1.0] * 9))
    loop.submit(body_of([1.0]))
    assert loop.collect().rows == 9
    assert loop.collect().rows == 1


def test_smaller_request_does_not_overtake_a_larger_one_of_its_kind():
    loop = Loop(max_rows=4)
    for rows in (3, 3, 1):
        loop.submit(body_of([1.0] * rows))
    assert loop.collect().rows == 3
    assert loop.collect().rows == 4


def matrix_signatures():
    x = TensorSpec("float32", (None, None))
    return compile_signatures(
        {
            "serving_default": Signature(inputs={"x": x}, outputs={"y": x}),
            "other": Signature(inputs={"x": x}, outputs={"y": x}),
            "undeclared": {"x": x},
            "scalar": Signature(inputs={"x": TensorSpec("float32", ())}, outputs={"y": x}),
        }
    )


def test_only_same_inner_shapes_share_a_batch():
    loop = Loop(matrix_signatures())
    shapes = [(1, 2), (1, 3), (2, 2), (2, 3), (1, 2)]
    for shape in shapes:
        loop.submit(body_of(np.ones(shape).tolist()))
    assert loop.collect().inputs["x"].shape == (4, 2)
    assert loop.collect().inputs["x"].shape == (3, 3)
    assert loop.collect() is None


def test_only_same_signatures_share_a_batch():
    loop = Loop(matrix_signatures())
    for signature in ("serving_default", "other", "serving_default"):
        loop.submit(body_of([[1.0]], signature))
    first, second = loop.collect(), loop.collect()
    assert (first.signature, first.size) == ("serving_default", 2)
    assert (second.signature, second.size) == ("other", 1)


@pytest.mark.parametrize("signature", ["undeclared", "scalar"])
def test_signatures_that_cannot_be_stacked_run_alone(signature):
    loop = Loop(matrix_signatures())
    for _ in range(2):
        value = 1.0 if signature == "scalar" else [[1.0]]
        loop.submit(json.dumps({"inputs": value, "signature_name": signature}).encode())
    assert [loop.collect().size, loop.collect().size] == [1, 1]


def string_signatures():
    spec = TensorSpec("string", (None,))
    return compile_signatures(
        {"serving_default": Signature(inputs={"x": spec}, outputs={"y": spec})}
    )


def test_strings_are_stacked_and_split():
    loop = Loop(string_signatures())
    texts = [["a", ""], ["", "lång", "x" * 100], [""]]
    ids = [loop.submit(body_of(values)) for values in texts]
    batch = loop.collect()
    assert batch.inputs["x"].tolist() == [t.encode() for values in texts for t in values]
    batch.reply({"y": batch.inputs["x"]})
    replies = loop.take(3)
    for values, request_id in zip(texts, ids, strict=True):
        assert json.loads(replies[request_id][1]) == {"predictions": values}


def test_several_inputs_of_row_objects():
    specs = {"a": TensorSpec("float32", (None, None)), "b": TensorSpec("string", (None,))}
    out = {"y": TensorSpec("float32", (None,))}
    loop = Loop(compile_signatures({"serving_default": Signature(inputs=specs, outputs=out)}))
    rows = [{"a": [float(i), i + 0.5], "b": f"row {i}" * 50} for i in range(40)]
    for _ in range(2):
        loop.submit(body_of(rows))
    batch = loop.collect()
    assert batch.rows == 80
    np.testing.assert_array_equal(batch.inputs["a"], np.array([r["a"] for r in rows * 2]))
    assert batch.inputs["b"].tolist() == [r["b"].encode() for r in rows * 2]


def test_inputs_are_aligned_and_writable_in_any_batch(loop):
    for requests in (1, 3):
        for _ in range(requests):
            loop.submit(body_of([1.0, 2.0, 3.0]))
        x = loop.collect().inputs["x"]
        assert x.ctypes.data % 64 == 0
        x += 1


def test_inputs_stay_as_they_were_after_everything_else_has_gone():
    loop = Loop(request_bytes=4096)
    loop.submit(body_of([1.0, 2.0, 3.0]))
    batch = loop.collect()
    x = batch.inputs["x"]
    batch.reply(echo(batch.inputs))
    loop.take()
    for _ in range(40):  # laps the ring
        loop.submit(body_of([9.0] * 3))
        batch = loop.collect()
        batch.reply(echo(batch.inputs))
        loop.take()
    del batch
    loop.close()
    del loop
    gc.collect()
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_large_payload_travels_by_reference_and_outlives_its_owners():
    loop = Loop(request_bytes=1 << 16)
    values = np.arange(60_000, dtype=np.float32)
    loop.submit(body_of(values.tolist()))
    assert loop.port.in_flight_bytes > values.nbytes
    assert loop.port.stats()["by_reference"] == 1
    batch = loop.collect()
    x = batch.inputs["x"]
    x += 1  # the copy that is pushed again stays as it was: the next test
    batch.fail("internal", "no")
    loop.take()
    loop.close()
    del batch, loop
    gc.collect()
    np.testing.assert_array_equal(x, values + 1)


def test_large_payloads_share_batches():
    loop = Loop(max_rows=1 << 20)
    values = np.arange(100_000, dtype=np.float32)
    for _ in range(2):
        loop.submit(body_of(values.tolist()))
    batch = loop.collect()
    assert batch.size == 2
    np.testing.assert_array_equal(batch.inputs["x"], np.concatenate([values, values]))


def test_draft_is_prepared_on_another_thread(loop):
    drafts = []
    body = body_of([1.0, 2.0])
    thread = threading.Thread(target=lambda: drafts.append(loop.port.prepare(body, decode=DECODE)))
    thread.start()
    thread.join()
    (draft,) = drafts
    assert (draft.rows, draft.nbytes) == (2, 8)
    loop.port.submit_draft(5, draft, encode=ENCODE, deadline_ns=0)
    with pytest.raises(ValueError, match="before"):
        loop.port.submit_draft(6, draft, encode=ENCODE, deadline_ns=0)
    batch = loop.collect()
    batch.reply(echo(batch.inputs))
    assert loop.take() == {5: (0, b'{"predictions":[2.0,4.0]}')}


def test_payload_above_the_limit_is_a_decode_error():
    loop = Loop(request_bytes=4096, max_payload_bytes=10_000)
    loop.submit(body_of([1.0] * 2000))
    with pytest.raises(DecodeError) as caught:
        loop.submit(body_of([1.0] * 3000))
    assert caught.value.code == "too_large"


@pytest.mark.parametrize("rows", [20_000, 500_000], ids=["in the ring", "by reference"])
def test_large_reply_is_an_object(loop, rows):
    request_id = loop.submit(body_of([1.0]))
    batch = loop.collect()
    values = np.arange(rows, dtype=np.float32)
    batch.reply({"y": values, "extra": np.array([b"a"], object)})
    kind, reply = loop.take()[request_id]
    assert kind == 1
    assert reply.format == "row"
    with pytest.raises(EncodeError) as caught:
        reply.encode()
    assert caught.value.code == "batch_size"
    only_y = _core.EncodeOptions(outputs=["y"])
    assert json.loads(reply.encode(only_y)) == {"predictions": values.tolist()}
    tensors = reply.tensors()
    loop.close()
    del reply
    gc.collect()
    np.testing.assert_array_equal(tensors["y"], values)
    assert tensors["extra"].tolist() == [b"a"]


def test_reply_without_encode_options_comes_as_an_object(loop):
    request_id = loop.submit(body_of([1.0]), encode=None)
    batch = loop.collect()
    batch.reply(echo(batch.inputs))
    kind, reply = loop.take()[request_id]
    assert kind == 1
    assert reply.tensors()["y"].tolist() == [2.0]
    with pytest.raises(ValueError, match="options"):
        reply.encode()


def test_held_replies_are_freed_in_any_order_on_any_thread():
    loop = Loop(reply_bytes=1 << 20, max_rows=1)
    big = np.zeros(50_000, np.float32)  # five fill the ring
    worker = WorkerThread(loop, lambda _: {"y": big})
    held = {}
    for round_ in range(20):
        loop.submit(body_of([1.0]))
        for request_id, (_, reply) in loop.take().items():
            held[request_id] = reply
        if len(held) == 4:
            for request_id in sorted(held, reverse=round_ % 2 == 0):
                reply = held.pop(request_id)
                thread = threading.Thread(target=reply.encode)
                thread.start()
                thread.join()
                del reply
    held.clear()
    loop.close()
    worker.join()


def test_reply_above_the_limit_names_the_output():
    loop = Loop(max_reply_bytes=1000)
    request_id = loop.submit(body_of([1.0]))
    loop.collect().reply({"y": np.zeros(1000, np.float32), "z": np.zeros(1)})
    kind, (code, _, message) = loop.take()[request_id]
    assert (kind, code) == (2, "resource_exhausted")
    assert "'y'" in message
    assert "4000" in message


def test_failure_reaches_each_request(loop):
    ids = [loop.submit(body_of([1.0])) for _ in range(3)]
    loop.collect().fail("invalid_argument", 'no "x" å')
    assert loop.take(3) == {i: (2, ("invalid_argument", "", 'no "x" å')) for i in ids}


def test_error_of_encoding_reaches_the_request(loop):
    request_id = loop.submit(body_of([1.0]), encode=_core.EncodeOptions(non_finite="error"))
    loop.collect().reply({"y": np.array([np.nan], np.float32)})
    kind, (code, _, message) = loop.take()[request_id]
    assert (kind, code) == (2, "non_finite")
    assert message


def test_outputs_that_cannot_be_split_send_nothing_and_the_batch_can_be_split(loop):
    ids = [loop.submit(body_of([float(i)])) for i in range(3)]
    batch = loop.collect()
    with pytest.raises(ValueError, match="'y'"):
        batch.reply({"y": np.zeros(2)})
    with pytest.raises(ValueError, match="complex"):
        batch.reply({"y": np.zeros(3, np.complex64)})
    assert loop.port.take_replies() == []
    for i, single in enumerate(batch.split()):
        assert single.inputs["x"].tolist() == [i]
        single.reply({"y": np.zeros(2)})
    assert {r: json.loads(p) for r, (_, p) in loop.take(3).items()} == {
        i: {"predictions": [0.0, 0.0]} for i in ids
    }
    with pytest.raises(RuntimeError, match="before"):
        batch.reply({"y": np.zeros(3)})


def test_split_batch_sees_the_inputs_as_they_came(loop):
    for _ in range(2):
        loop.submit(body_of([1.0, 2.0]))
    batch = loop.collect()
    batch.inputs["x"][:] = 0
    assert [single.inputs["x"].tolist() for single in batch.split()] == [[1.0, 2.0]] * 2


def test_batch_that_is_dropped_is_answered(loop):
    ids = [loop.submit(body_of([1.0])) for _ in range(2)]
    loop.collect()
    assert {i: (kind, e[0]) for i, (kind, e) in loop.take(2).items()} == {
        i: (2, "internal") for i in ids
    }


def test_cancelled_requests_do_not_run_and_their_room_comes_back(loop):
    ids = [loop.submit(body_of([float(i)])) for i in range(3)]
    assert loop.port.cancel(ids[1])
    assert not loop.port.cancel(ids[1])
    assert loop.port.in_flight == 2
    batch = loop.collect()
    assert batch.inputs["x"].tolist() == [0, 2]
    assert not loop.port.cancel(ids[0])  # it runs
    batch.reply(echo(batch.inputs))
    assert set(loop.take(2)) == {ids[0], ids[2]}
    assert loop.port.in_flight_bytes == 0
    assert loop.worker_port.stats()["cancelled"] == 1


def test_cancelled_large_payload_does_not_confuse_those_after_it():
    loop = Loop(request_bytes=4096)
    first = loop.submit(body_of([1.0] * 3000))
    loop.submit(body_of([2.0] * 3000))
    assert loop.port.cancel(first)
    assert set(loop.collect().inputs["x"].tolist()) == {2.0}


def test_expired_requests_are_answered_without_a_run(loop):
    late = loop.submit(body_of([1.0]), deadline_ns=time.monotonic_ns())
    good = loop.submit(body_of([2.0]), deadline_ns=time.monotonic_ns() + 3600 * 10**9)
    batch = loop.collect()
    assert batch.inputs["x"].tolist() == [2.0]
    batch.reply(echo(batch.inputs))
    replies = loop.take(2)
    assert replies[late][1][0] == "deadline_exceeded"
    assert replies[good][0] == 0


def fill(loop):
    """Submits until the ring is full; the ids of what was accepted."""
    ids = []
    while len(ids) < 1000:
        try:
            ids.append(loop.submit(body_of([1.0])))
        except OverloadError:
            return ids
    pytest.fail("the ring never filled")


def test_full_ring_refuses_and_recovers():
    loop = Loop(request_bytes=4096)
    accepted = len(fill(loop))
    assert accepted > 10
    assert loop.port.stats()["full"] == 1
    batch = loop.collect()
    batch.reply(echo(batch.inputs))
    loop.take(accepted)
    loop.submit(body_of([1.0]))


def test_room_of_cancelled_requests_is_found_without_replies():
    loop = Loop(request_bytes=4096)
    for _ in range(20):
        assert all(loop.port.cancel(i) for i in fill(loop))
        assert loop.collect() is None


def test_full_reply_ring_makes_the_worker_wait_and_loses_nothing():
    loop = Loop(reply_bytes=4096)
    worker = WorkerThread(loop, echo)
    ids = [loop.submit(body_of([float(i)] * 3)) for i in range(300)]
    replies = loop.take(300)
    assert {i: json.loads(replies[i][1]) for i in ids} == {
        request_id: {"predictions": [2.0 * i] * 3} for i, request_id in enumerate(ids)
    }
    loop.close()
    worker.join()


def test_worker_that_waits_for_room_sees_the_front_end_go():
    loop = Loop(reply_bytes=4096)
    for i in range(300):
        loop.submit(body_of([float(i)] * 3))
    worker = WorkerThread(loop, echo)
    select.select([loop.port.doorbell], [], [], 30)
    loop.close()
    worker.join()


def test_collect_ends_when_every_front_end_has_closed():
    first, second = Loop(), Loop()
    collector = _core.Collector([first.worker_port, second.worker_port], ONE_ROW)
    first.close()
    assert collector.collect(timeout_ms=0) is None
    second.submit(body_of([1.0]))
    assert collector.collect().rows == 1
    second.close()
    with pytest.raises(EOFError):
        collector.collect()


def test_ports_take_turns():
    first, second = Loop(), Loop()
    collector = _core.Collector([first.worker_port, second.worker_port], ONE_ROW)
    for i in range(4):
        first.submit(body_of([float(i)]))
    second.submit(body_of([9.0]))
    seen = [collector.collect().inputs["x"].tolist() for _ in range(5)]
    assert seen.index([9.0]) <= 1
    assert [s for s in seen if s != [9.0]] == [[0], [1], [2], [3]]


def test_one_batch_serves_several_front_ends():
    first, second = Loop(), Loop()
    collector = _core.Collector([first.worker_port, second.worker_port])
    a = first.submit(body_of([1.0]))
    b = second.submit(body_of([2.0]))
    batch = collector.collect()
    batch.reply(echo(batch.inputs))
    assert json.loads(first.take()[a][1]) == {"predictions": [2.0]}
    assert json.loads(second.take()[b][1]) == {"predictions": [4.0]}


def test_doorbell_is_silent_while_the_front_end_is_awake_and_rings_once(loop):
    def is_rung():
        return bool(select.select([loop.port.doorbell], [], [], 0)[0])

    for _ in range(3):
        loop.submit(body_of([1.0]))
    batch = loop.collect()
    assert not is_rung()
    batch.reply(echo(batch.inputs))
    assert is_rung()
    assert len(loop.port.take_replies(limit=2)) == 2
    assert is_rung()  # more is left
    assert len(loop.port.take_replies()) == 1
    assert not is_rung()
    assert loop.port.take_replies() == []


def test_run_is_visible_while_it_goes_on(loop):
    loop.submit(body_of([1.0]))
    loop.submit(body_of([2.0]))
    batch = loop.collect()
    assert loop.port.running_since_ns == 0
    before = time.monotonic_ns()
    inputs = batch.inputs
    assert before <= loop.port.running_since_ns <= time.monotonic_ns()
    batch.reply(echo(inputs))
    assert loop.port.running_since_ns == 0


def test_timings_come_with_replies(loop):
    loop.submit(body_of([1.0]))
    batch = loop.collect()
    inputs = batch.inputs
    batch.reply(echo(inputs))
    ((_, _, _, wait_ns, run_ns),) = loop.port.take_replies(timings=True)
    assert wait_ns > 0
    assert run_ns > 0
    stats = loop.port.stats()
    assert (stats["wait_ns"], stats["run_ns"]) == (wait_ns, run_ns)


def successor_of(loop):
    return Loop(loop.signatures)


def test_unanswered_requests_are_pushed_to_the_successor():
    dead = Loop()
    running = [dead.submit(body_of([float(i)])) for i in range(2)]
    batch = dead.collect()
    waiting = [dead.submit(body_of([float(i)])) for i in (2, 3)]
    cancelled = dead.submit(body_of([4.0]))
    dead.port.cancel(cancelled)
    assert dead.port.unanswered() == [
        *((i, True, 1) for i in running),
        *((i, False, 0) for i in waiting),
    ]
    new = successor_of(dead)
    for request_id, was_running, _ in dead.port.unanswered():
        new.port.push_again(dead.port, request_id, alone=was_running)
    assert dead.port.unanswered() == []
    with pytest.raises(KeyError):
        new.port.push_again(dead.port, running[0], alone=True)
    dead.close()
    sizes = []
    while (again := new.collect()) is not None:
        sizes.append(again.size)
        again.reply(echo(again.inputs))
    assert sizes == [1, 1, 2]
    replies = new.take(4)
    assert {i: json.loads(p)["predictions"] for i, (_, p) in replies.items()} == {
        request_id: [2.0 * i] for i, request_id in enumerate(running + waiting)
    }
    del batch


def test_deaths_are_counted_over_generations():
    first = Loop()
    request_id = first.submit(body_of([1.0]))
    kept = [first.collect()]
    second = successor_of(first)
    second.port.push_again(first.port, request_id, alone=True)
    assert second.port.unanswered() == [(request_id, False, 1)]
    kept.append(second.collect())
    assert second.port.unanswered() == [(request_id, True, 2)]
    third = successor_of(second)
    third.port.push_again(second.port, request_id, alone=False)
    assert third.port.unanswered() == [(request_id, False, 2)]


def test_large_payloads_are_pushed_again_as_they_came():
    dead = Loop(request_bytes=4096)
    values = np.arange(10_000, dtype=np.float32)
    request_id = dead.submit(body_of(values.tolist()))
    batch = dead.collect()
    batch.inputs["x"][:] = 0
    new = successor_of(dead)
    new.port.push_again(dead.port, request_id, alone=True)
    del dead, batch
    gc.collect()
    np.testing.assert_array_equal(new.collect().inputs["x"], values)


def push_until_full(new, dead, ids):
    for pushed, request_id in enumerate(ids):
        try:
            new.port.push_again(dead.port, request_id, alone=False)
        except OverloadError:
            return pushed
    return len(ids)


def test_push_again_to_a_full_ring_is_an_overload_and_leaves_the_request():
    dead = Loop()
    ids = [dead.submit(body_of([1.0])) for _ in range(100)]
    new = Loop(request_bytes=4096)
    pushed = push_until_full(new, dead, ids)
    assert 10 < pushed < 100
    assert [r[0] for r in dead.port.unanswered()] == ids[pushed:]
    assert [r[0] for r in new.port.unanswered()] == ids[:pushed]


def test_replies_of_a_dead_worker_are_taken_first():
    dead = Loop()
    answered = dead.submit(body_of([1.0]))
    batch = dead.collect()
    batch.reply(echo(batch.inputs))
    left = dead.submit(body_of([2.0]))
    del dead.collector, dead.worker_port, batch
    gc.collect()
    assert set(dead.take(1)) == {answered}
    assert dead.port.unanswered() == [(left, False, 0)]


def test_closed_port_refuses(loop):
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.submit(body_of([1.0]))
    assert loop.port.take_replies() == []
    loop.close()


def test_worker_port_refuses_what_is_no_channel(loop):
    with pytest.raises(ValueError, match="5"):
        _core.WorkerPort([1, 2], loop.signatures, max_reply_bytes=1)
    fds = loop.channel.worker_fds()
    file = os.memfd_create("no ring")
    with pytest.raises(RemoteProtocolError):
        _core.WorkerPort([file, *fds[1:]], loop.signatures, max_reply_bytes=1)
    os.close(file)
    with pytest.raises(OSError, match="file descriptor"):
        _core.WorkerPort([-1] * 5, loop.signatures, max_reply_bytes=1)


def count_fds():
    return len(os.listdir("/proc/self/fd"))


def test_descriptors_are_given_back():
    gc.collect()
    before = count_fds()
    for _ in range(5):
        loop = Loop(request_bytes=4096)
        for values in ([1.0], [1.0] * 5000):
            loop.submit(body_of(values))
            batch = loop.collect()
            batch.reply({"y": np.zeros(400_000, np.float32)})
            loop.take()
        loop.submit(body_of([1.0] * 5000))
        loop.close()
        loop.channel.close()
        del loop, batch
    gc.collect()
    assert count_fds() == before


def rss_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_memory_and_references_stay_level(loop):
    options = _core.EncodeOptions()
    decode_before, encode_before = sys.getrefcount(DECODE), sys.getrefcount(options)

    def round_():
        for rows in (1, 100, 200_000):
            loop.submit(body_of([1.0] * rows), encode=options)
            batch = loop.collect()
            batch.reply(echo(batch.inputs))
            for _, (kind, payload) in loop.take().items():
                if kind == 1:
                    payload.tensors()
                    payload.encode()

    for _ in range(10):
        round_()
    level = rss_bytes()
    for _ in range(50):
        round_()
    gc.collect()
    assert rss_bytes() - level < 8 << 20
    assert (sys.getrefcount(DECODE), sys.getrefcount(options)) == (decode_before, encode_before)
