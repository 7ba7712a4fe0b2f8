"""Requests per second and latency of Headrace and its peers serving the same SavedModels.

    python benchmarks/serving.py [--quick] [--json FILE] [--servers NAME,...]

For each model all servers are up at once, and every answer is checked before anything is timed and
once more at the end. Then, round by round and for each number of connections, one server after the
other gets the same burst of load, so that what else the machine does strikes all alike. Figures are
medians over the rounds; ratios pair the first server with each other one in the same round.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import uvloop

import harness
import models
import plots
from client import CheckingClient, connect, finish
from contenders import START, Running
from harness import Spread
from load import Load, apply_load, generator
from processes import ServerFailed, busy_cpu_seconds, children_cpu_seconds, exit_on_sigterm

CONNECTIONS = (1, 8, 32, 128)
SERVERS = ("headrace", "fastapi", "mosec", "litserve")
SOFTWARE = (
    *("headrace", "tensorflow", "tensorflow-cpu", "numpy", "fastapi", "starlette", "uvicorn"),
    *("mosec", "litserve", "orjson", "uvloop", "httptools"),
)


@dataclass(frozen=True)
class Sample:
    """One burst against one server, with the processor time that went where."""

    load: Load
    cpu_us: float
    """Processor time of the server's processes for each request."""
    foreign_cores: float
    """Cores taken by neither the server nor the load: idle servers, other jobs, the hypervisor."""


Samples = dict[tuple[str, int], list[Sample]]
"""By (server, connections), in the order of rounds."""


async def check(running: Running, model: models.Model, connections: int, seconds: float) -> None:
    """Raises `ServerFailed` unless every answer under mixed load is right for its own request."""
    samples = [(model.body(i), model.predictions[i]) for i in range(len(model.instances))]
    clients = [CheckingClient(running.url, samples, first) for first in range(connections)]
    await connect(clients)
    await asyncio.sleep(seconds)
    await finish(clients)
    wrong = [body for client in clients for body in client.wrong]
    failed = sum(client.bad_status + client.lost for client in clients)
    right = sum(client.right for client in clients)
    if wrong or failed or right < connections:
        message = f"{right} right, {len(wrong)} wrong, {failed} failed answers; {wrong[:1]}"
        raise ServerFailed(f"{running.server.name}, {model.name}: {message}")


def measure(running: Running, body: Path, connections: int, seconds: float) -> Sample:
    """One burst of load."""
    busy, own, server = busy_cpu_seconds(), children_cpu_seconds(), running.server.cpu_seconds()
    load = apply_load(running.url, body, connections, seconds)
    server = running.server.cpu_seconds() - server
    foreign = busy_cpu_seconds() - busy - server - (children_cpu_seconds() - own)
    cores = max(0.0, foreign / (load.duration_us / 1e6))
    return Sample(load, server / max(1, load.requests) * 1e6, cores)


def compare(
    model: models.Model, names: list[str], rounds: int, seconds: float, scratch: Path
) -> Samples:
    """Starts the servers `names` for `model` and measures them in turn."""
    body = scratch / f"{model.name}.json"
    body.write_bytes(model.body(0))
    samples: Samples = defaultdict(list)
    with contextlib.ExitStack() as stack:
        running = {}
        for name in names:
            running[name] = START[name](model, scratch / f"{name}-{model.name}.log")
            stack.enter_context(running[name].server)
            with running[name].awake():
                uvloop.run(check(running[name], model, 32, 1))
                for connections in CONNECTIONS:  # warms up, counts for nothing
                    apply_load(running[name].url, body, connections, 1)
        for number in range(rounds):
            print(f"# {model.name}: round {number + 1} of {rounds}", file=sys.stderr)
            for connections in CONNECTIONS:
                for name in harness.shifted(names, number):
                    with running[name].awake():
                        sample = measure(running[name], body, connections, seconds)
                    samples[name, connections].append(sample)
        for name in names:
            with running[name].awake():
                uvloop.run(check(running[name], model, 32, 1))
    return samples


