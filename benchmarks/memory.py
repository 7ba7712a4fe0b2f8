"""The front end's peak memory for one large body, less what must be there.

    python benchmarks/memory.py [--quick] [--json FILE] [--plot FILE]

A model in Python answers with what it was sent: a body of 50 MB comes in as JSON, its tensor goes
to the worker, the same tensor comes back and goes out as JSON. The peak is the front end's VmHWM,
which the kernel counts anew before each body (`clear_refs`). It includes the shared memory that the
front end has touched. Taken off are what it held before the first of the bodies, this body, both
tensors, and the encoded answer; what remains is overhead. It is below zero where not all of these
are there at once. What is held after a body, beyond what was held before the first, was not given
back to the system.
"""

from __future__ import annotations

import argparse
import http.client
import re
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import harness
import plots
import python_models
from contenders import headrace_serve
from harness import Spread
from processes import exit_on_sigterm

SOFTWARE = ("headrace", "numpy", "uvloop", "httptools")
PATH = "/v1/models/large:predict"


@dataclass(frozen=True)
class Sample:
    """Bytes of one request; memory is the front end's."""

    idle: int
    peak: int
    body: int
    tensors: int
    reply: int
    held: int
    """What is left when the answer is sent."""

    @property
    def overhead(self) -> int:
        return self.peak - self.idle - self.body - self.tensors - self.reply


def memory(pid: int, field: str) -> int:
    """Bytes of VmRSS or VmHWM."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def reset_peak(pid: int) -> None:
    """Makes VmHWM what VmRSS is (proc(5): 5 to clear_refs)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def ask(origin: str, body: bytes) -> int:
    """Sends a body; the length of the answer."""
    parts = urlsplit(origin)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
    try:
        connection.request("POST", PATH, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise SystemExit(f"{response.status}: {answer[:500].decode(errors='replace')}")
    return len(answer)


def settled(pid: int) -> int:
    """VmRSS once it no longer falls: what the last request had is given back by then."""
    last = memory(pid, "VmRSS")
    while True:
        time.sleep(0.3)
        now = memory(pid, "VmRSS")
        if now >= last:
            return now
        last = now


def measure(large_bytes: int, requests: int, scratch: Path) -> list[Sample]:
    """The same body so many times, each with a peak of its own."""
    base_path = python_models.write_echo(scratch, "large", (None, python_models.COLUMNS))
    small, _ = python_models.large_body(1)
    large, rows = python_models.large_body(large_bytes)
    tensors = 2 * 4 * rows * python_models.COLUMNS
    flags = ["--model_name=large", f"--model_base_path={base_path}"]
    server, origin = headrace_serve(flags, scratch / "log")
    samples = []
    with server:
        for _ in range(20):
            ask(origin, small)
        idle = settled(server.pid)
        for _ in range(requests):
            reset_peak(server.pid)
            reply = ask(origin, large)
            peak = memory(server.pid, "VmHWM")
            held = settled(server.pid)
            samples.append(Sample(idle, peak, len(large), tensors, reply, held))
    return samples


def report(samples: list[Sample]) -> str:
    """MB of each part, a row for each request: the first one finds nothing that it could use."""
    header = [
        "request",
        "peak MB",
        "idle",
        "body",
        "tensors",
        "reply",
        "overhead",
        "of the body",
        "held after",
    ]
    rows = [
        [
            str(number + 1),
            *(
                f"{part / 1e6:.1f}"
                for part in (s.peak, s.idle, s.body, s.tensors, s.reply, s.overhead)
            ),
            f"{100 * s.overhead / s.body:.1f}%",
            f"{s.held / 1e6:.1f}",
        ]
        for number, s in enumerate(samples)
    ]
    return harness.markdown_table(header, rows)


def to_json(samples: list[Sample]) -> dict[str, Any]:
    return {
        "requests": [{**asdict(sample), "overhead": sample.overhead} for sample in samples],
        "overhead_of_body": Spread([s.overhead / s.body for s in samples]),
    }


def main() -> None:
    """Measures, prints the table, writes figures and picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    harness.add_common_arguments(parser)
    plots.add_plot_argument(parser)
    parser.add_argument("--large_bytes", type=int, help="default 50000000, quick 5000000")
    options = parser.parse_args()
    exit_on_sigterm()
    large_bytes = options.large_bytes or (5_000_000 if options.quick else python_models.LARGE_BYTES)
    facts, software = harness.machine(), harness.versions(SOFTWARE)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
        samples = measure(large_bytes, 2 if options.quick else 7, Path(directory))
    print(harness.describe(facts, software) + "\n")
    print(report(samples))
    if options.json:
        harness.write_json(
            options.json, {"machine": facts, "versions": software, **to_json(samples)}
        )
    if options.plot:
        parts = ("peak", "idle", "body", "tensors", "reply", "overhead", "held")
        rows = {
            part: {"front end": Spread([getattr(s, part) / 1e6 for s in samples])} for part in parts
        }
        plots.bars(options.plot, "peak memory for one body", "MB", rows)


if __name__ == "__main__":
    main()
