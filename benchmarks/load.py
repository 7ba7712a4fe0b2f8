"""Load for a server: `wrk` where it is installed, else the asyncio client of client.py.

Both are closed loops, so a latency here is that of a client that waits for each answer; it is no
forecast for arrivals that do not wait. The asyncio client is Python and shares the cores
with the server, so figures of fast servers are lower bounds with it, and the report says so.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import uvloop

from client import RepeatingClient, connect, finish

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
        return "benchmarks/client.py (no wrk here: figures of fast servers are lower bounds)"
    banner = subprocess.run(["wrk", "-v"], capture_output=True, text=True, timeout=10, check=False)
    return " ".join((banner.stdout or banner.stderr).split()[:2])


def apply_load(url: str, body: Path, connections: int, duration_s: float) -> Load:
    """POSTs the file `body` to `url` over `connections` connections for `duration_s`."""
    if shutil.which("wrk"):
        return _wrk(url, body, connections, duration_s)
    return uvloop.run(_own(url, body.read_bytes(), connections, duration_s))


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


async def _own(url: str, body: bytes, connections: int, duration_s: float) -> Load:
    clients = [RepeatingClient(url, body) for _ in range(connections)]
    started = time.perf_counter()
    await connect(clients)
    await asyncio.sleep(duration_s)
    await finish(clients)
    duration_us = (time.perf_counter() - started) * 1e6
    latencies = sorted(value for client in clients for value in client.latencies_us) or [0.0]
    return Load(
        requests=sum(len(client.latencies_us) for client in clients),
        duration_us=duration_us,
        p50_us=latencies[len(latencies) // 2],
        p99_us=latencies[len(latencies) * 99 // 100],
        max_us=latencies[-1],
        bad_status=sum(client.bad_status for client in clients),
        socket_errors=sum(client.lost for client in clients),
    )
