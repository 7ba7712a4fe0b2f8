"""`headrace serve` as a process of its own: what it holds, how it opens, how it ends."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

import model_builders
from server_process import NUMBERED, PATIENCE_S

SLOW = """
import time
from headrace import Signature, TensorSpec

class Model:
    signatures = {"serving_default": Signature(
        {"x": TensorSpec("float32", [None])}, {"y": TensorSpec("float32", [None])})}

    def load(self, path):
        while (path / "wait").exists():
            time.sleep(0.01)

    def predict(self, inputs, signature):
        time.sleep(float(inputs["x"].max()))
        return {"y": inputs["x"]}
"""


@contextmanager
def serving(model, *arguments):
    """A server; yields its process and, once it has printed it, its URL."""
    command = [
        *(sys.executable, "-m", "headrace", "serve"),
        *(f"--model_name={model.name}", f"--model_base_path={model}", *arguments),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)
        process.stdout.close()


def url_of(process):
    line = process.stdout.readline()
    assert line.startswith("headrace: listening on http://127.0.0.1:"), line
    return line.split()[-1]


def ask(url, body=None):
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.mark.tensorflow
def test_front_end_serves_a_saved_model_without_tensorflow_in_it(tmp_path):
    model = tmp_path / "half_plus_three"
    model.mkdir()
    model_builders.half_plus_three_tf1(model / "1")
    with serving(model, "--listen=127.0.0.1:0") as process:
        url = url_of(process)
        predict = f"{url}/v1/models/half_plus_three:predict"
        assert ask(predict, {"instances": [1.0, 2.0, 5.0]}) == (
            200,
            b'{"predictions":[3.5,4.0,5.5]}',
        )
        assert ask(f"{url}/v1/models/half:predict", {"instances": [1.0]})[0] == 404
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        assert "_core" in maps
        assert "tensorflow" not in maps
        assert ask(f"{url}/readyz")[0] == 200


def test_port_opens_before_the_model_is_loaded_and_term_lets_requests_finish(tmp_path):
    model = tmp_path / "slow"
    version = model_builders.python_model(model / "1", SLOW)
    (version / "wait").touch()
    port = free_port()
    with serving(model, f"--listen=127.0.0.1:{port}") as process:
        url = f"http://127.0.0.1:{port}"
        wait_until_open(url)
        assert ask(f"{url}/healthz")[0] == 200
        assert ask(f"{url}/readyz")[0] == 503
        status, body = ask(f"{url}/v1/models/slow:predict", {"instances": [0.0]})
        assert (status, b"loading" in body) == (503, True)
        (version / "wait").unlink()
        assert url_of(process) == url
        answer = os.popen(
            f"curl -sS -m 30 -d '{{\"instances\":[1.0]}}' {url}/v1/models/slow:predict"
        )
        wait_until_busy(url)
        process.send_signal(signal.SIGTERM)
        assert json.loads(answer.read()) == {"predictions": [1.0]}
        answer.close()
        assert process.wait(60) == 0


def test_standard_output_is_the_servers_own_and_may_be_closed(tmp_path):
    code = NUMBERED.replace("import numpy as np", "import numpy as np\n    print('printed')")
    model_builders.python_model(tmp_path / "m" / "1", code)
    command = [sys.executable, "-m", "headrace", "serve", "--listen=127.0.0.1:0"]
    command += ["--model_name=m", f"--model_base_path={tmp_path / 'm'}"]
    for output in ("/dev/full", tmp_path / "out"):
        with open(output, "wb") as out, (tmp_path / "log").open("wb") as log:
            server = subprocess.Popen(command, stdout=out, stderr=log)
            try:
                deadline = time.monotonic() + PATIENCE_S
                done = "cannot be written" if output == "/dev/full" else "listening on"
                while done not in (tmp_path / "log").read_text() + _text(output):
                    assert server.poll() is None
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
                server.terminate()
                assert server.wait(PATIENCE_S) == 0
            finally:
                server.kill()
        assert "printed" in (tmp_path / "log").read_text()
    assert (tmp_path / "out").read_text().startswith("headrace: listening on http://")


def _text(output):
    return "" if output == "/dev/full" else Path(output).read_text()


def test_a_port_that_is_taken_is_an_exit_status_and_a_sentence(tmp_path):
    model = tmp_path / "m"
    model_builders.python_model(model / "1", SLOW)
    with serving(model, "--listen=127.0.0.1:0") as process:
        port = url_of(process).rpartition(":")[2]
        command = [
            *(sys.executable, "-m", "headrace", "serve", "--model_name=m"),
            *(f"--model_base_path={model}", f"--listen=127.0.0.1:{port}"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1
        assert f"cannot listen on 127.0.0.1:{port}" in done.stderr


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_open(url):
    import time

    for _ in range(3000):
        try:
            return urllib.request.urlopen(f"{url}/healthz", timeout=5).close()
        except OSError:
            time.sleep(0.01)
    pytest.fail("the port does not open")


def wait_until_busy(url):
    """Until a request is in flight, as the metrics have it."""
    import re
    import time

    for _ in range(3000):
        _, page = ask(f"{url}/metrics")
        if re.search(rb"^headrace_requests_in_flight\S* [1-9]", page, re.MULTILINE):
            return
        time.sleep(0.01)
    pytest.fail("no request is in flight")
