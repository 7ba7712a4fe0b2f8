"""``headrace bench`` against live servers: Headrace, and peers that misbehave on purpose."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from headrace.cli import main
from model_builders import python_model
from server_process import PATIENCE_S, ServerProcess, served

HALF = """
    class Model:
        signatures = {
            "serving_default": {
                "inputs": {"x": ("float32", (None, 2))},
                "outputs": {"y": ("float32", (None, 2))},
            }
        }

        def predict(self, inputs):
            return {"y": inputs["x"] / 2}
"""
SHORT = ("--warmup=0.1", "--duration=0.5", "--connections=4", "--json=-", "--quiet")
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("bench")
    python_model(folder / "half" / "1", HALF)
    return ["--model_name=half", f"--model_base_path={folder / 'half'}"]


@pytest.fixture(scope="module")
def server(flags: list[str]) -> Iterator[ServerProcess]:
    with served(*flags) as running:
        yield running


@pytest.fixture
def body(tmp_path: Path) -> Path:
    file = tmp_path / "body.json"
    file.write_text("{}")
    return file


def bench(capfd: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The figures of a run."""
    status = main(["bench", *arguments])
    out, err = capfd.readouterr()
    assert status == 0, err
    return json.loads(out)


def value_of(server: ServerProcess, metric: str) -> float:
    text = server.ask("/metrics")[1].decode()
    return sum(float(v) for v in re.findall(rf"^{metric}(?:{{.*}})? (\S+)$", text, re.MULTILINE))


