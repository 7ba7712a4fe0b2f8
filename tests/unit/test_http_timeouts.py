"""Every wait of a connection has an end, and only the wait it is in. By a clock that tests move."""

from __future__ import annotations

import pytest
from http_wire import Wire

from headrace.server.limits import HttpLimits
from headrace.server.messages import Exchange

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
LIMITS = HttpLimits(
    idle_timeout_s=20,
    header_timeout_s=8,
    body_timeout_s=12,
    min_body_bytes_per_s=100,
    write_timeout_s=16,
    linger_timeout_s=4,
)
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"


def later(exchange: Exchange) -> None:
    """Leaves the exchange unanswered."""


def test_idle_connection_is_closed_without_a_word() -> None:
    wire = Wire(LIMITS)
    wire.pass_time(19)
    assert not wire.lost
    wire.pass_time(3)
    assert wire.lost
    assert not wire.transport.written
    assert wire.state.counters.idle_closed == 1


def test_idle_time_begins_anew_with_each_answer() -> None:
    wire = Wire(LIMITS)
    for _ in range(5):
        wire.pass_time(15)
        wire.send(GET)
    assert wire.statuses == [200] * 5
    wire.pass_time(22)
    assert wire.lost


def test_connection_is_not_idle_while_a_request_runs() -> None:
    wire = Wire(LIMITS, handler=later)
    wire.send(GET)
    wire.pass_time(1000)
    assert not wire.lost
    wire.exchanges[0].respond(200, b"")
    wire.pass_time(22)
    assert wire.lost


def test_idle_time_ends_with_the_first_byte_of_the_next_request() -> None:
    wire = Wire(LIMITS)
    wire.send(GET)
    wire.pass_time(19)
    wire.send(POST % 1000)
    for _ in range(18):  # longer than the idle timeout, faster than the slowest allowed
        wire.pass_time(1)
        wire.send(b"x" * 50)
    wire.send(b"x" * 100)
    assert wire.statuses == [200, 200]


def test_empty_lines_do_not_keep_a_connection() -> None:
    wire = Wire(LIMITS)
    for _ in range(6):
        wire.pass_time(4)
        wire.send(b"\r\n")
    assert wire.lost


@pytest.mark.parametrize("part", [b"G", b"GET / HTTP/1.1\r\nHost: a\r\n"])
def test_slow_headers_are_answered_408(part: bytes) -> None:
    wire = Wire(LIMITS)
    wire.send(part)
    for _ in range(7):
        wire.pass_time(1)
        wire.send(b"x" if part == b"G" else b"X: y\r\n")
    assert not wire.transport.written
    wire.pass_time(3)
    assert wire.statuses == [408]
    assert wire.transport.eof
    wire.pass_time(6)
    assert wire.lost


@pytest.mark.parametrize(
    "head",
    [
        POST % 1000,
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 99\r\n\r\n",
    ],
    ids=["sized", "chunked", "gzip"],
)
def test_body_that_does_not_come_is_answered_408(head: bytes) -> None:
    wire = Wire(LIMITS)
    wire.send(head)
    wire.pass_time(11)
    assert not wire.transport.written
    wire.pass_time(4)
    assert wire.statuses == [408]
    assert wire.state.budget.used == 0


def test_body_below_the_slowest_rate_is_answered_408_in_the_end() -> None:
    wire = Wire(LIMITS)
    wire.send(POST % 100_000)
    seconds = 0
    while not wire.transport.written:
        wire.send(b"x" * 50)
        wire.pass_time(1)
        seconds += 1
    assert 24 <= seconds <= 28  # 12 s, and one per 100 bytes of 50 a second
    assert wire.statuses == [408]


def test_body_faster_than_the_slowest_rate_may_take_any_time() -> None:
    wire = Wire(LIMITS)
    wire.send(POST % 20_000)
    for _ in range(100):
        wire.send(b"x" * 200)
        wire.pass_time(1)
    assert wire.statuses == [200]


def test_408_waits_for_the_answers_before_it() -> None:
    wire = Wire(LIMITS, handler=later)
    wire.send(GET + b"GET /slow")
    wire.pass_time(11)
    assert not wire.transport.written
    wire.exchanges[0].respond(200, b"")
    wire.settle()
    assert wire.statuses == [200, 408]


def test_client_that_is_held_back_is_not_called_slow() -> None:
    wire = Wire(HttpLimits(max_pipelined=1, header_timeout_s=8), handler=later)
    wire.send(GET + GET[:10])
    wire.pass_time(100)
    assert not wire.transport.written
    wire.exchanges[0].respond(200, b"")
    wire.send(GET[10:])
    wire.exchanges[1].respond(200, b"")
    wire.settle()
    assert wire.statuses == [200, 200]


def test_client_that_takes_nothing_is_cut_off() -> None:
    wire = Wire(LIMITS, handler=later)
    gone: list[bool] = []
    wire.send(GET + GET)
    wire.exchanges[1].on_disconnect = lambda: gone.append(True)
    wire.exchanges[0].respond(200, b"x" * 100_000)
    wire.settle()
    for unsent in (90_000, 50_000, 50_000):
        wire.transport.unsent = unsent
        wire.pass_time(8)
    assert not wire.transport.aborted
    wire.pass_time(4)
    assert wire.transport.aborted
    assert gone == [True]
    assert wire.state.counters.stalled == 1


def test_last_answer_may_take_longer_to_send_than_a_close() -> None:
    wire = Wire(LIMITS, handler=later)
    wire.send(b"GET / HTTP/1.0\r\n\r\n")
    wire.transport.unsent = 50_000
    wire.exchanges[0].respond(200, b"x" * 100_000)
    for unsent in range(50_000, 10_000, -1000):
        wire.transport.unsent = unsent
        wire.pass_time(1)
    assert not wire.transport.aborted
    wire.transport.unsent = 0
    wire.settle()
    assert wire.lost


def test_lingering_ends_even_if_the_client_goes_on_sending() -> None:
    wire = Wire(LIMITS)
    wire.send(b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n")
    for _ in range(8):
        wire.send(b"x" * 1000)
        wire.pass_time(1)
    assert wire.lost
    assert wire.statuses == [501]


def test_sweep_is_fine_enough_for_the_shortest_timeout() -> None:
    assert HttpLimits().tick_s == pytest.approx(0.75)
    assert HttpLimits(idle_timeout_s=0.2).tick_s == pytest.approx(0.05)
    assert HttpLimits(header_timeout_s=0.0).tick_s == pytest.approx(0.01)


def test_date_moves_with_the_sweep() -> None:
    wire = Wire()
    wall = [0.0]
    wire.state._wall_clock = lambda: wall[0]
    wire.state.tick()
    wire.send(GET, GET)
    wall[0] = 86_400.0
    wire.send(GET)
    wire.state.tick()
    wire.send(GET)
    dates = [answer.headers[b"Date"][5:16] for answer in wire.answers]
    assert dates == [b"01 Jan 1970"] * 3 + [b"02 Jan 1970"]