def report(name: str, samples: Samples, names: list[str]) -> str:
    """The tables of one model: figures, then ratios to the first server."""
    figures = harness.markdown_table(
        ("connections", "server", "requests/s", "p50 ms", "p99 ms", "CPU µs/request", "failed"),
        [_figures(c, n, samples[n, c]) for c in CONNECTIONS for n in names],
    )
    first, *others = names
    ratios = harness.markdown_table(
        (
            "connections",
            *(f"{first} / {n}: requests/s" for n in others),
            *(f"p99, {n}" for n in others),
        ),
        [_ratios(c, first, others, samples) for c in CONNECTIONS],
    )
    tables = [figures, ratios] if others else [figures]
    return "\n\n".join([f"### {name}", *tables, foreign_load(samples)]) + "\n"


def _figures(connections: int, name: str, samples: list[Sample]) -> list[str]:
    def spread(values: list[float], form: str = "{:,.0f}") -> str:
        return Spread(values).text(form)

    return [
        str(connections),
        name,
        spread([s.load.per_second for s in samples]),
        spread([s.load.p50_us / 1000 for s in samples], "{:.2f}"),
        spread([s.load.p99_us / 1000 for s in samples], "{:.2f}"),
        f"{Spread([s.cpu_us for s in samples]).median:,.0f}",
        str(sum(s.load.failed for s in samples)),
    ]


def _ratios(connections: int, first: str, others: list[str], samples: Samples) -> list[str]:
    def ratio(other: str, figure: str, form: str) -> str:
        mine, theirs = (
            [getattr(s.load, figure) for s in samples[name, connections]] for name in (first, other)
        )
        return harness.paired_ratio(mine, theirs).text(form)

    speeds = [ratio(other, "per_second", "{:.1f}") for other in others]
    return [str(connections), *speeds, *(ratio(other, "p99_us", "{:.2f}") for other in others)]


def foreign_load(samples: Samples) -> str:
    """How far other work on the machine may have disturbed the figures."""
    spread = Spread([s.foreign_cores for row in samples.values() for s in row])
    return (
        "Processor time taken by neither the measured server nor the load generator: "
        f"median {spread.median:.2f} cores, at most {spread.high:.2f}."
    )


def to_json(samples: Samples) -> list[dict[str, Any]]:
    return [
        {"server": name, "connections": c, "rounds": [asdict(sample) for sample in row]}
        for (name, c), row in samples.items()
    ]


def draw(file: Path, name: str, samples: Samples, names: list[str]) -> None:
    """Requests per second over connections, in a file of the model's own."""
    lines = {
        server: {c: Spread([s.load.per_second for s in samples[server, c]]) for c in CONNECTIONS}
        for server in names
    }
    file = file.with_stem(f"{file.stem}-{name}")
    plots.curves(file, name, ("connections", "requests/s"), lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    harness.add_common_arguments(parser)
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw there, with the model's name before .svg"
    )
    parser.add_argument("--servers", default=",".join(SERVERS), help=f"of {', '.join(START)}")
    parser.add_argument("--rounds", type=int, help="default 7, quick 2")
    parser.add_argument("--seconds", type=int, help="whole seconds a burst; default 3, quick 1")
    arguments = parser.parse_args()
    arguments.servers = arguments.servers.split(",")
    if unknown := set(arguments.servers) - START.keys():
        parser.error(f"unknown servers: {', '.join(sorted(unknown))}; there are {', '.join(START)}")
    arguments.rounds = arguments.rounds or (2 if arguments.quick else 7)
    arguments.seconds = arguments.seconds or (1 if arguments.quick else 3)
    return arguments


def main() -> None:
    """Runs the comparison and prints its report."""
    arguments = _arguments()
    exit_on_sigterm()
    facts, software = harness.machine(), harness.versions(SOFTWARE)
    names, rounds, seconds = arguments.servers, arguments.rounds, arguments.seconds
    minutes = 2 * len(names) * len(CONNECTIONS) * (rounds * seconds + 1) / 60
    print(f"# about {minutes + 0.3 * len(names):.0f} minutes", file=sys.stderr)
    print(harness.describe(facts, software))
    print(f"{rounds} rounds of {seconds} s a burst; load by {generator()}.\n", flush=True)
    result = {"machine": facts, "versions": software, "generator": generator(), "models": {}}
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
        scratch = Path(directory)
        for model in models.build(scratch / "models").values():
            samples = compare(model, names, rounds, seconds, scratch)
            print(report(model.name, samples, names), flush=True)
            result["models"][model.name] = to_json(samples)
            if arguments.json:
                harness.write_json(arguments.json, result)
            if arguments.plot:
                draw(arguments.plot, model.name, samples, names)


if __name__ == "__main__":
    main()