@contextlib.contextmanager
def peer(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """The URL of a server whose every connection is served by a function, on a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        def serve(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                talk(connection)

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1/models/m:predict"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()


def receive(connection: socket.socket) -> bytes:
    """A request with the body ``{}``; empty when there is none any more."""
    received = b""
    while not received.endswith(b"\r\n\r\n{}"):
        part = connection.recv(4096)
        if not part:
            return b""
        received += part
    return received


def test_closed_loop_with_bodies_from_the_metadata(
    server: ServerProcess, capfd: pytest.CaptureFixture[str]
) -> None:
    before = value_of(server, "headrace_requests_total")
    figures = bench(capfd, server.url, "--model=half", "--rows=3", *SHORT)
    assert figures["loop"] == "closed"
    assert figures["messages"] == 16
    assert figures["failures"] == {}
    assert figures["statuses"] == {"200": figures["requests"]}
    assert figures["requests"] >= 20
    assert figures["latency"]["count"] == figures["requests"]
    # Beside those that count there are those of the warm-up, the first one, and of metadata.
    assert value_of(server, "headrace_requests_total") - before > figures["requests"]


def test_open_loop_sends_what_is_due_in_so_many_processes(
    server: ServerProcess, capfd: pytest.CaptureFixture[str]
) -> None:
    url = f"{server.url}/v1/models/half:predict"
    figures = bench(capfd, url, "--rate=400", "--arrivals=constant", "--processes=2", *SHORT)
    assert (figures["loop"], figures["arrivals"]) == ("open", "constant")
    # Of the arrivals at k / 400 s, from 0.1 s on and before 0.6 s.
    assert figures["requests"] == pytest.approx(200, abs=1)
    assert figures["statuses"] == {"200": figures["requests"]}
    assert figures["lateness"]["count"] == figures["requests"]
    assert len(figures["generator_cpu_s"]) == 2
    assert figures["latency"]["mean_us"] >= figures["service"]["mean_us"]


def test_so_many_requests(server: ServerProcess, capfd: pytest.CaptureFixture[str]) -> None:
    for more in ((), ("--rate=1000",)):
        arguments = ("--warmup=0", "--requests=101", "--connections=3", "--json=-", "--processes=2")
        figures = bench(capfd, server.url, "--model=half", *arguments, *more)
        assert figures["requests"] == 101
        assert figures["statuses"] == {"200": 101}


def test_table_and_plot(
    server: ServerProcess, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = (f"--plot={tmp_path / 'p.svg'}", f"--json={tmp_path / 'p.json'}")
    arguments = ("--warmup=0", "--duration=0.7", "--rate=100", *files)
    assert main(["bench", server.url, "--model=half", *arguments]) == 0
    out = capfd.readouterr().out
    assert out.startswith(f"{server.url}/v1/models/half:predict\nopen loop, 100 requests/s")
    assert "p99.9" in out
    assert "<svg" in (tmp_path / "p.svg").read_text()
    assert json.loads((tmp_path / "p.json").read_text())["rate"] == 100


def test_bodies_are_sent_in_turn_with_headers_and_token(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    seen = []

    def talk(connection: socket.socket) -> None:
        while request := receive(connection):
            seen.append(request)
            connection.sendall(ANSWER)

    bodies = []
    for number in range(3):
        bodies.append(tmp_path / f"{number}.json")
        bodies[-1].write_text(f"{number}\r\n\r\n{{}}")
    (tmp_path / "tokens").write_text("# comment\n\nsecret\n")
    with peer(talk) as url:
        arguments = [f"--body={file}" for file in bodies]
        arguments += ["--header=X-Who: me", f"--token_file={tmp_path / 'tokens'}"]
        arguments += ["--requests=7", "--connections=1", "--warmup=0", "--json=-"]
        assert bench(capfd, url, *arguments)["statuses"] == {"200": 7}
    assert [request.split(b"\r\n\r\n")[1] for request in seen] == [
        b"0",  # the first one, before the run
        *(b"%d" % (number % 3) for number in range(7)),
    ]
    for request in seen:
        assert b"\r\nX-Who: me\r\n" in request
        assert b"\r\nAuthorization: Bearer secret\r\n" in request


def test_pause_of_the_server_counts_for_all_who_waited(
    body: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What coordinated omission would hide: with 50 requests a second due, a pause of 1 s."""
    answered = 0

    def talk(connection: socket.socket) -> None:
        nonlocal answered
        while receive(connection):
            answered += 1
            if answered == 20:
                time.sleep(1)
            connection.sendall(ANSWER)

    run = ("--arrivals=constant", "--warmup=0", "--duration=2", "--connections=1", "--json=-")
    with peer(talk) as url:
        figures = bench(capfd, url, f"--body={body}", "--rate=50", *run)
    assert figures["requests"] == 100
    # Half of the requests were due during the pause and waited half a second in the mean.
    slow = [us for percentile, us in figures["latency"]["curve"] if 65 <= percentile <= 100]
    assert min(slow) > 150_000
    # Of those that were sent, a single one was answered late: that is what it looks like to
    # a client that waits.
    assert figures["service"]["p95_us"] < 500_000
    assert figures["service"]["max_us"] > 900_000


def test_errors_are_counted_by_kind(body: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked = 0

    def talk(connection: socket.socket) -> None:
        nonlocal asked
        while receive(connection):
            asked += 1
            if asked % 4 == 1:
                connection.sendall(ANSWER)
            elif asked % 4 == 2:
                text = b'{"error": "too much"}'
                head = b"HTTP/1.1 503 Busy\r\nContent-Length: %d\r\n\r\n" % len(text)
                connection.sendall(head + text)
            elif asked % 4 == 3:
                return
            else:
                receive(connection)  # never answers

    with peer(talk) as url:
        run = ("--requests=40", "--connections=1", "--warmup=0", "--timeout=0.1")
        assert main(["bench", url, f"--body={body}", *run, "--json=-"]) == 0
    figures = json.loads(capfd.readouterr().out)
    # The first answer was for the trial.
    assert figures["statuses"] == {"200": 10, "503": 10}
    assert figures["failures"] == {"connection lost": 10, "no answer in time": 10}
    assert figures["samples"] == {"503": '{"error": "too much"}'}
    assert figures["latency"]["count"] == 20
    assert figures["latency"]["p75_us"] >= 100_000


def test_server_that_goes_away_is_told_from_one_that_idles(
    body: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/models/m:predict"

        def serve_two_then_go() -> None:
            for last in (False, True):  # the trial, then the connection of the run
                connection, _ = listener.accept()
                if last:
                    listener.close()  # before the answer, or another could still get in
                with connection:
                    receive(connection)
                    connection.sendall(ANSWER)

        serving = threading.Thread(target=serve_two_then_go)
        serving.start()
        run = ("--warmup=0", "--requests=4", "--connections=1", "--json=-")
        figures = bench(capfd, url, f"--body={body}", *run)
        serving.join()
    assert figures["statuses"] == {"200": 1}
    assert figures["failures"]["no connection"] >= 2
    assert figures["requests"] == 4


def test_https(flags: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = (f"--tls_cert={tmp_path / 'cert.pem'}", f"--tls_key={tmp_path / 'key.pem'}")
    with served(*flags, *tls) as running:
        for trust in (f"--cacert={tmp_path / 'ca.pem'}", "--insecure"):
            figures = bench(capfd, running.url, "--model=half", trust, *SHORT)
            assert figures["requests"] == figures["statuses"]["200"] > 0
        assert main(["bench", running.url, "--model=half", *SHORT]) == 1
        assert "certificate verify failed" in capfd.readouterr().err


@pytest.mark.parametrize("signal_to_all", [False, True])
def test_interrupted_run_shows_what_was_measured(
    server: ServerProcess, signal_to_all: bool
) -> None:
    """Ctrl-C goes to every process of a terminal's group; `kill -INT` to one."""
    before = value_of(server, "headrace_requests_total")
    run = ("--warmup=0", "--duration=600", "--rate=20", "--json=-")
    with subprocess.Popen(
        [sys.executable, "-m", "headrace", "bench", server.url, "--model=half", *run],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + PATIENCE_S
        while value_of(server, "headrace_requests_total") < before + 5:  # it runs
            assert time.monotonic() < deadline
            time.sleep(0.02)
        if signal_to_all:
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "")
    figures = json.loads(out)
    assert figures["interrupted"]
    assert figures["requests"] == figures["successes"] >= 3
    assert "note: the run was interrupted" in figures["warnings"]


def test_refusal_of_the_first_request_ends_the_run(
    server: ServerProcess, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.json"
    file.write_text('{"instances": [["a", 1]]}')
    assert main(["bench", server.url, "--model=half", f"--body={file}"]) == 4
    assert ": 400 Bad Request: " in capfd.readouterr().err
    assert main(["bench", server.url, "--model=other"]) == 4
    assert "404 Not Found" in capfd.readouterr().err


def test_no_server(capfd: pytest.CaptureFixture[str], body: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert main(["bench", f"http://127.0.0.1:{port}", "--model=m", f"--body={body}"]) == 1
    message = capfd.readouterr().err
    assert re.fullmatch(r"headrace bench: no answer from http://\S+: .*refused\n", message)
