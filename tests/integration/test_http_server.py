"""The HTTP server on loopback, on uvloop and on asyncio's own loop, under real clients."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import http.client
import json
import os
import shutil
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import requests
import uvloop

from headrace.server.connection import HttpConnection
from headrace.server.limits import HttpLimits
from headrace.server.listener import HttpListener, open_sockets
from headrace.server.messages import Exchange

T = TypeVar("T")
Handler = Callable[[Exchange], None]
PATIENCE_S = 30.0


def echo(exchange: Exchange) -> None:
    exchange.respond(200, bytes(exchange.request.body))


class Server:
    """A listener on a loop in a thread of its own."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handler: Handler,
        limits: HttpLimits,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.loop = loop
        self._tls = tls
        self._thread = threading.Thread(target=loop.run_forever)
        self._thread.start()
        self.listener = self.call(self._start(handler, limits))
        self.port = self.listener.addresses[0][1]

    async def _start(self, handler: Handler, limits: HttpLimits) -> HttpListener:
        listener = HttpListener(handler, limits)
        await listener.start(open_sockets("127.0.0.1", 0), tls=self._tls)
        return listener

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE_S)

    def on_loop(self, function: Callable[[], T]) -> T:
        async def run() -> T:
            return function()

        return self.call(run())

    def until(self, condition: Callable[[], bool]) -> None:
        """Let the loop turn until ``condition`` holds on it."""

        async def wait() -> None:
            while not condition():
                await asyncio.sleep(0)

        async def wait_patiently() -> None:
            await asyncio.wait_for(wait(), PATIENCE_S)

        self.call(wait_patiently())

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)

    def stop(self, deadline_s: float = 0.0) -> None:
        self.call(self.listener.stop(deadline_s=deadline_s))

    def close(self) -> None:
        self.stop()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_S)
        self.loop.close()


Serve = Callable[..., Server]


