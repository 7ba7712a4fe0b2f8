"""A large request and a larger answer: time outside the model, against FastAPI + orjson.

    python benchmarks/large.py [--quick] [--json FILE] [--plot FILE] [--model basic-pitch|made]

The model is basic-pitch (a window of sound of 43,844 floats in; 75,680 floats out), which pip
downloads, or one of the same shapes that is made on the spot and costs next to nothing: the time
around it is then seen more clearly. Requests go one after the other over one connection of a bare
socket. Time outside the model is the mean latency less the mean time in the model, as each server
itself measures it: Headrace in its metric headrace_run_seconds, the other in a header.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

import audio_model
import harness
import plots
from contenders import PEERS, START_TIMEOUT_S, headrace_serve
from harness import Spread
from processes import Server, ServerFailed, exit_on_sigterm, free_port

OUTPUTS = ("contour", "note", "onset")
NAMES = ("headrace", "fastapi")
SOFTWARE = ("headrace", "tensorflow", "tensorflow-cpu", "numpy", "fastapi", "uvicorn", "orjson")


class Connection:
    """Sends one and the same request over a keep-alive connection, as fast as a socket does."""

    def __init__(self, url: str, body: bytes) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=120)
        head = (
            f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._message = head.encode() + body
        self._buffer = memoryview(bytearray(16 << 20))

    def ask(self) -> tuple[float, bytes, memoryview]:
        """Seconds, the head and the body of the answer; the body until the next call."""
        began = time.perf_counter()
        self._socket.sendall(self._message)
        size = head_end = end = 0
        while not end or size < end:
            got = self._socket.recv_into(self._buffer[size:])
            if not got:
                raise ServerFailed("the connection was closed")
            size += got
            if not end:
                head_end, end = _ends(bytes(self._buffer[: min(size, 8192)]))
        seconds = time.perf_counter() - began
        head = bytes(self._buffer[:head_end])
        body = self._buffer[head_end + 4 : end]
        if b" 200 " not in head[:16]:
            raise ServerFailed(bytes(body[:500]).decode(errors="replace"))
        return seconds, head, body

    def close(self) -> None:
        self._socket.close()


def _ends(received: bytes) -> tuple[int, int]:
    """Where an answer's head and the whole answer end; zeros while the head is not there."""
    head, blank_line, _ = received.partition(b"\r\n\r\n")
    if not blank_line:
        return 0, 0
    length = re.search(rb"\r\ncontent-length: *(\d+)", head.lower())
    if length is None:
        raise ServerFailed("an answer without a Content-Length")
    return len(head), len(head) + 4 + int(length[1])


@dataclass(frozen=True)
class Sample:
    """Means of one round, in milliseconds."""

    latency_ms: float
    model_ms: float

    @property
    def outside_ms(self) -> float:
        return self.latency_ms - self.model_ms


class Headrace:
    """Knows the time in the model from the server's metrics."""

    def __init__(self, base_path: Path, scratch: Path, body: bytes) -> None:
        flags = ["--model_name=audio", f"--model_base_path={base_path}"]
        self.server, self._origin = headrace_serve(flags, scratch / "headrace.log")
        self.connection = Connection(f"{self._origin}/v1/models/audio:predict", body)

    def _run_seconds(self) -> tuple[float, float]:
        """Sum and count so far."""
        with urllib.request.urlopen(f"{self._origin}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return tuple(
            sum(
                float(value)
                for value in re.findall(
                    rf"^headrace_run_seconds_{part}\{{.*\}} (\S+)$", text, re.MULTILINE
                )
            )
            for part in ("sum", "count")
        )

    def burst(self, requests: int) -> Sample:
        before, before_count = self._run_seconds()
        latency = sum(self.connection.ask()[0] for _ in range(requests)) / requests
        after, after_count = self._run_seconds()
        if after_count - before_count != requests:
            raise ServerFailed(f"{after_count - before_count} runs for {requests} requests")
        return Sample(latency * 1e3, (after - before) / requests * 1e3)


