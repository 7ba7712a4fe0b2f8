"""Whatever mix of requests waits, each row's result goes to the request that the row came from."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from ring_loop import Loop, body_of

from headrace import Signature, TensorSpec
from headrace.tensors import compile_signatures

NUMBERS = TensorSpec("float32", (None, None))
TEXTS = TensorSpec("string", (None,))
SIGNATURES = compile_signatures(
    {
        "numbers": Signature(inputs={"x": NUMBERS}, outputs={"y": NUMBERS}),
        "texts": Signature(inputs={"x": TEXTS}, outputs={"y": TEXTS}),
    }
)

numbers = st.tuples(st.integers(1, 5), st.integers(1, 3))
texts = st.lists(st.text(st.characters(codec="utf-8"), max_size=9), min_size=1, max_size=5)
fates = st.sampled_from(["served", "served", "served", "cancelled", "expired"])
requests = st.lists(st.tuples(st.one_of(numbers, texts), fates), max_size=24)
treatments = st.lists(st.sampled_from(["reply", "split", "fail"]), min_size=1, max_size=8)


def rows_of(place, kind):
    """A request's rows, which no other request has."""
    if isinstance(kind, list):
        return [f"{place}:{text}" for text in kind]
    rows, width = kind
    return [
        [float(place * 100 + row * 10 + column) for column in range(width)] for row in range(rows)
    ]


def submit_all(loop, mix):
    """Id to the rows that are to come back; None where an error is."""
    expected = {}
    for place, (kind, fate) in enumerate(mix):
        rows = rows_of(place, kind)
        signature = "texts" if isinstance(kind, list) else "numbers"
        request_id = loop.submit(
            body_of(rows, signature), deadline_ns=1 if fate == "expired" else 0
        )
        if fate == "cancelled":
            assert loop.port.cancel(request_id)
        else:
            expected[request_id] = None if fate == "expired" else rows
    return expected


def serve_all(loop, max_rows, how):
    """Treats batch after batch as `how` says; the rows of those that failed."""
    failed = []
    turn = 0
    while (batch := loop.collect()) is not None:
        assert batch.size == 1 or batch.rows <= max_rows
        treatment = how[turn % len(how)]
        turn += 1
        if treatment == "fail":
            failed += batch.inputs["x"].tolist()
            batch.fail("internal", "it was to fail")
            continue
        for single in batch.split() if treatment == "split" else [batch]:
            single.reply({"y": single.inputs["x"]})
    return failed


@settings(max_examples=100, deadline=None)
@given(mix=requests, max_rows=st.integers(1, 12), how=treatments)
def test_every_row_comes_back_to_its_request(mix, max_rows, how):
    loop = Loop(SIGNATURES, request_bytes=1 << 18, reply_bytes=1 << 18, max_rows=max_rows)
    expected = submit_all(loop, mix)
    failed = serve_all(loop, max_rows, how)
    replies = loop.take(len(expected))
    assert set(replies) == set(expected)
    for request_id, rows in expected.items():
        kind, payload = replies[request_id]
        if rows is None:
            assert payload[0] == "deadline_exceeded"
        elif kind == 2:
            first = rows[0].encode() if isinstance(rows[0], str) else rows[0]
            assert first in failed
        else:
            assert json.loads(payload) == {"predictions": rows}
    assert loop.port.in_flight == 0
    assert loop.port.in_flight_bytes == 0
    loop.close()
