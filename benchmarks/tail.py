"""Small requests' latency while bodies of 50 MB are received, decoded and answered, and without.

    python benchmarks/tail.py [--quick] [--json FILE] [--plot FILE] [--rate N]

One server, two models in Python that answer with what they were sent, each with its worker. Small
requests (three values) arrive at a rate, whatever the server does; latency counts from when each
was due. In every other burst one client sends large bodies without a pause. That client, the other
one and both workers share the machine's cores with the front end, so with few cores a part of the
difference is theirs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import harness
import python_models
from contenders import headrace_serve
from harness import Spread
from headrace.bench.arrivals import Arrivals
from headrace.bench.fleet import Outcome, measure
from headrace.bench.latencies import Latencies
from headrace.bench.plan import OpenLoop, Plan
from headrace.bench.plot import plot_percentiles
from headrace.bench.report import CURVE
from load import closed_loop
from processes import exit_on_sigterm

SMALL = b'{"instances": [1.0, 2.0, 5.0]}'
SOFTWARE = ("headrace", "numpy", "uvloop", "httptools", "hdrhistogram")
WITHOUT, WITH = "without large bodies", "with large bodies"


@dataclass(frozen=True)
class Burst:
    """What small requests met, and how many large ones were answered meanwhile."""

    outcome: Outcome
    large_answers: int

    def ms(self, percentile: float) -> float:
        return self.outcome.record.latency.percentile_s(percentile) * 1e3


def small_requests(url: str, options: argparse.Namespace, seed: int) -> Plan:
    """They arrive at a rate."""
    return replace(
        closed_loop(url, SMALL, 64, options.seconds),
        open_loop=OpenLoop(options.rate, Arrivals.POISSON, seed),
        warmup_s=0.5,
    )


def burst(origin: str, large: bytes | None, options: argparse.Namespace, seed: int) -> Burst:
    """Small requests for some seconds, with a client of large ones where a body is given."""
    small = small_requests(f"{origin}/v1/models/small:predict", options, seed)
    if large is None:
        return Burst(_sound(measure(small)), 0)
    found: list[Outcome] = []
    # From before the first small request counts until after the last.
    seconds = options.seconds + 1.5
    large_plan = closed_loop(f"{origin}/v1/models/large:predict", large, 1, seconds)
    client = threading.Thread(target=lambda: found.append(measure(large_plan)))
    client.start()
    outcome = measure(small)
    client.join()
    return Burst(_sound(outcome), _sound(found[0]).record.successes)


def _sound(outcome: Outcome) -> Outcome:
    record = outcome.record
    if record.successes == 0 or record.successes < record.requests:
        raise SystemExit(f"{record.statuses} {record.failures} {record.samples}")
    return outcome


def compare(options: argparse.Namespace, scratch: Path) -> dict[str, list[Burst]]:
    """Bursts of both kinds in turn."""
    base_paths = {
        "small": python_models.write_echo(scratch, "small", (None,)),
        "large": python_models.write_echo(scratch, "large", (None, python_models.COLUMNS)),
    }
    models = scratch / "models.config"
    entries = [f'config {{ name: "{n}" base_path: "{p}" }}' for n, p in base_paths.items()]
    models.write_text(f"model_config_list {{ {' '.join(entries)} }}")
    large, _ = python_models.large_body(options.large_bytes)
    bodies = {WITHOUT: None, WITH: large}
    bursts: dict[str, list[Burst]] = defaultdict(list)
    server, origin = headrace_serve([f"--model_config_file={models}"], scratch / "log")
    with server:
        burst(origin, large, options, seed=0)  # warms up, counts for nothing
        for number in range(options.rounds):
            print(f"# round {number + 1} of {options.rounds}", file=sys.stderr)
            for name in harness.shifted(list(bodies), number):
                bursts[name].append(burst(origin, bodies[name], options, seed=number + 1))
    return bursts


def report(bursts: dict[str, list[Burst]], options: argparse.Namespace) -> str:
    """Latencies with and without, and how many times longer they are with."""
    header = ["small requests", "p50 ms", "p99 ms", "p99.9 ms", "large answers/s"]
    rows = []
    for name in (WITHOUT, WITH):
        figures = [Spread([b.ms(p) for b in bursts[name]]).text("{:.2f}") for p in (50, 99, 99.9)]
        large = Spread([b.large_answers / (options.seconds + 1.5) for b in bursts[name]])
        rows.append([name, *figures, large.text("{:.1f}") if name == WITH else "-"])
    ratios = [ratio(bursts, p).text("{:.2f}x") for p in (50, 99, 99.9)]
    return harness.markdown_table(header, [*rows, ["with / without", *ratios, "-"]])


def ratio(bursts: dict[str, list[Burst]], percentile: float) -> Spread:
    return harness.paired_ratio(
        *([b.ms(percentile) for b in bursts[name]] for name in (WITH, WITHOUT))
    )


def together(bursts: list[Burst]) -> Latencies:
    """Of all rounds."""
    latencies = Latencies()
    for one in bursts:
        latencies.add(one.outcome.record.latency.encode())
    return latencies


def to_json(bursts: dict[str, list[Burst]]) -> dict[str, Any]:
    return {
        name: {
            "large_answers": [one.large_answers for one in row],
            **{f"p{p:g}_ms": Spread([one.ms(p) for one in row]) for p in (50, 90, 99, 99.9)},
            "lateness_p99_ms": [o.outcome.record.lateness.percentile_s(99) * 1e3 for o in row],
            "hdrhistogram": together(row).encode().decode(),
        }
        for name, row in bursts.items()
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    harness.add_common_arguments(parser)
    add = parser.add_argument
    add("--plot", type=Path, metavar="FILE", help="latency by percentile: .svg or .png")
    add("--rate", type=float, default=300.0, help="small requests a second (%(default)g)")
    add("--rounds", type=int, help="default 7, quick 1")
    add("--seconds", type=float, help="a burst; default 10, quick 1")
    add("--large_bytes", type=int, help="default 50000000, quick 2000000")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 7)
    arguments.seconds = arguments.seconds or (1.0 if arguments.quick else 10.0)
    small = 2_000_000 if arguments.quick else python_models.LARGE_BYTES
    arguments.large_bytes = arguments.large_bytes or small
    return arguments


def main() -> None:
    """Measures, prints the table, writes figures and picture."""
    options = _arguments()
    exit_on_sigterm()
    facts, software = harness.machine(), harness.versions(SOFTWARE)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
        bursts = compare(options, Path(directory))
    print(harness.describe(facts, software) + "\n")
    print(
        f"{options.rate:g} small requests/s; large bodies of {options.large_bytes / 1e6:g} MB; "
        f"{options.rounds} rounds of {options.seconds:g} s.\n"
    )
    print(report(bursts, options))
    if options.json:
        result = {"machine": facts, "versions": software, "rate": options.rate}
        result |= {"large_bytes": options.large_bytes, "bursts": to_json(bursts)}
        harness.write_json(options.json, result | {"p99_ratio": ratio(bursts, 99)})
    if options.plot:
        lines = {
            name: [(p, latencies.percentile_s(p) * 1e6) for p in CURVE]
            for name, latencies in ((name, together(row)) for name, row in bursts.items())
        }
        plot_percentiles(options.plot, "small requests", lines)


if __name__ == "__main__":
    main()
