"""Each request vector gives the same whole, cut anywhere, byte by byte, and before others."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from http_wire import Wire
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.server.limits import HttpLimits

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "vectors" / "http-requests.jsonl")
    .read_text()
    .splitlines()
]
FOLLOWING = b"DELETE /following HTTP/1.1\r\nHost: a\r\n\r\n"
HTML = (400, 417, 501, 505)


def run(vector: dict[str, Any], *chunks: bytes) -> tuple[object, ...]:
    """What the handler and the client saw of these chunks."""
    wire = Wire(HttpLimits(**vector.get("limits", {})))
    wire.send(*chunks)
    assert wire.state.budget.used == 0
    seen = [(s.method, s.target, tuple(s.headers), s.body) for s in wire.seen]
    answers = [(a.status, tuple(a.headers.items()), a.body) for a in wire.answers]
    # How a refusal words its reason may depend on how much of the request there was.
    worded = [a if a[0] == 200 else (a[0], a[1][:1]) for a in answers]
    return seen, worded, wire.ended


def raw(vector: dict[str, Any]) -> bytes:
    return str(vector["bytes"]).encode("latin-1")


@pytest.fixture(params=VECTORS, ids=lambda vector: vector["id"])
def vector(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(request.param)


def test_whole_request_is_understood_or_refused(vector: dict[str, Any]) -> None:
    wire = Wire(HttpLimits(**vector.get("limits", {})))
    wire.send(raw(vector))
    expected = [tuple(part.encode("latin-1") for part in r) for r in vector["requests"]]
    assert [(s.method, s.target, s.body) for s in wire.seen] == expected
    refused = vector.get("refused")
    assert wire.statuses == [200] * len(expected) + ([refused] if refused else [])
    assert wire.ended == vector["closes"]
    if refused:
        last = wire.answers[-1]
        assert last.headers[b"Connection"] == b"close"
        if refused in HTML:
            assert last.headers[b"Content-Type"] == b"text/html"
            assert b"<TITLE>%d " % refused in last.body
        else:
            assert json.loads(last.body)["error"]


def test_cut_at_every_byte_gives_the_same(vector: dict[str, Any]) -> None:
    data = raw(vector)
    whole = run(vector, data)
    for cut in range(1, len(data)):
        assert run(vector, data[:cut], data[cut:]) == whole, cut


def test_byte_by_byte_gives_the_same(vector: dict[str, Any]) -> None:
    data = raw(vector)
    assert run(vector, *(data[i : i + 1] for i in range(len(data)))) == run(vector, data)


def test_request_that_follows_is_answered_only_on_an_open_connection(
    vector: dict[str, Any],
) -> None:
    wire = Wire(HttpLimits(**vector.get("limits", {})))
    wire.send(raw(vector) + FOLLOWING)
    followed = [seen.target for seen in wire.seen].count(b"/following")
    assert followed == (0 if vector["closes"] else 1)
    assert len(wire.seen) == len(vector["requests"]) + followed


def test_request_follows_another_with_the_same_result(vector: dict[str, Any]) -> None:
    data = raw(vector)
    seen, answers, _ = run(vector, data)
    if "limits" in vector:
        return
    assert run(vector, FOLLOWING + data)[0][1:] == seen  # type: ignore[index]
    assert run(vector, FOLLOWING, data)[1][1:] == answers  # type: ignore[index]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_chunking_gives_the_same(data: st.DataObject) -> None:
    vectors = data.draw(st.lists(st.sampled_from(VECTORS), min_size=1, max_size=3))
    vectors = [v for v in vectors if "limits" not in v]
    wire_bytes = b"".join(map(raw, vectors)) or FOLLOWING
    cuts = data.draw(st.lists(st.integers(0, len(wire_bytes)), max_size=12).map(sorted))
    edges = [0, *cuts, len(wire_bytes)]
    chunks = [wire_bytes[a:b] for a, b in pairwise(edges) if a < b]
    assert run({}, *chunks) == run({}, wire_bytes)


@settings(max_examples=300, deadline=None)
@given(
    noise=st.binary(max_size=64),
    place=st.integers(0, 400),
    vectors=st.lists(st.sampled_from(VECTORS), min_size=1, max_size=2),
)
def test_noise_is_answered_or_waited_for_but_never_breaks(
    noise: bytes, place: int, vectors: list[dict[str, Any]]
) -> None:
    data = b"".join(map(raw, vectors))
    wire = Wire()
    wire.send(data[:place] + noise + data[place:])
    assert set(wire.statuses) <= {200, 400, 413, 414, 415, 417, 431, 501, 505}
    wire.end_of_input()
    assert wire.lost
    assert not wire.state.connections
    assert wire.state.budget.used == 0
