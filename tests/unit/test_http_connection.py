"""The life of a connection: order of answers, holding back, disconnects, refusals, the end."""

from __future__ import annotations

import gc
import logging
import weakref

import pytest
from http_wire import CONTINUE, Wire

from headrace.errors import LocalProtocolError
from headrace.server.connection import HttpConnection
from headrace.server.limits import HttpLimits
from headrace.server.messages import Exchange

GET = b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n%b\r\n"


def later(exchange: Exchange) -> None:
    """Leaves the exchange unanswered; the test answers it."""


def gets(count: int) -> bytes:
    return b"".join(GET % i for i in range(count))


# --- answers ------------------------------------------------------------------------------------


def test_answer_has_these_headers_and_no_others() -> None:
    wire = Wire()
    wire.send(GET % 0)
    assert bytes(wire.transport.written) == (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 2\r\n\r\nok"
    )


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (200, b"OK"),
        (400, b"Bad Request"),
        (404, b"Not Found"),
        (409, b"Conflict"),
        (429, b"Client Error"),
        (499, b"Client Error"),
        (500, b"Internal Server Error"),
        (501, b"Not Implemented"),
        (503, b"Service Unavailable"),
        (504, b"Gateway Time-out"),
    ],
)
def test_reason_phrases_are_those_of_tensorflow_serving(status: int, reason: bytes) -> None:
    wire = Wire(handler=lambda exchange: exchange.respond(status, b""))
    wire.send(GET % 0)
    assert wire.transport.written.startswith(b"HTTP/1.1 %d %b\r\n" % (status, reason))


def test_answers_given_in_any_order_are_sent_in_the_order_of_requests() -> None:
    wire = Wire(handler=later)
    wire.send(gets(3))
    for index in (2, 0, 1):
        wire.exchanges[index].respond(200, b"%d" % index)
        wire.settle()
    assert [a.body for a in wire.answers] == [b"0", b"1", b"2"]


def test_pipelined_requests_answered_at_once_go_in_one_write() -> None:
    wire = Wire()
    wire.send(gets(20))
    assert len(wire.answers) == 20
    assert wire.transport.writes == 1


def test_pipelined_requests_answered_later_in_one_turn_go_in_one_write_but_the_last() -> None:
    wire = Wire(handler=later)
    wire.send(gets(5))
    for exchange in wire.exchanges:
        exchange.respond(200, b"x")
    wire.settle()
    assert len(wire.answers) == 5
    assert wire.transport.writes == 1


def test_second_answer_to_a_request_is_a_bug_that_is_reported() -> None:
    wire = Wire()
    wire.send(GET % 0)
    with pytest.raises(LocalProtocolError):
        wire.exchanges[0].respond(200, b"again")
    assert len(wire.answers) == 1


@pytest.mark.parametrize(
    "rest",
    [
        b"/% HTTP/1.1\r\nHost: a\r\n\r\n",
        b"/ HTTP/1.1\r\n\r\n",
        b"/% HTTP/1.1\r\nHost: a",
        b"/ HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n\r\n",
        b"/ HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nwrong",
    ],
)
def test_refusal_of_a_head_request_has_no_body(rest: bytes) -> None:
    wire = Wire()
    wire.send(b"HEAD " + rest)
    (status,) = wire.statuses
    assert status in (400, 413)
    assert wire.transport.written.endswith(b"\r\n\r\n")


def test_head_has_the_headers_of_get_and_no_body() -> None:
    wire = Wire()
    wire.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + GET % 1)
    first, second = wire.answers
    assert first.headers[b"Content-Length"] == b"2"
    assert first.body == b""
    assert second.body == b"ok"


@pytest.mark.parametrize("status", [204, 304])
def test_status_without_body_has_neither_length_nor_type(status: int) -> None:
    wire = Wire(handler=lambda exchange: exchange.respond(status, b""))
    wire.send(GET % 0)
    assert list(wire.answers[0].headers) == [b"Date"]


def test_further_headers_are_sent() -> None:
    wire = Wire(
        handler=lambda exchange: exchange.respond(
            503, b"{}", content_type=b"text/plain", headers=[(b"Retry-After", b"1")]
        )
    )
    wire.send(GET % 0)
    headers = wire.answers[0].headers
    assert headers[b"Retry-After"] == b"1"
    assert headers[b"Content-Type"] == b"text/plain"
    assert not wire.ended


