"""The core's kernels against named alternatives in C++: builds the benches of native/, runs them.

    python benchmarks/kernels.py [--quick] [--json FILE] [--plot FILE] [--bench NAME,...]
                                 [--body TEXT] [--simd LEVEL,...] [--instructions]

Within a process the alternatives take turns, see native/contest.hpp; processes are started again
and again, since where memory lies differs between them. Ratios pair the turns of one round.

`--instructions` counts instructions instead of time, by callgrind: a figure that no other work on
the machine changes. It says nothing of how many run at once, so a ratio of instructions is no
ratio of time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import harness
import plots
from harness import Spread

ROOT = Path(__file__).parents[1]
NATIVE = Path(__file__).with_name("native")
BENCHES = {source.stem.removesuffix("_kernels"): source for source in NATIVE.glob("*_kernels.cpp")}
SOFTWARE = ("headrace", "pysimdjson")
COUNTED_CALLS = 2


class Measured:
    """One kind of body at one instruction set: seconds a call, or instructions."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.bench: str = facts["bench"]
        self.body: str = facts["body"]
        self.simd: str = facts["simd"]
        self.text_bytes: int = facts["bytes"]
        self.numbers: float = facts["numbers"]
        self.differs: bool = facts["differs"]
        self.figures: dict[str, list[float]] = defaultdict(list)

    @property
    def sides(self) -> list[str]:
        return list(self.figures)

    def ratios(self) -> dict[str, Spread]:
        """How many times the first alternative's figure each other one has."""
        first, *others = self.sides
        return {n: harness.paired_ratio(self.figures[n], self.figures[first]) for n in others}

    def to_json(self) -> dict[str, Any]:
        facts = {name: value for name, value in vars(self).items() if name != "figures"}
        figures = {name: Spread(values) for name, values in self.figures.items()}
        return {**facts, "figures": figures, "ratio": self.ratios()}


