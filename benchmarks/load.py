"""Load for a server: `wrk` where it is installed, else what `headrace bench` is made of.

Both are closed loops here, so a latency is that of a client that waits for each answer; it is no
forecast for arrivals that do not wait. The latter is Python and shares the cores with the server,
so figures of fast servers are lower bounds with it, and the report says so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from headrace.bench.fleet import measure
from headrace.bench.plan import Plan, Trust
from headrace.bench.target import Target

SCRIPT = Path(__file__).with_name("post.lua")


@dataclass(frozen=True)
class Load:
    """What one burst of load measured; times in microseconds."""

    requests: int
    duration_us: float
    p50_us: float
    p99_us: float
    max_us: float
    bad_status: int
    socket_errors: int

    @property
    def per_second(self) -> float:
        return self.requests / self.duration_us * 1e6

    @property
    def failed(self) -> int:
        return self.bad_status + self.socket_errors


def generator() -> str:
    """The load generator that `apply_load` uses here, with its version."""
    if not shutil.which("wrk"):
        return "headrace bench (no wrk here: figures of fast servers are lower bounds)"
    banner = subprocess.run(["wrk", "-v"], capture_output=True, text=True, timeout=10, check=False)
    return " ".join((banner.stdout or banner.stderr).split()[:2])


def apply_load(url: str, body: Path, connections: int, duration_s: float) -> Load:
    """POSTs the file `body` to `url` over `connections` connections for `duration_s`."""
    if shutil.which("wrk"):
        return _wrk(url, body, connections, duration_s)
    return _own(url, body.read_bytes(), connections, duration_s)


def _wrk(url: str, body: Path, connections: int, duration_s: float) -> Load:
    # One thread: the server needs the other cores.
    command = ["wrk", "-t1", f"-c{connections}", f"-d{duration_s:g}s", "--timeout", "10s"]
    run = subprocess.run(
        [*command, "-s", str(SCRIPT), url],
        env={**os.environ, "BODY_FILE": str(body)},
        capture_output=True,
        text=True,
        timeout=duration_s + 30,
        check=True,
    )
    return Load(**json.loads(run.stdout.splitlines()[-1]))


def _own(url: str, body: bytes, connections: int, duration_s: float) -> Load:
    outcome = measure(closed_loop(url, body, connections, duration_s))
    record, latency = outcome.record, outcome.record.latency
    return Load(
        requests=record.requests,
        duration_us=outcome.elapsed_s * 1e6,
        p50_us=latency.percentile_s(50) * 1e6,
        p99_us=latency.percentile_s(99) * 1e6,
        max_us=latency.max_s * 1e6,
        bad_status=record.statuses.total() - record.successes,
        socket_errors=record.failures.total(),
    )


def closed_loop(url: str, body: bytes, connections: int, duration_s: float) -> Plan:
    """One process, from the first request on."""
    target = Target.parse(url, None, (), Trust())
    return Plan(
        host=target.host,
        port=target.port,
        tls=None,
        messages=(target.message(body),),
        connections=connections,
        open_loop=None,
        warmup_s=0.0,
        duration_s=duration_s,
        requests=None,
        timeout_s=60.0,
        processes=1,
    )
