"""The HTTP layer alone: requests per second of a constant answer, against a bare httptools echo.

Claim: what the server does around llhttp (framing, limits, timeouts, ordering, backpressure) costs
less than a quarter of a bare parser that does none of it. Each runs on uvloop in a process of its
own, in turn, under the same ``wrk``; medians of the rounds are compared. On a machine that is not
idle, look at the processor time per request: it is the server's own.

    python benchmarks/http_server.py --rounds 5 --seconds 3

``unique`` sends a different header with each request, so that no head is met twice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BODY = b'{"instances": [1.0, 2.0, 5.0]}'
ANSWER = b'{"predictions": [3.5, 4.0, 5.5]}'
TARGET = "/v1/models/half_plus_three:predict"
SCRIPT = """
wrk.method = "POST"
wrk.body = '%s'
wrk.headers["Content-Type"] = "application/json"
"""
UNIQUE = """
local count = math.random(1, 1000000) * 1000000
request = function()
  count = count + 1
  wrk.headers["X-Request-Id"] = tostring(count)
  return wrk.format()
end
"""


class BareEcho(asyncio.Protocol):
    """What httptools does by itself: every callback that a server needs, and no rule kept."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        import httptools

        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)
        self.url = self.body = b""
        self.headers: list[tuple[bytes, bytes]] = []

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url = url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.transport.write(  # type: ignore[attr-defined]
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (len(ANSWER), ANSWER)
        )
        self.headers = []
        self.body = b""


async def serve_echo(protocol: type[asyncio.Protocol]) -> None:
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


class LeanEcho(asyncio.Protocol):
    """The least that can be called an echo: no header and no body is even looked at."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        import httptools

        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        self.transport.write(  # type: ignore[attr-defined]
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (len(ANSWER), ANSWER)
        )


async def serve_headrace(*, later: bool) -> None:
    from headrace.server.listener import HttpListener, open_sockets
    from headrace.server.messages import Exchange

    waiting: list[Exchange] = []
    loop = asyncio.get_running_loop()

    def at_once(exchange: Exchange) -> None:
        exchange.respond(200, ANSWER)

    def answer_all() -> None:
        for exchange in waiting:
            exchange.respond(200, ANSWER)
        waiting.clear()

    def in_a_batch(exchange: Exchange) -> None:
        if not waiting:
            loop.call_soon(answer_all)
        waiting.append(exchange)

    listener = HttpListener(in_a_batch if later else at_once)
    await listener.start(open_sockets("127.0.0.1", 0))
    print(listener.addresses[0][1], flush=True)
    await asyncio.Event().wait()


SERVERS = {
    "lean": lambda: serve_echo(LeanEcho),
    "bare": lambda: serve_echo(BareEcho),
    "headrace": lambda: serve_headrace(later=False),
    "headrace-later": lambda: serve_headrace(later=True),
}


def serve(name: str) -> None:
    import uvloop

    uvloop.run(SERVERS[name]())


def processor_s(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(port: int, pid: int, connections: int, seconds: int, script: Path) -> tuple[float, float]:
    """Requests per second of one run of wrk, and the server's microseconds per request."""
    before = processor_s(pid)
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script)]
    run = subprocess.run(
        [*command, f"http://127.0.0.1:{port}{TARGET}"], capture_output=True, text=True, check=True
    )
    if "Non-2xx" in run.stdout or "Socket errors" in run.stdout:
        raise RuntimeError(run.stdout)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", run.stdout)
    count = re.search(r"(\d+) requests in", run.stdout)
    assert rate is not None
    assert count is not None
    return float(rate[1]), (processor_s(pid) - before) / int(count[1]) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", choices=SERVERS, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--connections", type=int, nargs="+", default=[32, 128])
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed")
    with tempfile.TemporaryDirectory() as folder:
        compare(options, Path(folder))


def compare(options: argparse.Namespace, folder: Path) -> None:
    scripts = {"same": folder / "same.lua", "unique": folder / "unique.lua"}
    scripts["same"].write_text(SCRIPT % BODY.decode())
    scripts["unique"].write_text(SCRIPT % BODY.decode() + UNIQUE)
    servers = {
        name: subprocess.Popen(
            [sys.executable, __file__, "--serve", name], stdout=subprocess.PIPE, text=True
        )
        for name in SERVERS
    }
    try:
        ports = {name: int(process.stdout.readline()) for name, process in servers.items()}  # type: ignore[union-attr]
        for connections in options.connections:
            for heads, script in scripts.items():
                runs: dict[str, list[tuple[float, float]]] = {name: [] for name in SERVERS}
                for _ in range(options.rounds):
                    for name, port in ports.items():
                        pid = servers[name].pid
                        runs[name].append(load(port, pid, connections, options.seconds, script))
                print(json.dumps(summary(connections, heads, runs)), flush=True)
    finally:
        for process in servers.values():
            process.terminate()
            process.wait()


def summary(
    connections: int, heads: str, runs: dict[str, list[tuple[float, float]]]
) -> dict[str, object]:
    rates = {name: statistics.median(rate for rate, _ in run) for name, run in runs.items()}
    costs = {name: statistics.median(cost for _, cost in run) for name, run in runs.items()}
    return {
        "connections": connections,
        "heads": heads,
        "requests_per_s": {name: round(rate) for name, rate in rates.items()},
        "of_bare": {name: round(rate / rates["bare"], 2) for name, rate in rates.items()},
        "processor_us": {name: round(cost, 1) for name, cost in costs.items()},
        "of_bare_by_processor": {
            name: round(costs["bare"] / cost, 2) for name, cost in costs.items()
        },
    }


if __name__ == "__main__":
    main()