def build(directory: Path, arch: str) -> None:
    """Compiles what is not up to date."""
    cmake = _tool("cmake")
    options = ["-DHEADRACE_PYTHON=OFF", "-DHEADRACE_BENCH=ON", f"-DHEADRACE_BENCH_ARCH={arch}"]
    if ninja := _found("ninja"):
        options += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    if ccache := shutil.which("ccache"):
        options.append(f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}")
    options.append(f"-DPython_EXECUTABLE={sys.executable}")
    targets = [f"{name}_kernels" for name in BENCHES]
    for command in (
        [cmake, "-S", ROOT, "-B", directory, *options],
        [cmake, "--build", directory, "-j", str(harness.machine()["cores"]), "-t", *targets],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{done.stdout[-4000:]}{done.stderr[-4000:]}")


def _found(tool: str) -> str | None:
    beside = Path(sys.executable).with_name(tool)
    return str(beside) if beside.exists() else shutil.which(tool)


def _tool(name: str) -> str:
    found = _found(name)
    if found is None:
        sys.exit(f"{name} is not installed")
    return found


def program(directory: Path, bench: str) -> str:
    return str(directory / "benchmarks" / "native" / f"{bench}_kernels")


def lines(command: list[str], simd: str | None) -> list[dict[str, Any]]:
    """What a bench prints."""
    environment = {**os.environ, **({"HEADRACE_SIMD": simd} if simd else {})}
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def measure(directory: Path, options: argparse.Namespace) -> list[Measured]:
    """Times everything asked for, the benches and instruction sets in turn within each run."""
    found: dict[tuple[str, str, str], Measured] = {}
    contests = [(bench, simd) for bench in options.bench for simd in options.simd]
    for number in range(options.runs):
        print(f"# run {number + 1} of {options.runs}", file=sys.stderr)
        for bench, simd in harness.shifted(contests, number):
            command = [program(directory, bench), str(options.rounds), options.body]
            for facts in lines(command, simd):
                key = (bench, facts["simd"], facts["body"])
                measured = found.setdefault(key, Measured({**facts, "bench": bench}))
                for side, seconds in facts["seconds"].items():
                    measured.figures[side] += seconds
    return sorted(found.values(), key=lambda m: (options.bench.index(m.bench), m.simd))


def count(directory: Path, options: argparse.Namespace) -> list[Measured]:
    """Counts the instructions of each alternative on everything asked for."""
    valgrind = _tool("valgrind")
    counted = []
    for bench in options.bench:
        for simd in options.simd:
            for facts in lines([program(directory, bench), "1", options.body], simd):
                measured = Measured({**facts, "bench": bench})
                for side in facts["seconds"]:
                    call = [program(directory, bench), str(COUNTED_CALLS), facts["body"], side]
                    measured.figures[side].append(_instructions(valgrind, call, simd))
                counted.append(measured)
                print(f"# {bench}: {facts['body']}", file=sys.stderr)
    return counted


def _instructions(valgrind: str, call: list[str], simd: str | None) -> float:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as scratch:
        file = Path(scratch) / "callgrind"
        options = ["--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={file}"]
        environment = {**os.environ, **({"HEADRACE_SIMD": simd} if simd else {})}
        subprocess.run(
            [valgrind, *options, *call], env=environment, check=True, capture_output=True
        )
        total = re.search(r"^totals: (\d+)$", file.read_text(), re.MULTILINE)
    if total is None or total[1] == "0":
        sys.exit("nothing was counted: the benches were built without valgrind/callgrind.h")
    return int(total[1]) / COUNTED_CALLS


def report(measured: list[Measured], *, instructions: bool) -> str:
    """A table for each bench."""
    tables = []
    for bench in dict.fromkeys(m.bench for m in measured):
        of_bench = [m for m in measured if m.bench == bench]
        sides = list(dict.fromkeys(side for m in of_bench for side in m.sides))
        unit = "instructions a value" if instructions else "GB/s"
        header = ["body", "SIMD", "KB", *(f"{side} {unit}" for side in sides)]
        header += [*([] if instructions else ["ns a value"]), *(f"against {s}" for s in sides[1:])]
        rows = [_row(m, sides, instructions=instructions) for m in of_bench]
        tables.append(f"### {bench}\n\n{harness.markdown_table(header, rows)}\n")
        if any(m.differs for m in of_bench):
            tables.append("\\* the alternatives yield different bytes.\n")
    return "\n".join(tables)


def _row(measured: Measured, sides: list[str], *, instructions: bool) -> list[str]:
    ratios = measured.ratios()

    def figure(side: str) -> str:
        if side not in measured.figures:
            return "-"
        values = measured.figures[side]
        if instructions:
            return Spread([v / measured.numbers for v in values]).text("{:.1f}")
        return Spread([measured.text_bytes / v / 1e9 for v in values]).text("{:.2f}")

    nanoseconds = [v / measured.numbers * 1e9 for v in measured.figures[sides[0]]]
    return [
        measured.body + (" \\*" if measured.differs else ""),
        measured.simd,
        f"{measured.text_bytes / 1e3:,.1f}",
        *map(figure, sides),
        *([] if instructions else [f"{Spread(nanoseconds).median:.2f}"]),
        *(ratios[side].text("{:.1f}x") if side in ratios else "-" for side in sides[1:]),
    ]


def _names(choices: Mapping[str, Any]) -> Any:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := set(names) - choices.keys():
            raise argparse.ArgumentTypeError(
                f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(choices)}"
            )
        return names

    return parse


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    harness.add_common_arguments(parser)
    plots.add_plot_argument(parser)
    add = parser.add_argument
    add("--bench", type=_names(BENCHES), default=sorted(BENCHES), help=", ".join(sorted(BENCHES)))
    add("--body", default="", metavar="TEXT", help="only bodies with this in their name")
    add(
        "--simd",
        type=lambda text: text.split(","),
        default=[None],
        metavar="LEVEL,...",
        help="HEADRACE_SIMD, such as avx2,portable",
    )
    add("--instructions", action="store_true", help="count instructions by callgrind")
    add("--runs", type=int, help="processes a bench; default 3, quick 1")
    add("--rounds", type=int, help="turns of each alternative in each; default 9, quick 3")
    add("--build", type=Path, default=ROOT / "build" / "bench", help="directory to compile in")
    arguments = parser.parse_args()
    arguments.runs = arguments.runs or (1 if arguments.quick else 3)
    arguments.rounds = arguments.rounds or (3 if arguments.quick else 9)
    return arguments


def _arch(*, instructions: bool) -> str:
    """What alternatives are compiled for; valgrind knows no AVX-512."""
    facts = Path("/proc/cpuinfo").read_text()
    return "x86-64-v3" if instructions and "avx512f" in facts else "native"


def main() -> None:
    """Builds, measures, prints the tables, writes figures and picture."""
    options = _arguments()
    facts, software = harness.machine(), harness.versions(SOFTWARE)
    build(options.build, _arch(instructions=options.instructions))
    measured = (count if options.instructions else measure)(options.build, options)
    if not measured:
        sys.exit(f"no body has {options.body!r} in its name")
    print(harness.describe(facts, software) + "\n")
    print(report(measured, instructions=options.instructions))
    unit = "instructions" if options.instructions else "seconds"
    if options.json:
        figures = [m.to_json() for m in measured]
        result = {"machine": facts, "versions": software, "unit": unit, "bodies": figures}
        harness.write_json(options.json, result)
    if options.plot:
        rows = {f"{m.body} ({m.simd})": m.ratios() for m in measured}
        plots.bars(options.plot, f"the others' {unit} / Headrace's", "times", rows, even=1)


if __name__ == "__main__":
    main()