@pytest.fixture(params=[uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def serve(request: pytest.FixtureRequest) -> Iterator[Serve]:
    servers: list[Server] = []

    def start(handler: Handler = echo, tls: ssl.SSLContext | None = None, **limits: Any) -> Server:
        servers.append(Server(request.param(), handler, HttpLimits(**limits), tls))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def read_answer(client: socket.socket) -> tuple[int, dict[str, str], bytes]:
    answer = http.client.HTTPResponse(client)
    answer.begin()
    return answer.status, dict(answer.getheaders()), answer.read()


def post(body_bytes: int, headers: bytes = b"") -> bytes:
    return b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n%b\r\n" % (body_bytes, headers)


def test_http_client_reuses_its_connection(serve: Serve) -> None:
    server = serve()
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    for size in (0, 10, 70_000, 3_000_000):
        body = os.urandom(size)
        client.request("POST", "/", body)
        assert client.getresponse().read() == body
    client.request("POST", "/", iter([b"in ", b"chunks"]), encode_chunked=True)
    assert client.getresponse().read() == b"in chunks"
    client.close()
    assert server.listener.state.counters.connections == 1
    assert server.listener.state.counters.requests == 5


def test_requests_session_works_with_compressed_answers(serve: Serve) -> None:
    server = serve(gzip_min_bytes=1000)
    with requests.Session() as session:
        for size in (3, 2000, 500_000):
            answer = session.post(
                f"http://127.0.0.1:{server.port}/", json=[0.5] * size, timeout=PATIENCE_S
            )
            assert answer.json() == [0.5] * size
            assert answer.headers.get("Content-Encoding") == (None if size == 3 else "gzip")
    assert server.listener.state.counters.connections == 1


def test_requests_of_many_threads_each_get_their_own_answer(serve: Serve) -> None:
    server = serve()
    wrong: list[object] = []

    def client(number: int) -> None:
        with requests.Session() as session:
            for index in range(20):
                text = f"{number}-{index}" * (1 + index * 300)
                url = f"http://127.0.0.1:{server.port}/"
                if session.post(url, text, timeout=PATIENCE_S).text != text:
                    wrong.append((number, index))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not wrong
    assert server.listener.state.counters.requests == 160


def test_pipelined_requests_are_answered_in_order(serve: Serve) -> None:
    held: list[Exchange] = []

    def handler(exchange: Exchange) -> None:
        held.append(exchange)
        if len(held) == 50:
            for waiting in reversed(held):
                waiting.respond(200, waiting.request.target)

    server = serve(handler, max_pipelined=64)
    with server.connect() as client:
        client.sendall(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % i for i in range(50)))
        stream = client.makefile("rb")
        targets = []
        for _ in range(50):
            while (line := stream.readline()) != b"\r\n":
                size = int(line.split(b":")[1]) if line.startswith(b"Content-Length") else 0
            targets.append(stream.read(size))
        assert targets == [b"/%d" % i for i in range(50)]


def resident_and_peak_kib() -> tuple[int, int]:
    status = Path("/proc/self/status").read_text()
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return int(lines["VmRSS"].split()[0]), int(lines["VmHWM"].split()[0])


def test_large_body_takes_its_own_size_in_memory_and_no_more(serve: Serve) -> None:
    size = 50_000_000
    sums: list[tuple[int, int]] = []

    def handler(exchange: Exchange) -> None:
        body = exchange.request.body
        sums.append((len(body), body[-1]))
        exchange.respond(200, b"")

    server = serve(handler)
    piece = b"7" * 500_000
    with server.connect() as client:
        client.sendall(post(3) + b"abc")
        read_answer(client)
        gc.collect()
        before, _ = resident_and_peak_kib()
        try:
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        except OSError:
            pytest.skip("this system does not let a process reset its peak")
        client.sendall(post(size))
        for _ in range(size // len(piece)):
            client.sendall(piece)
        assert read_answer(client)[0] == 200
    _, peak = resident_and_peak_kib()
    assert sums[1] == (size, ord("7"))
    assert (peak - before) * 1024 < size * 1.08
    assert server.listener.state.budget.used == 0


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("when", ["after an answer", "in a body", "while it runs"])
def test_a_thousand_resets_leave_nothing(serve: Serve, when: str) -> None:
    cancelled: list[int] = []

    def handler(exchange: Exchange) -> None:
        if when == "while it runs":
            exchange.on_disconnect = lambda: cancelled.append(1)
        else:
            exchange.respond(200, b"{}")

    server = serve(handler)
    state = server.listener.state
    files = open_files()
    for _ in range(1000):
        client = server.connect()
        if when == "in a body":
            client.sendall(post(1_000_000) + b"x" * 1000)
        else:
            client.sendall(post(2) + b"[]")
        if when == "after an answer":
            client.recv(4096)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    server.until(lambda: state.counters.connections == 1000 and not state.connections)
    server.until(lambda: open_files() <= files)
    assert state.budget.used == 0
    assert len(cancelled) == (state.counters.requests if when == "while it runs" else 0)
    gc.collect()
    assert not [o for o in gc.get_objects() if isinstance(o, HttpConnection | Exchange)]


def test_slow_sender_is_answered_408(serve: Serve) -> None:
    server = serve(header_timeout_s=0.1, body_timeout_s=0.1)
    for start in (b"GET / HT", post(100) + b"x"):
        with server.connect() as client:
            client.sendall(start)
            status, headers, body = read_answer(client)
            assert status == 408
            assert headers["Connection"] == "close"
            assert json.loads(body)["error"]
            assert client.recv(1) == b""


def test_idle_connection_is_closed(serve: Serve) -> None:
    server = serve(idle_timeout_s=0.1)
    with server.connect() as client:
        assert client.recv(1) == b""


def test_body_may_take_longer_than_the_idle_timeout(serve: Serve) -> None:
    server = serve(idle_timeout_s=0.1)
    with server.connect() as client:
        client.sendall(post(1))
        threading.Event().wait(0.4)  # what is tested is that nothing happens meanwhile
        client.sendall(b"x")
        assert read_answer(client)[2] == b"x"


def test_refused_upload_gets_its_answer_while_it_is_sent(serve: Serve) -> None:
    server = serve(max_body_bytes=1000)
    with server.connect() as client:
        client.sendall(post(20_000_000))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(20):
                client.sendall(b"x" * 1_000_000)
        assert read_answer(client)[0] == 413


def test_answer_that_the_client_does_not_read_stops_its_further_requests(serve: Serve) -> None:
    body = bytes(8_000_000)
    server = serve(lambda exchange: exchange.respond(200, body))
    state = server.listener.state
    with server.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 100)
        server.until(lambda: state.counters.requests > 0)
        assert state.counters.requests < 10
        stream = client.makefile("rb")
        answers = 0
        while state.counters.requests < 20:
            while stream.readline() != b"\r\n":
                pass
            assert len(stream.read(len(body))) == len(body)
            answers += 1
            assert state.counters.requests < answers + 10


def test_connections_above_the_limit_are_answered_503(serve: Serve) -> None:
    server = serve(max_connections=2)
    state = server.listener.state
    with server.connect(), server.connect() as second:
        second.sendall(post(1) + b"x")
        assert read_answer(second)[0] == 200
        with server.connect() as third:
            assert read_answer(third)[0] == 503
            assert third.recv(1) == b""
    server.until(lambda: not state.connections)
    with server.connect() as client:
        client.sendall(post(1) + b"x")
        assert read_answer(client)[0] == 200


def test_stop_finishes_what_runs_and_closes_what_is_idle(serve: Serve) -> None:
    held: list[Exchange] = []
    server = serve(held.append)
    with server.connect() as idle, server.connect() as busy, server.connect() as sending:
        busy.sendall(b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n")
        sending.sendall(post(2) + b"x")
        state = server.listener.state
        server.until(lambda: bool(held) and len(state.connections) == 3)
        stopping = asyncio.run_coroutine_threadsafe(
            server.listener.stop(deadline_s=PATIENCE_S), server.loop
        )
        assert idle.recv(1) == b""
        with pytest.raises(OSError, match="refused"):
            server.connect()
        assert not stopping.done()
        sending.sendall(b"y")
        server.until(lambda: len(held) == 2)
        for exchange, client in zip(held, (busy, sending), strict=True):
            server.on_loop(lambda exchange=exchange: exchange.respond(200, b"done"))  # type: ignore[misc]
            status, headers, body = read_answer(client)
            assert (status, headers["Connection"], body) == (200, "close", b"done")
            assert client.recv(1) == b""
        stopping.result(PATIENCE_S)


def test_stop_cuts_off_what_outlasts_the_deadline(serve: Serve) -> None:
    held: list[Exchange] = []
    gone = threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.on_disconnect = gone.set
        held.append(exchange)

    server = serve(handler)
    with server.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        server.until(lambda: bool(held))
        server.stop(deadline_s=0.05)
        assert gone.is_set()
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""


def test_request_that_has_arrived_is_answered_although_the_server_stops(serve: Serve) -> None:
    server = serve()
    with server.connect() as client:
        client.sendall(post(1) + b"x")
        read_answer(client)

        async def arrive_and_stop() -> None:
            client.sendall(post(1) + b"y")  # in the kernel; the loop has not seen it
            await server.listener.stop(deadline_s=PATIENCE_S)

        server.call(arrive_and_stop())
        assert read_answer(client)[2] == b"y"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="a certificate is made with openssl")
def test_the_same_server_speaks_tls(serve: Serve, tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server = serve(tls=context, max_body_bytes=4_000_000)
    client = http.client.HTTPSConnection(
        "127.0.0.1",
        server.port,
        timeout=PATIENCE_S,
        context=ssl.create_default_context(cafile=str(certificate)),
    )
    for size in (0, 10, 70_000, 3_000_000):
        body = os.urandom(size)
        client.request("POST", "/", body)
        assert client.getresponse().read() == body
    client.request("TRACE", "/")
    assert client.getresponse().status == 501
    client.close()
    server.until(lambda: not server.listener.state.connections)
