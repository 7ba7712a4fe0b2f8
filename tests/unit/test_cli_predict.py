from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from headrace.cli import main
from headrace.cli.predict import with_signature


class Peer(HTTPServer):
    """A server that keeps what it gets and answers what it is told to."""

    answer: tuple[int, bytes] = (200, b'{"predictions": [3.5]}')
    requests: list[tuple[str, bytes]]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Peer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, body))
        status, answer = self.server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments: object) -> None:
        """Quiet."""


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def body(tmp_path: Path) -> Path:
    file = tmp_path / "body.json"
    file.write_bytes(b'{"instances": [1.0]}')
    return file


def test_answer_is_printed_and_the_body_sent_as_it_is(
    peer: Peer, body: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", f"--url={peer.url}", "--model=half plus/3", str(body)]) == 0
    assert capfd.readouterr() == ('{"predictions": [3.5]}\n', "")
    assert peer.requests == [("/v1/models/half%20plus%2F3:predict", b'{"instances": [1.0]}')]


def test_body_may_come_from_standard_input(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"inputs": NaN}')))
    assert main(["predict", "--url", peer.url, "-"]) == 0
    assert peer.requests == [("/v1/models/default:predict", b'{"inputs": NaN}')]


def test_url_with_a_path_is_taken_as_it_is(peer: Peer, body: Path) -> None:
    assert main(["predict", f"--url={peer.url}/v1/models/m/versions/3:predict?x=1", str(body)]) == 0
    assert peer.requests[0][0] == "/v1/models/m/versions/3:predict?x=1"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ((404, b'{"error": "Servable not found"}'), (4, "404 Not Found: Servable not found")),
        ((400, b"<HTML>bad</HTML>\n"), (4, "400 Bad Request: <HTML>bad</HTML>")),
        ((500, b""), (5, "500 Internal Server Error: (an empty answer)")),
        ((503, b'["odd"]'), (5, '503 Service Unavailable: ["odd"]')),
        ((302, b""), (5, "302 Found: (an empty answer)")),
    ],
)
def test_exit_status_tells_whose_fault_it_is(
    peer: Peer,
    body: Path,
    capfd: pytest.CaptureFixture[str],
    answer: tuple[int, bytes],
    outcome: tuple[int, str],
) -> None:
    peer.answer = answer
    status, message = outcome
    assert main(["predict", f"--url={peer.url}", str(body)]) == status
    assert capfd.readouterr() == ("", f"headrace predict: {message}\n")


def test_no_server_is_status_1(body: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Peer() as server:
        url = server.url  # closed at the end of the block: nobody listens there
    assert main(["predict", f"--url={url}", str(body)]) == 1
    error = capfd.readouterr().err
    assert error.startswith(f"headrace predict: no answer from {url}/v1/models/default:predict: ")
    assert "refused" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--url=ftp://h", "-"], "expected a URL such as http://127.0.0.1:8501"),
        (["--url=127.0.0.1:8501", "-"], "expected a URL such as"),
        (["--url=http://h:99999", "-"], "ort out of range"),
        (["/nowhere/body.json"], "/nowhere/body.json: No such file or directory"),
        ([], "the following arguments are required: FILE"),
    ],
)
def test_usage_mistakes_are_status_2(
    capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["predict", *arguments])
    assert raised.value.code == 2
    assert message in capfd.readouterr().err


def test_signature_goes_first_and_numbers_stay_as_written(peer: Peer, body: Path) -> None:
    body.write_bytes(b'\xef\xbb\xbf {"instances": [1.10, 1e400]}')
    assert main(["predict", f"--url={peer.url}", "--signature", 'a"b', str(body)]) == 0
    assert peer.requests[0][1] == b'{"signature_name": "a\\"b", "instances": [1.10, 1e400]}'


@pytest.mark.parametrize("text", ["{}", "{ }", ' {"a": 1}', '\n{"signature_name": "old"}'])
def test_signature_is_the_first_member(text: str) -> None:
    pairs: Any = json.loads(with_signature(text.encode(), "new"), object_pairs_hook=list)
    assert pairs[0] == ("signature_name", "new")
    assert pairs[1:] == json.loads(text, object_pairs_hook=list)


def test_signature_needs_an_object(body: Path, capfd: pytest.CaptureFixture[str]) -> None:
    body.write_bytes(b"[1]")
    with pytest.raises(SystemExit) as raised:
        main(["predict", "--signature=x", str(body)])
    assert raised.value.code == 2
    assert "--signature needs a body that is a JSON object" in capfd.readouterr().err
