"""Timing of the codec's benchmarks: functions that do the same work, in turn, in one process.

What is counted is the process's own time on the processor: the work is done by one thread that
never waits, so that this is what it costs, whatever else the machine does meanwhile.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import harness
import plots

Work = Callable[[], object]

SOFTWARE = ("headrace", "numpy", "orjson", "pysimdjson")


class Case:
    """The times of one kind of body: for each alternative, seconds a call, a figure a round."""

    def __init__(self, name: str, text_bytes: int, seconds: Mapping[str, Sequence[float]]) -> None:
        self.name = name
        self.text_bytes = text_bytes
        self.seconds = seconds

    def speed(self, alternative: str) -> harness.Spread:
        """MB/s of JSON text."""
        return harness.Spread([self.text_bytes / s / 1e6 for s in self.seconds[alternative]])

    def ratio(self, alternative: str) -> harness.Spread:
        """How many times faster the first alternative is."""
        first = next(iter(self.seconds))
        return harness.paired_ratio(self.seconds[alternative], self.seconds[first])

    def to_json(self) -> dict[str, Any]:
        return {
            "text_bytes": self.text_bytes,
            "mb_per_s": {name: self.speed(name) for name in self.seconds},
            "ratio": {name: self.ratio(name) for name in list(self.seconds)[1:]},
        }


def measure(name: str, text_bytes: int, works: Mapping[str, Work], *, quick: bool) -> Case:
    """Times the alternatives round by round; the first is the one that the others are held against.

    A figure is the mean of as many calls as fill a fiftieth of a second, so that the clock and a
    single interruption weigh little.
    """
    rounds, slice_s = (5, 0.005) if quick else (15, 0.02)
    calls = {key: max(1, round(slice_s / _once(work))) for key, work in works.items()}
    seconds: dict[str, list[float]] = {key: [] for key in works}
    for number in range(rounds):
        for key in harness.shifted(list(works), number):
            work, count = works[key], calls[key]
            start = time.process_time()
            for _ in range(count):
                work()
            seconds[key].append((time.process_time() - start) / count)
    return Case(name, text_bytes, seconds)


def _once(work: Work) -> float:
    work()  # caches, allocators and lazy imports
    start = time.process_time()
    work()
    return max(time.process_time() - start, 1e-7)


def report(cases: Sequence[Case]) -> str:
    """A table: MB/s of JSON text, then how many times faster the first alternative is."""
    names = list(dict.fromkeys(name for case in cases for name in case.seconds))
    header = ["body", "KB", *(f"{n} MB/s" for n in names), *(f"against {n}" for n in names[1:])]
    rows = [
        [
            case.name,
            f"{case.text_bytes / 1e3:,.1f}",
            *(case.speed(n).text() if n in case.seconds else "-" for n in names),
            *(case.ratio(n).text("{:.1f}x") if n in case.seconds else "-" for n in names[1:]),
        ]
        for case in cases
    ]
    return harness.markdown_table(header, rows)


def run(description: str, cases: Callable[[bool], list[Case]]) -> None:
    """The main function of a benchmark: measures, prints the table, writes the figures."""
    parser = argparse.ArgumentParser(description=description)
    harness.add_common_arguments(parser)
    plots.add_plot_argument(parser)
    arguments = parser.parse_args()
    facts, software = harness.machine(), harness.versions(SOFTWARE)
    measured = cases(arguments.quick)
    print(harness.describe(facts, software) + "\n")
    print(report(measured))
    if arguments.json:
        figures = {case.name: case.to_json() for case in measured}
        harness.write_json(
            arguments.json, {"machine": facts, "versions": software, "bodies": figures}
        )
    if arguments.plot:
        rows = {case.name: {n: case.ratio(n) for n in list(case.seconds)[1:]} for case in measured}
        plots.bars(arguments.plot, "times as fast as the others", "times", rows, even=1)
