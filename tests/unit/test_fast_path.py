"""The fast path: what goes it, what leaves it, and that no client can tell the difference."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest
from http_wire import Wire
from hypothesis import given, settings
from hypothesis import strategies as st
from ring_loop import DECODE, ENCODE, Loop

from headrace import _core
from headrace.errors import DeadlineExceeded, HeadraceError, ModelNotReady, OverloadError
from headrace.server.connection import HttpConnection
from headrace.server.fast_path import FastAnswers
from headrace.server.inference import Inference, InferenceOptions
from headrace.server.limits import HttpLimits
from headrace.server.messages import Exchange
from headrace.serving.endpoint import Endpoint
from headrace.serving.metrics import RequestMeter

STATUS = {OverloadError: 503, DeadlineExceeded: 504, ModelNotReady: 503}


@dataclass
class Answerer:
    """The least of a dialect: good answers plain, errors with their text."""

    headers: bytes = b""
    is_fast: bool = True

    @property
    def fast(self) -> FastAnswers | None:
        return FastAnswers(ENCODE, self.headers) if self.is_fast else None

    def succeed(self, exchange: Exchange, body: bytes) -> None:
        lines = [line.split(b": ") for line in self.headers.splitlines()]
        exchange.respond(200, body, headers=[(name, value) for name, value in lines])

    def encode(self, reply: Any) -> bytes:
        return reply.encode(ENCODE)

    def fail(self, exchange: Exchange, error: HeadraceError) -> None:
        exchange.respond(STATUS.get(type(error), 400), str(error).encode())


@dataclass
class Server:
    """A connection, the handler that a dialect would be, rings, and a worker that doubles."""

    limits: HttpLimits = field(default_factory=HttpLimits)
    answerer: Answerer = field(default_factory=Answerer)
    timeout_s: float | None = None
    max_rows: int = 100

    def __post_init__(self) -> None:
        self.rings = Loop()
        self.meter = RequestMeter("m", "predict")
        self.endpoint = Endpoint(
            1, {}, self.rings.port, max_in_flight_rows=self.max_rows, max_in_flight_bytes=1 << 30
        )
        self.wire = Wire(limits=self.limits, handler=self._handle)
        self.inference = Inference(
            InferenceOptions(timeout_s=self.timeout_s),
            loop=self.wire.loop,  # type: ignore[arg-type]
            executor=None,  # type: ignore[arg-type]
        )

    def _handle(self, exchange: Exchange) -> None:
        exchange.request.head.meter = self.meter
        try:
            self.inference.submit(
                self.endpoint, exchange, self.answerer, decode=DECODE, encode=ENCODE
            )
        except HeadraceError as error:
            self.answerer.fail(exchange, error)

    def work(self, *, fails: bool = False) -> list[int]:
        """The worker answers what waits; gives the number of requests in each batch."""
        sizes = []
        while (batch := self.rings.collect()) is not None:
            sizes.append(batch.size)
            if fails:
                batch.fail("invalid_argument", "no")
            else:
                batch.reply({"y": batch.inputs["x"] * 2})
        self.endpoint.deliver()
        self.wire.settle()
        return sizes

    def close(self) -> None:
        """As a front end does, without which nothing is freed."""
        self.endpoint.close("the server stops")
        self.wire.state.forget_routes()
        self.rings.close()

    def ask(self, *values: float, **head: str) -> None:
        self.wire.send(request(*values, **head))

    def settle_in(self) -> None:
        """Two requests by the general path: the next one with the same head goes the fast one."""
        for _ in range(2):
            self.ask(1.0)
            self.work()

    @property
    def bodies(self) -> list[bytes]:
        return [answer.body for answer in self.wire.answers]

    @property
    def on_general_path(self) -> int:
        return len(self.wire.seen)

    @property
    def is_carrying(self) -> bool:
        return self.wire.connection.is_carrying


def request(*values: float, **head: str) -> bytes:
    body = b'{"instances": [%b]}' % b", ".join(b"%.1f" % value for value in values)
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in head.items())
    return b"POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n%b\r\n%b" % (
        len(body),
        lines.encode(),
        body,
    )


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


def test_head_that_comes_for_the_third_time_goes_the_fast_path(server):
    server.settle_in()
    assert server.on_general_path == 2
    server.ask(3.0)
    assert server.is_carrying
    assert len(server.endpoint) == 0
    server.work()
    assert not server.is_carrying
    assert server.on_general_path == 2
    assert server.bodies[2] == b'{"predictions":[6.0]}'


def test_answer_is_the_general_paths_byte_for_byte(server):
    server.answerer.headers = b"Access-Control-Allow-Origin: *\r\nX-One: 1\r\n"
    server.settle_in()
    general = bytes(server.wire.transport.written)
    server.ask(1.0)
    server.work()
    assert server.on_general_path == 2
    fast = bytes(server.wire.transport.written)[len(general) :]
    assert general == fast * 2


def test_figures_count_both_paths(server):
    for _ in range(5):
        server.ask(1.0)
        server.work()
    assert server.on_general_path == 2
    counters = server.wire.state.counters
    assert counters.requests == 5
    assert counters.bytes_received == 5 * len(request(1.0))
    assert counters.bytes_sent == len(server.wire.transport.written)
    assert sum(server.meter.read().latency.counts) == 5
    ((_, _, measures),) = server.rings.port.metrics()
    assert sum(measures["decode"][0]) == sum(measures["encode"][0]) == 5


@pytest.mark.parametrize(
    "head",
    [
        {"Connection": "close"},
        {"Expect": "100-continue"},
        {"X-Long": "x" * 1100},
    ],
)
def test_heads_that_are_not_plain_never_go_it(server, head):
    for number in range(1, 5):
        server.wire.connect()
        server.ask(1.0, **head)
        server.work()
        assert server.on_general_path == number


def test_nor_do_answers_that_are_not(server):
    server.answerer.is_fast = False
    for number in range(1, 5):
        server.ask(1.0)
        server.work()
        assert server.on_general_path == number


def test_large_bodies_never_go_it(server):
    values = [1.0] * 7_000
    for number in range(1, 4):
        server.ask(*values)
        server.work()
        assert server.on_general_path == number


def test_heads_that_differ_each_time_leave_nothing_behind(server):
    for number in range(1, 5):
        server.ask(1.0, X_Id=str(number))
        server.work()
    assert server.on_general_path == 4


def test_request_in_pieces_goes_the_general_path(server):
    server.settle_in()
    server.wire.send(request(1.0)[:-1], request(1.0)[-1:])
    server.work()
    assert server.on_general_path == 3
    server.ask(4.0)
    server.work()
    assert server.on_general_path == 3
    assert server.bodies[2:] == [b'{"predictions":[2.0]}', b'{"predictions":[8.0]}']


def test_pipelined_requests_are_answered_in_order(server):
    server.settle_in()
    server.ask(2.0)
    assert server.is_carrying
    server.ask(3.0)
    assert not server.is_carrying
    server.wire.send(request(4.0) + request(5.0))
    server.work()
    assert server.bodies[2:] == [b'{"predictions":[%d.0]}' % n for n in (4, 6, 8, 10)]


def test_answers_that_overtake_keep_their_order(server):
    server.settle_in()
    server.ask(2.0)
    first = server.rings.collect()
    server.ask(3.0)
    server.work()
    assert len(server.bodies) == 2
    first.reply({"y": first.inputs["x"] * 2})
    server.work()
    assert server.bodies[2:] == [b'{"predictions":[4.0]}', b'{"predictions":[6.0]}']


def test_bad_body_gets_the_general_paths_error_and_the_connection_goes_on(server):
    server.settle_in()
    server.wire.send(request(1.0).replace(b"1.0", b'"a"'))
    assert server.wire.answers[2].status == 400
    assert b"instances[0]" in server.bodies[2]
    server.ask(3.0)
    server.work()
    assert server.on_general_path == 3
    assert server.bodies[3] == b'{"predictions":[6.0]}'


def test_error_of_the_model_is_answered_by_the_general_path(server):
    server.settle_in()
    server.ask(3.0)
    server.work(fails=True)
    assert (server.wire.statuses[2], server.bodies[2]) == (400, b"no")
    assert server.meter.read().refused == {400: 1}
    server.ask(3.0)
    server.work()
    assert server.bodies[3] == b'{"predictions":[6.0]}'


@pytest.mark.parametrize(("accepts", "least"), [("gzip", 100), ("identity", 100), ("gzip", None)])
def test_answer_worth_compressing_is_compressed(accepts, least):
    server = Server(limits=HttpLimits(gzip_min_bytes=least))
    for _ in range(3):
        server.ask(*[1.0] * 50, Accept_Encoding=accepts)
        server.work()
    packed = accepts == "gzip" and least is not None
    assert server.on_general_path == 2
    for answer in server.wire.answers:
        assert (b"Content-Encoding" in answer.headers) is packed
    assert server.bodies[0] == server.bodies[2]
    server.close()


def test_answer_above_what_goes_in_one_piece_is_sent_all_the_same(server):
    values = [0.5] * 6_000  # 28 KB there, 24 KB back
    for _ in range(3):
        server.ask(*values)
        server.work()
    assert server.on_general_path == 2
    assert server.bodies[2] == server.bodies[1]
    assert len(server.bodies[2]) > 16 << 10


def test_client_that_goes_is_not_computed_for(server):
    server.settle_in()
    server.ask(3.0)
    server.wire.end_of_input()
    assert server.work() == []
    assert server.meter.read().refused == {499: 1}
    assert server.rings.port.stats()["cancelled"] == 1
    assert server.rings.port.carried_count == 0


def test_answer_to_a_client_that_went_while_it_ran_is_dropped(server):
    server.settle_in()
    server.ask(3.0)
    batch = server.rings.collect()
    server.wire.end_of_input()
    written = len(server.wire.transport.written)
    batch.reply({"y": batch.inputs["x"]})
    server.work()
    assert len(server.wire.transport.written) == written


def test_late_reply_does_not_reach_the_connection_that_took_the_tag(server):
    server.settle_in()
    server.ask(3.0)
    batch = server.rings.collect()
    server.wire.end_of_input()
    server.wire.connect()
    server.ask(1.0)
    server.work()
    server.ask(5.0)
    assert server.is_carrying
    batch.reply({"y": batch.inputs["x"] * 0})
    server.endpoint.deliver()
    assert server.is_carrying
    server.work()
    assert server.bodies == [b'{"predictions":[2.0]}', b'{"predictions":[10.0]}']


def test_bound_of_rows_in_flight_holds():
    server = Server(max_rows=3)
    server.settle_in()
    server.ask(1.0)
    assert server.is_carrying
    others = []
    for _ in range(3):
        others.append(server.wire.connection)
        server.wire.connect()
        server.ask(1.0)
    assert server.wire.statuses == [503]
    assert b"3 rows of 3" in server.bodies[-1]
    server.close()


def test_deadline_passes_on_the_fast_path_too():
    server = Server(timeout_s=1.0)
    server.settle_in()
    server.ask(1.0)
    assert server.is_carrying
    server.endpoint.expire(server.inference._timeout_ns // 2)  # long past, by this clock
    assert server.is_carrying
    server.endpoint.expire((1 << 63) - 1)
    assert server.wire.statuses[-1] == 504
    server.close()


def test_worker_that_dies_has_its_requests_pushed_to_the_successor(server):
    server.settle_in()
    server.ask(3.0)
    assert server.is_carrying
    running = server.rings.collect()
    successor = Loop()
    server.endpoint.replace(successor.port)
    server.wire.state.forget_routes()
    server.rings.port.close()
    server.rings = successor
    server.work()
    assert server.bodies[2] == b'{"predictions":[6.0]}'
    assert running.size == 1


def test_route_that_is_forgotten_is_learnt_again_at_once(server):
    server.settle_in()
    server.wire.state.forget_routes()
    for _ in range(2):
        server.ask(3.0)
        server.work()
    assert server.on_general_path == 3


def test_draining_connection_says_so_in_the_answer_it_owes(server):
    server.settle_in()
    server.ask(3.0)
    server.wire.state.draining = True
    server.wire.connection.drain()
    server.work()
    assert server.wire.answers[2].headers[b"Connection"] == b"close"
    assert server.wire.ended


def test_quiet_connection_ends_when_draining(server):
    server.settle_in()
    server.wire.connection.drain()
    server.wire.settle()
    assert server.wire.ended


def test_client_that_takes_no_answers_is_not_read_by_the_fast_path(server):
    server.settle_in()
    server.wire.connection.pause_writing()
    server.ask(3.0)
    assert not server.wire.transport.reading
    assert server.work() == []
    server.wire.connection.resume_writing()
    server.work()
    assert server.bodies[2] == b'{"predictions":[6.0]}'


def test_connection_is_not_idle_while_its_request_runs():
    server = Server(limits=HttpLimits(idle_timeout_s=1.0))
    server.settle_in()
    server.ask(3.0)
    server.wire.pass_time(5.0)
    assert not server.wire.ended
    server.work()
    server.wire.pass_time(0.9)
    assert not server.wire.ended
    server.wire.pass_time(1.0)
    assert server.wire.ended
    server.close()


def test_nothing_is_kept_of_a_request_that_is_done(server):
    server.settle_in()
    server.ask(3.0)
    connection = server.wire.connection
    before = sys.getrefcount(connection)
    server.work()
    assert sys.getrefcount(connection) == before - 1  # the port's
    head = next(iter(server.wire.state.heads.values()))
    held = sys.getrefcount(head)
    for _ in range(10):
        server.ask(3.0)
        server.work()
    assert sys.getrefcount(head) == held


def test_connection_whose_request_runs_is_freed_with_the_port():
    def connections() -> int:
        gc.collect()
        return sum(isinstance(one, HttpConnection) for one in gc.get_objects())

    before = connections()
    server = Server()
    server.settle_in()
    server.ask(3.0)
    assert connections() == before + 1
    server.close()
    del server
    assert connections() == before


def test_connection_needs_a_fast_path():
    with pytest.raises(TypeError, match="FastPath"):
        _core.FastConnection(object(), memoryview(b""))
    with pytest.raises(TypeError):
        _core.FastConnection()


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("send"), st.integers(1, 400)),
            st.tuples(st.just("work"), st.just(0)),
            st.tuples(st.just("forget"), st.just(0)),
        ),
        max_size=40,
    ),
    values=st.lists(st.integers(0, 9), min_size=1, max_size=8),
)
def test_client_cannot_tell_the_paths_apart(steps, values):
    stream = b"".join(request(float(value)) for value in values)
    written = []
    for is_fast in (True, False):
        server = Server(answerer=Answerer(is_fast=is_fast))
        server.settle_in()
        rest = stream
        for step, size in steps:
            if step == "send":
                server.wire.send(rest[:size])
                rest = rest[size:]
            elif step == "work":
                server.work()
            else:
                server.wire.state.forget_routes()
        server.wire.send(rest)
        server.work()
        written.append(bytes(server.wire.transport.written))
        server.close()
    assert written[0] == written[1]