def test_large_answer_is_sent_whole() -> None:
    body = bytes(range(256)) * 1024
    wire = Wire(
        HttpLimits(gzip_min_bytes=None), handler=lambda exchange: exchange.respond(200, body)
    )
    wire.send(gets(3))
    assert [a.body for a in wire.answers] == [body] * 3


def test_application_can_make_its_answer_the_last() -> None:
    wire = Wire(handler=later)
    gone: list[int] = []
    wire.send(gets(3))
    wire.exchanges[2].on_disconnect = lambda: gone.append(2)
    wire.exchanges[0].respond(200, b"0")
    wire.exchanges[1].respond(404, b"1", headers=[(b"Connection", b"close")])
    wire.settle()
    assert wire.statuses == [200, 404]
    assert wire.answers[1].headers[b"Connection"] == b"close"
    assert wire.ended
    assert gone == [2]
    assert wire.exchanges[2].closed


@pytest.mark.parametrize("keep", [True, False])
def test_http_1_0_connection_is_kept_only_if_asked(keep: bool) -> None:
    wire = Wire()
    wire.send(b"GET / HTTP/1.0\r\n%b\r\n" % (b"Connection: keep-alive\r\n" if keep else b""))
    assert wire.answers[0].headers[b"Connection"] == (b"keep-alive" if keep else b"close")
    assert wire.ended is not keep


