"""What every benchmark here shares: fair order, medians, and an account of the machine.

The alternatives of a comparison run in turn within each round, never in one block each, so that a
slow minute of the machine strikes all of them. A figure is the median over the rounds; a ratio is
the median of the ratios within each round, with the lowest and highest beside it. Nothing here
imports what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def shifted(items: Sequence[T], number: int) -> list[T]:
    """The order of `items` in round `number`: each round starts with another one.

    The shift keeps an item from always following the same neighbour, whose heat or leftover work
    it would otherwise inherit in every round.
    """
    shift = number % len(items)
    return [*items[shift:], *items[:shift]]


class Spread:
    """The median of a list of figures, and how far they lie apart."""

    def __init__(self, values: Sequence[float]) -> None:
        self.values = list(values)
        self.median = statistics.median(self.values)
        self.low, self.high = min(self.values), max(self.values)

    def text(self, form: str = "{:,.0f}") -> str:
        """`median [low-high]`, or the median alone where there was one round."""
        median = form.format(self.median)
        if len(self.values) == 1:
            return median
        return f"{median} [{form.format(self.low)}-{form.format(self.high)}]"

    def to_json(self) -> dict[str, Any]:
        return {"median": self.median, "values": self.values}


def paired_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Spread:
    """The ratios of figures measured in the same round; both lists are in the order of rounds."""
    return Spread([a / b for a, b in zip(numerators, denominators, strict=True)])


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first column to the left, the others to the right."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])


def machine() -> dict[str, Any]:
    """What a reader must know of the machine to judge the figures."""
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "cpu": _processor(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    """The processor's name with family and model, since virtual machines often shorten the name."""
    facts = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    name = facts.get("model name", "unknown")
    return f"{name} (family {facts.get('cpu family', '?')}, model {facts.get('model', '?')})"


def versions(distributions: Sequence[str]) -> dict[str, str]:
    """The installed versions of those `distributions` that are there."""
    found = {}
    for name in distributions:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def describe(facts: dict[str, Any], software: dict[str, str]) -> str:
    """`machine()` and `versions()` as two lines of Markdown."""
    return (
        f"{facts['date']}: {facts['cores']} cores of {facts['cpu']}, {facts['architecture']}, "
        f"{facts['memory_gib']} GiB, Linux {facts['kernel']}, Python {facts['python']}, "
        f"load average {facts['load_average']} at the start.\n"
        + ", ".join(f"{name} {version}" for name, version in software.items())
        + "."
    )


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that every benchmark understands."""
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: a trial")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there too")


def write_json(path: Path, result: dict[str, Any]) -> None:
    """Writes `result` for later plots and comparisons; `Spread` becomes its median and values."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1, default=Spread.to_json) + "\n")