class FastApi:
    """Knows the time in the model from each answer's head."""

    def __init__(self, base_path: Path, scratch: Path, body: bytes) -> None:
        port = free_port()
        command = [sys.executable, "fastapi_large.py", str(base_path / "1"), str(port)]
        self.server = Server("fastapi", command, scratch / "fastapi.log", cwd=PEERS)
        try:
            self._wait(port)
            self.connection = Connection(f"http://127.0.0.1:{port}/predict", body)
        except BaseException:
            self.server.stop()
            raise

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            self.server.check_running()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.1)
        raise ServerFailed(f"fastapi does not listen after {START_TIMEOUT_S} s")

    def burst(self, requests: int) -> Sample:
        latency = model = 0.0
        for _ in range(requests):
            seconds, head, _ = self.connection.ask()
            latency += seconds
            model += float(re.search(rb"x-model-seconds: (\S+)", head.lower())[1])
        return Sample(latency / requests * 1e3, model / requests * 1e3)


START = {"headrace": Headrace, "fastapi": FastApi}


def check(running: dict[str, Headrace | FastApi]) -> None:
    """Raises unless all answer the same, within 1e-5."""
    answers = {}
    for name, one in running.items():
        (row,) = json.loads(bytes(one.connection.ask()[2]))["predictions"]
        answers[name] = np.concatenate([np.ravel(row[output]) for output in OUTPUTS])
    first = answers[NAMES[0]]
    for name, values in answers.items():
        if values.size != 75_680 or not np.allclose(values, first, rtol=1e-5, atol=1e-6):
            raise ServerFailed(f"{name} answers something else")


def compare(options: argparse.Namespace, scratch: Path) -> dict[str, list[Sample]]:
    """Bursts against both in turn."""
    base_path, body = scratch / "audio", audio_model.body()
    if options.model == "made":
        audio_model.make(base_path)
    else:
        audio_model.fetch(base_path)
    samples: dict[str, list[Sample]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        running = {}
        for name in NAMES:
            running[name] = START[name](base_path, scratch, body)
            stack.enter_context(running[name].server)
            stack.callback(running[name].connection.close)
        check(running)
        for one in running.values():
            one.burst(options.requests)  # warms up, counts for nothing
        for number in range(options.rounds):
            print(f"# round {number + 1} of {options.rounds}", file=sys.stderr)
            for name in harness.shifted(NAMES, number):
                samples[name].append(running[name].burst(options.requests))
    return samples


def report(samples: dict[str, list[Sample]]) -> str:
    """Both, and Headrace's part of the other's time."""
    rows = []
    for name in NAMES:
        figures = [
            Spread([getattr(s, part) for s in samples[name]]).text("{:.2f}")
            for part in ("latency_ms", "model_ms", "outside_ms")
        ]
        rows.append([name, *figures])
    rows.append(["fastapi / headrace", "-", "-", ratio(samples).text("{:.1f}x")])
    header = ["server", "latency ms", "in the model ms", "outside ms"]
    return harness.markdown_table(header, rows)


def ratio(samples: dict[str, list[Sample]]) -> Spread:
    """How many times Headrace's time outside the model the other's is."""
    return harness.paired_ratio(*([s.outside_ms for s in samples[n]] for n in reversed(NAMES)))


def main() -> None:
    """Measures, prints the table, writes figures and picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    harness.add_common_arguments(parser)
    plots.add_plot_argument(parser)
    parser.add_argument(
        "--model", choices=("basic-pitch", "made"), default="basic-pitch", help="(%(default)s)"
    )
    parser.add_argument("--rounds", type=int, help="default 9, quick 2")
    parser.add_argument("--requests", type=int, help="a burst; default 30, quick 5")
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.quick else 9)
    options.requests = options.requests or (5 if options.quick else 30)
    exit_on_sigterm()
    facts, software = harness.machine(), harness.versions(SOFTWARE)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
        try:
            samples = compare(options, Path(directory))
        except subprocess.CalledProcessError:
            sys.exit("the model cannot be had; --model made needs no download")
    print(harness.describe(facts, software) + "\n")
    print(f"{options.model}: {options.rounds} rounds of {options.requests} requests.\n")
    print(report(samples))
    if options.json:
        servers = {
            name: [{**asdict(s), "outside_ms": s.outside_ms} for s in row]
            for name, row in samples.items()
        }
        result = {"machine": facts, "versions": software, "model": options.model}
        harness.write_json(options.json, result | {"ratio": ratio(samples), "servers": servers})
    if options.plot:
        rows = {
            part: {n: Spread([getattr(s, f"{part}_ms") for s in samples[n]]) for n in NAMES}
            for part in ("latency", "model", "outside")
        }
        plots.bars(options.plot, options.model, "ms", rows)


if __name__ == "__main__":
    main()
