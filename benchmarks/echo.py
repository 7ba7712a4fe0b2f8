"""half_plus_three, TensorFlow included, against a bare httptools echo that answers a constant.

    python benchmarks/echo.py [--quick] [--json FILE] [--plot FILE] [--connections N]

The echo (`BareEcho` of http_server.py) parses HTTP on uvloop and looks at nothing: what a front end
in Python could reach at most that keeps no rule, reads no JSON and runs no model. How near
Headrace comes to it, with three processes' work in a request, is how little the rest costs on
separate cores. Both run at once, are loaded in turn, and get the same requests.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import harness
import models
import plots
from contenders import Running, start_headrace
from harness import Spread
from load import apply_load, generator
from processes import Server, exit_on_sigterm
from serving import Sample, foreign_load, measure, to_json

ECHO = [sys.executable, str(Path(__file__).with_name("http_server.py")), "--serve", "bare"]
NAMES = ("headrace", "echo")
SOFTWARE = ("headrace", "tensorflow", "tensorflow-cpu", "uvloop", "httptools")


def start_echo(log: Path) -> Running:
    server = Server("echo", ECHO, log)
    try:
        port = server.wait_for_line(r"(\d+)\n", 30)
    except BaseException:
        server.stop()
        raise
    return Running(server, f"http://127.0.0.1:{port}/v1/models/half_plus_three:predict")


def compare(options: argparse.Namespace, scratch: Path) -> dict[str, list[Sample]]:
    """Bursts against both in turn."""
    model = models.build(scratch / "models")["half_plus_three"]
    body = scratch / "body.json"
    body.write_bytes(model.body(0))
    samples: dict[str, list[Sample]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        running = {
            "headrace": start_headrace(model, scratch / "headrace.log"),
            "echo": start_echo(scratch / "echo.log"),
        }
        for one in running.values():
            stack.enter_context(one.server)
        for one in running.values():  # warms up, counts for nothing
            apply_load(one.url, body, options.connections, 1)
        for number in range(options.rounds):
            print(f"# round {number + 1} of {options.rounds}", file=sys.stderr)
            for name in harness.shifted(NAMES, number):
                burst = measure(running[name], body, options.connections, options.seconds)
                samples[name].append(burst)
    if failed := sum(sample.load.failed for row in samples.values() for sample in row):
        sys.exit(f"{failed} requests failed")
    return samples


def report(samples: dict[str, list[Sample]]) -> str:
    """Both, and Headrace as a part of the echo."""
    header = ["server", "requests/s", "p50 ms", "p99 ms", "CPU µs/request"]
    rows = [
        [
            name,
            Spread([s.load.per_second for s in samples[name]]).text(),
            Spread([s.load.p50_us / 1e3 for s in samples[name]]).text("{:.2f}"),
            Spread([s.load.p99_us / 1e3 for s in samples[name]]).text("{:.2f}"),
            f"{Spread([s.cpu_us for s in samples[name]]).median:,.0f}",
        ]
        for name in NAMES
    ]
    rows.append(["headrace / echo", share(samples).text("{:.2f}"), "-", "-", "-"])
    return harness.markdown_table(header, rows)


def share(samples: dict[str, list[Sample]]) -> Spread:
    """Requests per second as a part of the echo's."""
    return harness.paired_ratio(*([s.load.per_second for s in samples[n]] for n in NAMES))


def main() -> None:
    """Measures, prints the table, writes figures and picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    harness.add_common_arguments(parser)
    plots.add_plot_argument(parser)
    parser.add_argument("--connections", type=int, default=128, help="(%(default)s)")
    parser.add_argument("--rounds", type=int, help="default 11, quick 2")
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.quick else 11)
    options.seconds = 1 if options.quick else 3
    exit_on_sigterm()
    facts, software = harness.machine(), harness.versions(SOFTWARE)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
        samples = compare(options, Path(directory))
    print(harness.describe(facts, software) + "\n")
    print(
        f"{options.connections} connections, {options.rounds} rounds of {options.seconds} s; "
        f"load by {generator()}.\n"
    )
    print(report(samples) + "\n")
    by_connections = {(name, options.connections): row for name, row in samples.items()}
    print(foreign_load(by_connections))
    if options.json:
        result = {"machine": facts, "versions": software, "generator": generator()}
        result |= {"share": share(samples), "servers": to_json(by_connections)}
        harness.write_json(options.json, result)
    if options.plot:
        rows = {n: {"": Spread([s.load.per_second for s in samples[n]])} for n in NAMES}
        plots.bars(options.plot, f"{options.connections} connections", "requests/s", rows)


if __name__ == "__main__":
    main()
