"""The pages of metrics, and where their figures are read: endpoints, connections, the process."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace import __version__
from headrace.dialects.tfserving import metrics as tfserving
from headrace.serving import metrics as conventional
from headrace.serving.exposition import Family, write
from headrace.serving.metrics import Series, ServerFigures, Snapshot, VersionFigures

if TYPE_CHECKING:
    from headrace.server.messages import Exchange, Handler
    from headrace.server.state import ListenerState
    from headrace.serving.endpoint import Endpoint
    from headrace.workers.supervisor import Worker

__all__ = ["METRICS_PATH", "MetricsPages", "server_figures", "version_figures"]

METRICS_PATH: Final = "/metrics"
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
# Scrapers of recent versions want to be told the version of the format.
_EXPOSITION: Final = b"text/plain; version=0.0.4; charset=utf-8"


class MetricsPages:
    """Answers requests for the pages. The figures are read on the loop, and written out off it."""

    def __init__(
        self,
        take: Callable[[], Snapshot],
        *,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
    ) -> None:
        self._take = take
        self._loop = loop
        self._executor = executor

    def handlers(self, tfserving_path: str | None) -> dict[str, Handler]:
        """Path to handler. Any method is answered.

        Args:
            tfserving_path: Where TensorFlow Serving's page is wanted, with nothing but its metrics
                and its content type; None for nowhere.
        """
        pages: dict[str, Handler] = {METRICS_PATH: partial(self._respond, _all, _EXPOSITION)}
        if tfserving_path is not None:
            pages[tfserving_path] = partial(self._respond, tfserving.families, b"text/plain")
        return pages

    def _respond(
        self, families: Callable[[Snapshot], list[Family]], content_type: bytes, exchange: Exchange
    ) -> None:
        def written(task: asyncio.Future[bytes]) -> None:
            if not task.cancelled():  # else the server is closing
                exchange.respond(200, task.result(), content_type=content_type)

        snapshot = self._take()
        future = self._loop.run_in_executor(self._executor, lambda: write(families(snapshot)))
        future.add_done_callback(written)


def _all(snapshot: Snapshot) -> list[Family]:
    of_tfserving = tfserving.families(snapshot)
    return [*of_tfserving, *conventional.families(snapshot, tfserving.SUCCESS)]


def version_figures(versions: Iterable[tuple[Endpoint, Worker]]) -> list[VersionFigures]:
    """What endpoints and workers say of themselves."""
    own = os.getpid()
    return [
        VersionFigures(
            model=worker.spec.model,
            version=worker.spec.version,
            series=Series.of(endpoint.port.metrics()),
            requests=endpoint.port.in_flight,
            rows=endpoint.port.in_flight_rows,
            bytes=endpoint.port.in_flight_bytes,
            restarts=worker.restarts,
            poisonous=endpoint.poisonous,
            worker_bytes=None if worker.pid == own else _resident_bytes(worker.pid),
        )
        for endpoint, worker in versions
    ]


def server_figures(state: ListenerState, *, max_rows: int, max_bytes: int) -> ServerFigures:
    """Connections, bounds, and the process as the kernel sees it."""
    counters, budget = state.counters, state.budget
    http = {
        "connections": len(state.connections),
        "connections_limit": state.limits.max_connections,
        "connections_accepted_total": counters.connections,
        "connections_refused_total": counters.connections_refused,
        "connections_idle_closed_total": counters.idle_closed,
        "connections_stalled_total": counters.stalled,
        "requests_total": counters.requests,
        "received_bytes_total": counters.bytes_received,
        "sent_bytes_total": counters.bytes_sent,
        "body_bytes": budget.used,
        "body_bytes_limit": state.limits.max_total_body_bytes,
    }
    plain = {f"headrace_http_{name}": value for name, value in http.items()}
    plain["headrace_rows_in_flight_limit"] = max_rows
    plain["headrace_bytes_in_flight_limit"] = max_bytes
    return ServerFigures({**plain, **_process()}, counters.refusals, __version__)


def _process() -> dict[str, float]:
    # Fields after the program's name, which is in parentheses and may hold anything.
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "process_resident_memory_bytes": int(fields[21]) * _PAGE_BYTES,
        "process_virtual_memory_bytes": int(fields[20]),
        "process_cpu_seconds_total": usage.ru_utime + usage.ru_stime,
        "process_start_time_seconds": _boot_time_s() + int(fields[19]) / _TICKS_PER_S,
        "process_open_fds": len(os.listdir("/proc/self/fd")) - 1,  # without the one that lists
        "process_max_fds": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    }


def _boot_time_s() -> float:
    text = Path("/proc/stat").read_text(encoding="utf-8")
    return float(text.partition("\nbtime ")[2].partition("\n")[0] or 0)


def _resident_bytes(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):  # it has just died
        return None