def test_failing_handler_is_logged_and_answered_500_without_detail(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(exchange: Exchange) -> None:
        raise ValueError("secret")

    wire = Wire(handler=fail)
    with caplog.at_level(logging.ERROR):
        wire.send(GET % 0)
    assert wire.statuses == [500]
    assert b"secret" not in wire.transport.written
    assert "secret" in caplog.text
    assert not wire.ended


# --- bodies in place ----------------------------------------------------------------------------


def test_body_is_received_into_one_buffer_with_slack() -> None:
    size = 300_000
    wire = Wire(handler=later)
    wire.send(POST % (size, b"") + b"x" * 1000)
    window = wire.connection.get_buffer(65536)
    assert window.obj is not wire.state.receive_memory.obj
    wire.send(b"x" * (size - 1000) + GET % 1)
    request = wire.exchanges[0].request
    assert isinstance(request.body, memoryview)
    assert request.body.obj is window.obj
    assert len(request.body) == size
    assert request.slack == 64
    assert memoryview(request.body.obj).nbytes == size + 64  # type: ignore[arg-type]
    assert wire.seen[0].body == b"x" * size
    assert wire.seen[1].target == b"/1"


def test_small_body_is_plain_bytes() -> None:
    wire = Wire(handler=later)
    wire.send(POST % (5, b"") + b"hello")
    assert wire.exchanges[0].request.body == b"hello"
    assert wire.exchanges[0].request.slack == 0


def test_body_being_received_counts_until_its_answer() -> None:
    wire = Wire(HttpLimits(max_total_body_bytes=1000), handler=later)
    wire.send(POST % (600, b""))
    assert wire.state.budget.used == 600
    wire.send(b"x" * 600)
    assert wire.state.budget.used == 600
    wire.exchanges[0].respond(200, b"")
    assert wire.state.budget.used == 0


def test_released_body_no_longer_counts() -> None:
    wire = Wire(handler=later)
    wire.send(POST % (600, b""), b"x" * 600)
    body = weakref.ref(wire.exchanges[0].request.body.obj)  # type: ignore[union-attr]
    wire.exchanges[0].release_body()
    assert wire.state.budget.used == 0
    assert body() is None
    wire.exchanges[0].respond(200, b"")
    assert wire.state.budget.used == 0


def test_body_beyond_all_bodies_is_refused_before_it_is_read() -> None:
    wire = Wire(HttpLimits(max_total_body_bytes=1000, retry_after_s=7), handler=later)
    wire.send(POST % (600, b""))
    first = wire.connection
    wire.connect()
    wire.send(POST % (600, b"Expect: 100-continue\r\n"))
    assert wire.statuses == [503]
    assert wire.answers[0].headers[b"Retry-After"] == b"7"
    assert wire.transport.eof
    first.connection_lost(None)
    assert wire.state.budget.used == 0


def test_refused_upload_is_read_and_dropped_so_that_the_answer_arrives() -> None:
    wire = Wire(HttpLimits(max_body_bytes=1000))
    wire.send(POST % (10_000, b"") + b"x" * 100)
    assert wire.statuses == [413]
    assert wire.transport.eof
    assert not wire.transport.closing
    wire.send(b"x" * 9900)
    assert not wire.unread
    assert len(wire.answers) == 1
    wire.end_of_input()
    assert wire.lost


# --- 100 Continue -------------------------------------------------------------------------------


def test_continue_is_sent_before_the_body_comes() -> None:
    wire = Wire()
    wire.send(POST % (3, b"Expect: 100-continue\r\n"))
    assert bytes(wire.transport.written) == CONTINUE
    wire.send(b"abc")
    assert wire.statuses == [200]


def test_continue_is_not_sent_if_the_body_has_begun() -> None:
    wire = Wire()
    wire.send(POST % (3, b"Expect: 100-continue\r\n") + b"a")
    assert not wire.transport.written


def test_continue_waits_for_the_answers_before_it() -> None:
    wire = Wire(handler=later)
    wire.send(GET % 0 + POST % (3, b"Expect: 100-continue\r\n"))
    assert not wire.transport.written
    wire.exchanges[0].respond(200, b"first")
    assert wire.transport.written.endswith(b"first" + CONTINUE)


def test_body_above_the_limit_is_refused_instead_of_invited() -> None:
    wire = Wire(HttpLimits(max_body_bytes=2))
    wire.send(POST % (3, b"Expect: 100-continue\r\n"))
    assert CONTINUE not in wire.transport.written
    assert wire.statuses == [413]


# --- holding back -------------------------------------------------------------------------------


def test_reading_pauses_while_too_many_answers_are_outstanding() -> None:
    wire = Wire(HttpLimits(max_pipelined=4), handler=later)
    wire.send(gets(10))
    assert len(wire.exchanges) == 4
    assert not wire.transport.reading
    for index in range(10):
        wire.exchanges[index].respond(200, b"%d" % index)
        wire.settle()
    assert [a.body for a in wire.answers] == [b"%d" % i for i in range(10)]
    assert wire.transport.reading


def test_held_requests_and_those_still_to_be_read_keep_their_order() -> None:
    wire = Wire(HttpLimits(max_pipelined=1), handler=later)
    data = gets(6)
    wire.send(data[:100], data[100:])
    for index in range(6):
        wire.exchanges[index].respond(200, b"%d" % index)
        wire.settle()
    assert [s.target for s in wire.seen] == [b"/%d" % i for i in range(6)]


def test_no_request_is_looked_at_while_the_client_takes_no_answers() -> None:
    wire = Wire()
    wire.connection.pause_writing()
    wire.send(GET % 0)
    assert not wire.seen
    assert not wire.transport.reading
    wire.connection.resume_writing()
    wire.settle()
    assert wire.statuses == [200]
    assert wire.transport.reading


def test_answers_written_while_the_client_stalls_stop_further_requests() -> None:
    wire = Wire()
    original = wire.transport.write

    def write(data: bytes) -> None:
        original(data)
        wire.connection.pause_writing()

    wire.transport.write = write  # type: ignore[method-assign, assignment]
    wire.send(GET % 0, GET % 1, GET % 2)
    assert len(wire.seen) == 1
    wire.connection.resume_writing()
    wire.settle()
    wire.connection.resume_writing()
    wire.settle()
    assert len(wire.seen) == 3


def test_last_request_is_followed_by_silence_whatever_is_sent() -> None:
    wire = Wire(handler=later)
    wire.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    wire.send(GET % 1, GET % 2)
    assert len(wire.exchanges) == 1
    assert not wire.transport.reading
    wire.exchanges[0].respond(200, b"bye")
    wire.settle()
    assert [a.body for a in wire.answers] == [b"bye"]
    assert wire.transport.eof
    wire.end_of_input()
    assert wire.lost


# --- disconnects --------------------------------------------------------------------------------


@pytest.mark.parametrize("reset", [True, False])
def test_client_that_goes_cancels_what_is_outstanding(reset: bool) -> None:
    wire = Wire(handler=later)
    gone: list[int] = []
    wire.send(gets(3))
    for index, exchange in enumerate(wire.exchanges):
        exchange.on_disconnect = lambda index=index: gone.append(index)  # type: ignore[misc]
    wire.exchanges[1].respond(200, b"given, but not sent")
    if reset:
        wire.connection.connection_lost(ConnectionResetError())
    else:
        wire.end_of_input()
    assert gone == [0, 2]
    assert all(wire.exchanges[i].closed for i in (0, 2))
    wire.exchanges[0].respond(200, b"too late")
    wire.settle()
    assert not wire.transport.written
    assert not wire.state.connections


def test_answers_given_before_the_end_of_input_are_sent() -> None:
    wire = Wire()
    wire.send(gets(2))
    wire.end_of_input()
    assert wire.statuses == [200, 200]
    assert wire.lost


def test_client_that_goes_in_a_body_leaves_nothing() -> None:
    wire = Wire()
    wire.send(POST % (1_000_000, b""), b"x" * 1000)
    assert wire.state.budget.used
    wire.connection.connection_lost(ConnectionResetError())
    assert wire.state.budget.used == 0
    assert not wire.seen


def test_closed_connection_is_freed_without_the_garbage_collector() -> None:
    wire = Wire(handler=later)
    gc.collect()
    gc.disable()
    try:
        wire.send(GET % 0, POST % (100_000, b""), b"x")
        wire.connection.connection_lost(ConnectionResetError())
        wire.exchanges.clear()
        del wire.connection
        left = [o for o in gc.get_objects() if isinstance(o, HttpConnection | Exchange)]
        assert not left
    finally:
        gc.enable()


# --- bounds -------------------------------------------------------------------------------------


def test_connection_above_the_limit_is_answered_503_and_closed() -> None:
    wire = Wire(HttpLimits(max_connections=1))
    first = wire.connection
    wire.connect()
    assert wire.statuses == [503]
    assert wire.answers[0].headers[b"Retry-After"] == b"1"
    assert wire.transport.eof
    wire.send(GET % 0)
    assert not wire.seen
    wire.end_of_input()
    assert wire.state.connections == {first}
    assert wire.state.counters.connections_refused == 1


def test_flood_of_connections_is_cut_off_without_an_answer() -> None:
    wire = Wire(HttpLimits(max_connections=1))
    for _ in range(128):
        wire.connect()
        assert wire.statuses == [503]
    wire.connect()
    wire.settle()
    assert wire.transport.aborted
    assert wire.lost


# --- draining -----------------------------------------------------------------------------------


def drain(wire: Wire) -> None:
    wire.state.draining = True
    wire.connection.drain()
    wire.settle()


def test_drain_closes_an_idle_connection() -> None:
    wire = Wire()
    wire.send(GET % 0)
    drain(wire)
    assert wire.lost


def test_drain_finishes_what_runs_and_says_that_it_was_the_last() -> None:
    wire = Wire(handler=later)
    wire.send(gets(2))
    drain(wire)
    assert not wire.ended
    wire.send(GET % 2)
    for exchange in wire.exchanges:
        exchange.respond(200, b"ok")
    wire.settle()
    assert wire.statuses == [200, 200]
    assert b"Connection" not in wire.answers[0].headers
    assert wire.answers[1].headers[b"Connection"] == b"close"
    assert wire.ended


@pytest.mark.parametrize("begun", [b"GET / HT", POST % (5, b"") + b"he"])
def test_drain_finishes_what_is_being_received(begun: bytes) -> None:
    wire = Wire()
    wire.send(begun)
    drain(wire)
    assert not wire.ended
    wire.send(b"TP/1.1\r\nHost: a\r\n\r\n" if begun.startswith(b"GET") else b"llo")
    assert wire.statuses == [200]
    assert wire.answers[0].headers[b"Connection"] == b"close"
    assert wire.ended


# --- memory of heads ----------------------------------------------------------------------------


def test_the_same_head_is_parsed_once_and_shared() -> None:
    wire = Wire()
    wire.send(GET % 1, GET % 1, GET % 2)
    heads = [exchange.request.head for exchange in wire.exchanges]
    assert heads[0] is heads[1]
    assert heads[0] is not heads[2]


def test_memory_of_heads_is_bounded() -> None:
    wire = Wire()
    for index in range(3000):
        wire.send(GET % index)
    wire.send(b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n" % (b"x" * 4000))
    assert len(wire.seen) == 3001
    assert len(wire.state.heads) <= 1024
    assert max(map(len, wire.state.heads)) <= 1024


def test_refusals_are_counted_by_status() -> None:
    wire = Wire()
    wire.send(b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert wire.state.counters.refusals == {501: 1}
    assert wire.state.counters.requests == 0
