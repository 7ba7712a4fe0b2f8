"""Clients as people have them, unmodified: curl, requests, http.client, Node's fetch, wrk."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from model_builders import python_model
from server_process import ServerProcess, served

PREDICT = "/v1/models/half:predict"
HALF = """
    class Model:
        signatures = {
            "serving_default": {
                "inputs": {"x": ("float32", (None,))},
                "outputs": {"y": ("float32", (None,))},
            }
        }

        def predict(self, inputs):
            return {"y": inputs["x"] / 2}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("clients")
    python_model(folder / "half" / "1", HALF)
    with served("--model_name=half", f"--model_base_path={folder / 'half'}") as running:
        yield running


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(*command: str, text: str | None = None) -> str:
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--http1.0"],
        ["--compressed"],
        ["-H", "Expect: 100-continue"],
        ["-H", "Transfer-Encoding: chunked"],
        ["-H", "Content-Type: application/json"],
    ],
    ids=lambda options: " ".join(options) or "plain",
)
def test_curl(server: ServerProcess, tmp_path: Path, options: list[str]) -> None:
    body = tmp_path / "body.json"
    rows = [float(i) for i in range(50_000)]
    body.write_text(json.dumps({"instances": rows}))
    answer = run(
        program("curl"), "-sSf", *options, "--data-binary", f"@{body}", server.url + PREDICT
    )
    assert json.loads(answer) == {"predictions": [row / 2 for row in rows]}


def test_curl_with_columns_and_a_compressed_body(server: ServerProcess, tmp_path: Path) -> None:
    body = tmp_path / "body.json.gz"
    body.write_bytes(gzip.compress(b'{"inputs": {"x": [1.0, 4.0]}}'))
    options = ("-sSf", "-H", "Content-Encoding: gzip", "--data-binary", f"@{body}")
    answer = run(program("curl"), *options, server.url + PREDICT)
    assert json.loads(answer) == {"outputs": [0.5, 2.0]}


def test_curl_head_and_several_urls_on_one_connection(server: ServerProcess) -> None:
    url = f"{server.url}/v1/models/half"
    answer = run(program("curl"), "-sSf", "-v", "-I", url, url, "--stderr", "-")
    assert answer.count("< HTTP/1.1 200 OK") == 2
    assert "Re-using existing" in answer or "Reusing existing" in answer


def test_requests(server: ServerProcess) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"instances": ['
        yield b"1.0, 4.0]}"

    with requests.Session() as session:
        for _ in range(3):
            answer = session.post(server.url + PREDICT, json={"instances": [1.0, 4.0]}, timeout=60)
            assert answer.json() == {"predictions": [0.5, 2.0]}
        chunked = session.post(server.url + PREDICT, data=pieces(), timeout=60)
        assert chunked.json() == {"predictions": [0.5, 2.0]}
        large = session.post(server.url + PREDICT, json={"instances": [1.5] * 20_000}, timeout=60)
        assert large.headers["Content-Encoding"] == "gzip"  # requests asks for it
        assert large.json() == {"predictions": [0.75] * 20_000}
        assert session.get(f"{server.url}/v1/models/none", timeout=60).status_code == 404


def test_http_client_keeps_its_connection(server: ServerProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.connect()
    first = connection.sock
    for value in range(20):
        connection.request("POST", PREDICT, json.dumps({"instances": [value]}))
        assert json.load(connection.getresponse()) == {"predictions": [value / 2]}
    assert connection.sock is first
    connection.close()


def test_pipelined_requests_are_answered_in_their_order(server: ServerProcess) -> None:
    sent = b"".join(
        b"POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s"
        % (PREDICT.encode(), len(body), body)
        for body in (b'{"instances": [%d]}' % (2 * i) for i in range(100))
    )
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        connection.sendall(sent)
        received = b""
        while received.count(b"]}") < 100:
            part = connection.recv(1 << 16)
            assert part
            received += part
    answers = re.findall(rb'{"predictions":\[([^]]*)\]}', received)
    assert [float(answer) for answer in answers] == [float(i) for i in range(100)]


FETCH = """
const url = process.argv[2];
const post = async (body, query = '') => {
  const answer = await fetch(url + query, {method: 'POST', body});
  return [answer.status, await answer.json()];
};
const main = async () => {
  const rows = [...Array(64).keys()];
  const answers = await Promise.all(rows.map(i => post(JSON.stringify({instances: [i]}))));
  const right = ([status, body], i) => status === 200 && body.predictions[0] === i / 2;
  const nan = await post('{"instances": [NaN]}', '?non_finite=null');
  const bad = await post('{"instances": [');
  const found = {right: answers.every(right), nan, bad: [bad[0], typeof bad[1].error]};
  console.log(JSON.stringify(found));
};
main();
"""


def test_fetch_of_node(server: ServerProcess, tmp_path: Path) -> None:
    script = tmp_path / "fetch.js"
    script.write_text(FETCH)
    assert json.loads(run(program("node"), str(script), server.url + PREDICT)) == {
        "right": True,
        "nan": [200, {"predictions": [None]}],
        "bad": [400, "string"],
    }


PIPELINE = """
wrk.method = "POST"
wrk.path = "%s"
wrk.body = '{"instances": [1.0, 4.0]}'
function init()
  local one = {}
  for i = 1, 8 do one[i] = wrk.format() end
  many = table.concat(one)
end
function request() return many end
"""


def test_wrk_with_pipelining(server: ServerProcess, tmp_path: Path) -> None:
    script = tmp_path / "pipeline.lua"
    script.write_text(PIPELINE % PREDICT)
    report = run(program("wrk"), "-t1", "-c4", "-d2", "-s", str(script), server.url)
    assert "Non-2xx" not in report
    assert "Socket errors" not in report
    (count,) = re.findall(r"([0-9]+) requests in", report)
    assert int(count) > 100
