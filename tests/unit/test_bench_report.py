from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram

from headrace.bench import report
from headrace.bench.arrivals import Arrivals
from headrace.bench.fleet import Outcome
from headrace.bench.plan import OpenLoop, Plan
from headrace.bench.plot import plot_percentiles
from headrace.bench.record import TIMEOUT, Record

URL = "http://h:8501/v1/models/m:predict"


def outcome(*, open_loop: bool = True, duration_s: float | None = 10.0) -> Outcome:
    """Two thousand answers of 1 to 2,000 µs, three refusals, two timeouts."""
    plan = Plan(
        host="h",
        port=8501,
        tls=None,
        messages=(b"12", b"1234"),
        connections=128,
        open_loop=OpenLoop(200.0, Arrivals.POISSON, 1) if open_loop else None,
        warmup_s=1.0,
        duration_s=duration_s,
        requests=None if duration_s else 2005,
        timeout_s=5.0,
        processes=1,
    )
    record = Record()
    for number in range(1, 2001):
        record.answered(200, b"", due_at=100.0, sent_at=100.0, now=100 + number / 1e6)
    for _ in range(3):
        record.answered(503, b'{"error": "full"}', due_at=101.0, sent_at=101.0, now=101.5)
    for _ in range(2):
        record.failed(TIMEOUT, due_at=100.0, now=105.0)
    return Outcome(plan, 100.0, record=record, recent=record, cpu_s={0: 3.0})


def test_table_has_what_a_reader_looks_for() -> None:
    lines = report.table(URL, outcome()).splitlines()
    assert lines[0] == URL
    assert lines[1].startswith("open loop, 200 requests/s (poisson), up to 128 connections, 1 pro")
    assert "requests           2,005" in lines
    assert "answered 2xx       2,000   200.0/s" in lines
    assert "503 Service Unavailable" in "".join(lines)
    assert any(line.endswith("full") for line in lines)
    assert any(line.split() == [*TIMEOUT.split(), "2"] for line in lines)
    assert ["p50", "1.001", "1.000"] in [line.split() for line in lines]
    # The two that timed out are the end of the latencies.
    assert re.search(r"^p99.99 +5,00\d\.\d +2\.000$", "\n".join(lines), re.MULTILINE)


def test_closed_loop_has_one_column() -> None:
    lines = report.table(URL, outcome(open_loop=False)).splitlines()
    assert lines[1].startswith("closed loop, 128 connections, 1 process;")
    assert ["p50", "1.001"] in [line.split() for line in lines]


def test_elapsed_time_is_the_plans_or_until_the_last_answer() -> None:
    assert outcome().elapsed_s == 10
    assert outcome(duration_s=2.0).elapsed_s == pytest.approx(5)
    assert outcome(duration_s=None).elapsed_s == pytest.approx(5)
    interrupted = outcome()
    interrupted.interrupted = True
    assert interrupted.elapsed_s == pytest.approx(5)
    assert report.warnings(interrupted) == ["note: the run was interrupted"]


def test_limits_of_the_generator_are_told() -> None:
    slow = outcome()
    assert report.warnings(slow) == []
    slow.cpu_s = {0: 3.0, 1: 10.5}
    (busy,) = report.warnings(slow)
    assert "95% of a core" in busy
    slow.cpu_s = {}
    for _ in range(100):
        slow.record.lateness.record(0.004)
    (late,) = report.warnings(slow)
    assert "late itself (p99 4.0" in late


def test_live_line() -> None:
    assert report.live_line(outcome(), 98.5, 0.5) == "warming up, 2 s left"
    line = report.live_line(outcome(), 103.0, 0.5)
    assert line == "3 of 10 s: 4,000 answers/s, p50 1.001 ms, p99 1.982 ms, 5 failed"


def test_figures_can_be_written_and_read_by_other_tools() -> None:
    figures = json.loads(json.dumps(report.figures(URL, outcome())))
    assert figures["loop"] == "open"
    assert figures["statuses"] == {"200": 2000, "503": 3}
    assert figures["failures"] == {TIMEOUT: 2}
    assert figures["message_bytes"] == 3
    assert figures["service"]["p50_us"] == 1000
    assert figures["latency"]["count"] == 2002
    curve = figures["latency"]["curve"]
    assert curve == sorted(curve)
    # Above it a single time decides.
    assert curve[-2][0] <= 100 - 100 / 2002
    histogram = HdrHistogram.decode(figures["latency"]["hdrhistogram"].encode())
    assert histogram.get_total_count() == 2002


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_plot(tmp_path: Path, suffix: str, magic: bytes) -> None:
    figures = report.figures(URL, outcome())
    file = tmp_path / f"latency{suffix}"
    curves = {name: figures[name]["curve"] for name in ("latency", "service")}
    plot_percentiles(file, "a title", curves)
    assert file.read_bytes().startswith(magic)
    if suffix == ".svg":
        assert file.read_text().count("<svg") == 1
