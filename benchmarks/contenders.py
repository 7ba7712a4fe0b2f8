"""The servers that serving.py compares: how each is started, and where it answers."""

from __future__ import annotations

import contextlib
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from client import same_predictions
from models import Model
from processes import Server, ServerFailed, free_port

PEERS = Path(__file__).with_name("peers")
START_TIMEOUT_S = 120


POLLING = {"litserve"}
"""Servers that poll when idle (a fifth of a core): paused while others are measured.

Not all are paused: some watch their own processes by the clock and would miss a heartbeat.
"""


@dataclass(frozen=True)
class Running:
    """A server that has given a right answer at `url`."""

    server: Server
    url: str

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """Within it the server runs; one that polls is stopped outside."""
        self.server.check_running()
        if self.server.name not in POLLING:
            yield
            return
        self.server.resume()
        yield
        self.server.pause()


def start_headrace(model: Model, log: Path) -> Running:
    """Headrace with its defaults, on a port that the kernel chose."""
    options = [f"--model_name={model.name}", f"--model_base_path={model.base_path}"]
    server, origin = headrace_serve(options, log)
    return _when_ready(server, f"{origin}/v1/models/{model.name}:predict", model)


def headrace_serve(flags: Sequence[str], log: Path) -> tuple[Server, str]:
    """`headrace serve` with these flags, and its URL without a path, once its models answer."""
    command = [sys.executable, "-m", "headrace", "serve", *flags, "--listen=127.0.0.1:0"]
    server = Server("headrace", command, log)
    try:
        return server, server.wait_for_line(r"listening on (http://\S+)", START_TIMEOUT_S)
    except BaseException:
        server.stop()
        raise


def _peer(script: str, *arguments: str) -> Callable[[Model, Path], Running]:
    def start(model: Model, log: Path) -> Running:
        port = free_port()
        command = [sys.executable, script, str(model.saved_model), str(port), *arguments]
        server = Server(script.removesuffix("_app.py"), command, log, cwd=PEERS)
        return _when_ready(server, f"http://127.0.0.1:{port}/predict", model)

    return start


START: dict[str, Callable[[Model, Path], Running]] = {
    "headrace": start_headrace,
    "fastapi": _peer("fastapi_app.py"),
    "mosec": _peer("mosec_app.py"),
    "litserve": _peer("litserve_app.py"),
    "fastapi-2": _peer("fastapi_app.py", "2"),
    "mosec-2": _peer("mosec_app.py", "2"),
}
"""By name; `-2` are variants with two processes that each hold a copy of the model."""


def _when_ready(server: Server, url: str, model: Model) -> Running:
    """Waits for a right answer; stops the server and raises `ServerFailed` if none comes."""
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _answers(url, model):
            server.check_running()
            if time.monotonic() > deadline:
                tail = server.log.read_text(errors="replace")[-2000:]
                raise ServerFailed(f"{server.name} gave no right answer at {url}:\n{tail}")
            time.sleep(0.1)
    except BaseException:
        server.stop()
        raise
    return Running(server, url)


def _answers(url: str, model: Model) -> bool:
    request = urllib.request.Request(
        url, data=model.body(0), headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return same_predictions(answer.read(), model.predictions[0])
    except (urllib.error.URLError, OSError):
        return False
