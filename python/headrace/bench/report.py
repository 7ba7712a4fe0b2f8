"""A run in words and in figures."""

from __future__ import annotations

import http
from collections.abc import Mapping
from typing import Any

from headrace import __version__
from headrace.bench.fleet import Outcome
from headrace.bench.latencies import Latencies
from headrace.bench.plan import Plan
from headrace.bench.target import message_in

__all__ = ["CURVE", "PERCENTILES", "figures", "live_line", "status_text", "table", "warnings"]

PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99)
# A point in the plot each; more towards the end, where the distance to 100% halves.
CURVE = (
    *(float(p) for p in range(0, 90, 5)),
    *(100 - 10 * 2 ** -(step / 4) for step in range(57)),
    100.0,
)

_BUSY = 0.9  # of a core: a process of the generator that has little time to spare


def table(url: str, outcome: Outcome) -> str:
    """The run for people; warnings at the end where the figures need some."""
    record, plan = outcome.record, outcome.plan
    lines = [url, _what(plan, outcome), ""]
    lines.append(f"{'requests':<12}{record.requests:>12,}")
    lines.append(f"{'answered 2xx':<12}{record.successes:>12,}   {outcome.per_second:,.1f}/s")
    for status, number in sorted(record.statuses.items()):
        if not 200 <= status < 300:
            lines.append(f"{status_text(status):<12}{number:>12,}   {_sample(outcome, status)}")
    for failure, number in sorted(record.failures.items()):
        lines.append(f"{failure}{number:>{max(1, 24 - len(failure))},}")
    lines += ["", *_latency_lines(outcome)]
    if remarks := warnings(outcome):
        lines += ["", *remarks]
    return "\n".join(lines)


def status_text(status: int) -> str:
    """``503 Service Unavailable``."""
    try:
        return f"{status} {http.HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def live_line(outcome: Outcome, now: float, interval_s: float) -> str:
    """How it goes, since the last time that it was shown."""
    recent, since = outcome.recent, now - outcome.start_at
    if since < 0:
        return f"warming up, {-since:.0f} s left"
    end = f" of {outcome.plan.duration_s:g}" if outcome.plan.duration_s is not None else ""
    failed = outcome.record.requests - outcome.record.successes
    return (
        f"{since:.0f}{end} s: {recent.successes / interval_s:,.0f} answers/s, "
        f"p50 {_ms(recent.latency.percentile_s(50))} ms, "
        f"p99 {_ms(recent.latency.percentile_s(99))} ms, {failed:,} failed"
    )


def figures(url: str, outcome: Outcome) -> dict[str, Any]:
    """The run for programs: times in microseconds, histograms as HdrHistogram encodes them."""
    plan, record = outcome.plan, outcome.record
    loop = plan.open_loop
    return {
        "url": url,
        "headrace": __version__,
        "loop": "closed" if loop is None else "open",
        "rate": None if loop is None else loop.rate,
        "arrivals": None if loop is None else loop.arrivals.value,
        "seed": None if loop is None else loop.seed,
        "connections": plan.connections,
        "processes": plan.processes,
        "warmup_s": plan.warmup_s,
        "duration_s": plan.duration_s,
        "requests_wanted": plan.requests,
        "timeout_s": plan.timeout_s,
        "messages": len(plan.messages),
        "message_bytes": sum(map(len, plan.messages)) / len(plan.messages),
        "interrupted": outcome.interrupted,
        "elapsed_s": outcome.elapsed_s,
        "requests": record.requests,
        "successes": record.successes,
        "per_second": outcome.per_second,
        "statuses": {str(status): number for status, number in sorted(record.statuses.items())},
        "failures": dict(sorted(record.failures.items())),
        "samples": {
            str(status): body.decode(errors="replace") for status, body in record.samples.items()
        },
        "latency": _latency_figures(record.latency),
        "service": _latency_figures(record.service),
        "lateness": _latency_figures(record.lateness),
        "generator_cpu_s": [seconds for _, seconds in sorted(outcome.cpu_s.items())],
        "warnings": warnings(outcome),
    }


def warnings(outcome: Outcome) -> list[str]:
    """Why the figures may say less of the server than of the load generator or of chance."""
    said = []
    wall = outcome.plan.warmup_s + outcome.elapsed_s
    busiest = max(outcome.cpu_s.values(), default=0.0)
    if wall and busiest / wall > _BUSY:
        said.append(
            "the load generator had little time to spare "
            f"({100 * busiest / wall:.0f}% of a core): use more --processes"
        )
    late = outcome.record.lateness.percentile_s(99)
    median = outcome.record.latency.percentile_s(50)
    if outcome.plan.open_loop is not None and late > max(median / 2, 1e-3):
        said.append(
            f"the load generator was late itself (p99 {_ms(late)} ms): more --processes, or a "
            "machine with less to do"
        )
    if outcome.interrupted:
        said.append("the run was interrupted")
    return [f"note: {text}" for text in said]


def _what(plan: Plan, outcome: Outcome) -> str:
    if plan.open_loop is None:
        loop = f"closed loop, {_number(plan.connections, 'connection')}"
    else:
        kind = plan.open_loop.arrivals.value
        loop = (
            f"open loop, {plan.open_loop.rate:g} requests/s ({kind}), "
            f"up to {_number(plan.connections, 'connection')}"
        )
    processes = _number(plan.processes, "process", "processes")
    return f"{loop}, {processes}; {outcome.elapsed_s:.1f} s after {plan.warmup_s:g} s of warm-up"


def _number(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _sample(outcome: Outcome, status: int) -> str:
    return message_in(outcome.record.samples.get(status, b""))[:160]


def _latency_lines(outcome: Outcome) -> list[str]:
    latency, service = outcome.record.latency, outcome.record.service
    is_open = outcome.plan.open_loop is not None
    names = ["latency ms", *(["from sending"] if is_open else [])]
    columns = [latency, *([service] if is_open else [])]
    lines = [f"{'':12}" + "".join(f"{name:>14}" for name in names)]
    rows = [("mean", [c.mean_s for c in columns])]
    rows += [(f"p{p:g}", [c.percentile_s(p) for c in columns]) for p in PERCENTILES]
    rows.append(("longest", [c.max_s for c in columns]))
    return [*lines, *(f"{name:12}" + "".join(f"{_ms(v):>14}" for v in row) for name, row in rows)]


def _latency_figures(latencies: Latencies) -> Mapping[str, Any]:
    return {
        "count": latencies.count,
        "mean_us": latencies.mean_s * 1e6,
        "min_us": latencies.min_s * 1e6,
        "max_us": latencies.max_s * 1e6,
        **{f"p{p:g}_us": latencies.percentile_s(p) * 1e6 for p in PERCENTILES},
        "curve": _curve(latencies),
        "hdrhistogram": latencies.encode().decode(),
    }


def _curve(latencies: Latencies) -> list[tuple[float, float]]:
    """Percentiles with microseconds, up to where a single time makes the difference."""
    least = 100 / max(1, latencies.count)
    return [(p, latencies.percentile_s(p) * 1e6) for p in CURVE if p == 100 or 100 - p >= least]


def _ms(seconds: float) -> str:
    ms = seconds * 1e3
    return f"{ms:,.3f}" if ms < 10 else f"{ms:,.2f}" if ms < 100 else f"{ms:,.1f}"
