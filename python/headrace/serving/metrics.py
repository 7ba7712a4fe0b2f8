"""What the metrics page says, and the counters that requests move. Pure: no clock, no socket.

Two kinds of numbers come together. `RequestMetrics` counts answers, by model, API and status; it is
the only thing that a request touches here. The rest is read when somebody asks: what the core has
measured of each model version, and the gauges of server and process, all in one `Snapshot`.

A model's name becomes a label only if a model is configured under it: else anybody who can send
requests could make the page, and the memory of whoever scrapes it, grow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headrace._core import TimeHistogram
from headrace.serving.distribution import SECONDS, SIZES, Distribution
from headrace.serving.exposition import Family, Metric

__all__ = [
    "APIS",
    "CATALOGUE",
    "AnswerFigures",
    "RequestMeter",
    "RequestMetrics",
    "Series",
    "ServerFigures",
    "Snapshot",
    "VersionFigures",
    "families",
]

APIS: Final = ("predict", "classify", "regress")
"""APIs that run a model, by the number that the core knows them by."""


class RequestMeter:
    """Answers of one API of one model. Single-owner: the front end's loop.

    Attributes:
        model: Its name; empty where none is configured under the name that was asked for.
        api: A verb; empty for a request that could not be read.
        number: The core's number of the API.
        latencies: How long good answers took; the fast path records here, too.
    """

    __slots__ = ("_refused", "api", "latencies", "model", "number")

    def __init__(self, model: str, api: str) -> None:
        self.model = model
        self.api = api
        self.number = APIS.index(api) if api in APIS else 0
        self._refused: dict[int, int] = {}
        self.latencies = TimeHistogram()

    def succeeded(self, elapsed_ns: int) -> None:
        """An answer was given, so long after its request had come."""
        self.latencies.record(elapsed_ns)

    def failed(self, status: int) -> None:
        """An error was answered, or nobody was left to answer."""
        self._refused[status] = self._refused.get(status, 0) + 1

    def read(self) -> AnswerFigures:
        """What was counted so far."""
        latency = Distribution(*self.latencies.read())
        return AnswerFigures(self.model, self.api, latency, dict(self._refused))


class RequestMetrics:
    """The meters there are, and what versions that are gone have measured. Single-owner."""

    def __init__(self) -> None:
        self._models: frozenset[str] = frozenset()
        self._meters: dict[tuple[str, str], RequestMeter] = {}
        self._retired: dict[tuple[str, str], Series] = {}

    def meter(self, model: str, api: str) -> RequestMeter:
        """The meter for a model that is configured, or for the empty name."""
        key = (model, api)
        if key not in self._meters:
            self._meters[key] = RequestMeter(model, api)
        return self._meters[key]

    def configure(self, models: Iterable[str]) -> bool:
        """Declare the models there are; nothing is shown any more of those left out.

        Returns:
            Whether there was one: then whoever keeps meters must ask for them anew.
        """
        gone = self._models - (models := frozenset(models))
        self._models = models
        for model, api in list(self._meters):
            if model in gone:
                del self._meters[model, api]
        for model, api in list(self._retired):
            if model in gone:
                self._add("", self._retired.pop((model, api)))
        return bool(gone)

    def retire(self, model: str, series: Iterable[Series]) -> None:
        """Keep what a version has measured that is about to go.

        A total over several versions must not fall when one of them goes: whoever scrapes it would
        take that for a restart, and what is left for new.
        """
        for one in series:
            self._add(model if model in self._models else "", one)

    def _add(self, model: str, series: Series) -> None:
        key = (model, series.api)
        self._retired[key] = self._retired[key] + series if key in self._retired else series

    def read(self) -> list[AnswerFigures]:
        """What every meter counted so far."""
        return [meter.read() for meter in self._meters.values()]

    def retired(self) -> dict[tuple[str, str], Series]:
        """Model and API to the sums of what was retired; by the empty name of models forgotten."""
        return dict(self._retired)


@dataclass(frozen=True, slots=True)
class AnswerFigures:
    """Answers of one API of one model.

    Attributes:
        model: As `RequestMeter` has it.
        api: Likewise.
        latency: How long answers took that were successes, in nanoseconds.
        refused: Status to the number of answers that were no success.
    """

    model: str
    api: str
    latency: Distribution
    refused: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Series:
    """What the core has measured for one signature and API of one model version.

    Attributes:
        signature: Its name.
        api: As in `APIS`.
        measures: ``receive``, ``decode``, ``wait``, ``run``, ``encode`` in nanoseconds, ``rows``,
            ``batch_rows`` and ``batch_requests``.
    """

    signature: str
    api: str
    measures: Mapping[str, Distribution]

    @staticmethod
    def of(
        read: Iterable[tuple[str, int, Mapping[str, tuple[Sequence[int], int]]]],
    ) -> list[Series]:
        """What ``FrontPort.metrics`` gives."""
        return [
            Series(signature, APIS[api], {name: Distribution(*pair) for name, pair in of.items()})
            for signature, api, of in read
        ]

    def __add__(self, other: Series) -> Series:
        sums = {name: measure + other.measures[name] for name, measure in self.measures.items()}
        return Series(self.signature, self.api, sums)


@dataclass(frozen=True, slots=True)
class VersionFigures:
    """One loaded model version, as it stands.

    Attributes:
        model: Its model.
        version: Its number.
        series: What the core has measured.
        requests: In flight.
        rows: Of these.
        bytes: That these take in the ring and beside it.
        restarts: Successors of its worker.
        poisonous: Requests given up because two workers died while running them.
        worker_bytes: Resident memory of the worker; None where it has no process of its own.
    """

    model: str
    version: int
    series: Sequence[Series]
    requests: int
    rows: int
    bytes: int
    restarts: int
    poisonous: int
    worker_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """Connections and the process.

    Attributes:
        plain: Name of a metric without labels to its value.
        refusals: Status to the number of requests refused before they reached an API.
        info: Version of Headrace.
    """

    plain: Mapping[str, float]
    refusals: Mapping[int, int] = field(default_factory=dict)
    info: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a page is made of. Immutable: it may be written on another thread.

    Attributes:
        answers: By model and API.
        retired: What versions that are gone have measured, by model and API.
        versions: Those there are.
        server: The rest.
    """

    answers: Sequence[AnswerFigures]
    retired: Mapping[tuple[str, str], Series]
    versions: Sequence[VersionFigures]
    server: ServerFigures


_STAGE = ("model", "version", "signature", "api")
_VERSION = ("model", "version")
_SIGNATURE = ("model", "version", "signature")


def _seconds(stage: str, meaning: str) -> Metric:
    return Metric(f"headrace_{stage}_seconds", "histogram", _STAGE, meaning, SECONDS)


_REQUESTS = Metric(
    "headrace_requests_total", "counter", ("model", "api", "status"), "requests answered"
)
_REQUEST_SECONDS = Metric(
    "headrace_request_seconds",
    "histogram",
    ("model", "api"),
    "from a complete request to its answer, where that was a success",
    SECONDS,
)
_STAGES = {
    "receive": _seconds("receive", "from a request's first byte to its last; 0 if in one piece"),
    "decode": _seconds("decode", "from text to tensors"),
    "wait": _seconds("wait", "from the decoded request to the start of its run"),
    "run": _seconds("run", "in the model, with the others of its batch"),
    "encode": _seconds("encode", "from tensors to text"),
}
_ROWS = Metric("headrace_request_rows", "histogram", _STAGE, "rows of a request", SIZES)
_BATCHES = {
    "batch_rows": Metric(
        "headrace_batch_rows", "histogram", _SIGNATURE, "rows of a run of the model", SIZES
    ),
    "batch_requests": Metric(
        "headrace_batch_requests", "histogram", _SIGNATURE, "requests of a run of the model", SIZES
    ),
}
_OF_VERSION = {
    "requests": Metric(
        "headrace_requests_in_flight", "gauge", _VERSION, "requests accepted and not answered"
    ),
    "rows": Metric("headrace_rows_in_flight", "gauge", _VERSION, "their rows"),
    "bytes": Metric("headrace_bytes_in_flight", "gauge", _VERSION, "memory that they take"),
    "restarts": Metric(
        "headrace_worker_restarts_total",
        "counter",
        _VERSION,
        "workers that took over from a dead one",
    ),
    "poisonous": Metric(
        "headrace_poisonous_requests_total",
        "counter",
        _VERSION,
        "requests given up because two workers died while running them",
    ),
    "worker_bytes": Metric(
        "headrace_worker_resident_memory_bytes",
        "gauge",
        _VERSION,
        "resident memory of the worker's process",
    ),
}
_INFO = Metric("headrace_info", "gauge", ("version",), "always 1; the label is what runs here")
_REFUSALS = Metric(
    "headrace_http_refusals_total",
    "counter",
    ("status",),
    "requests refused before they reached an API: malformed, too large, too slow",
)


def _plain(name: str, kind: Any, meaning: str) -> Metric:
    return Metric(name, kind, (), meaning)


_PLAIN = (
    _plain("headrace_http_connections", "gauge", "connections open, the scraping one among them"),
    _plain("headrace_http_connections_limit", "gauge", "beyond this they are answered 503"),
    _plain("headrace_http_connections_accepted_total", "counter", "connections accepted"),
    _plain("headrace_http_connections_refused_total", "counter", "of these, beyond the limit"),
    _plain("headrace_http_connections_idle_closed_total", "counter", "closed by the idle timeout"),
    _plain(
        "headrace_http_connections_stalled_total", "counter", "cut off: the client took no bytes"
    ),
    _plain("headrace_http_requests_total", "counter", "complete requests of every kind"),
    _plain("headrace_http_received_bytes_total", "counter", "bytes from clients"),
    _plain("headrace_http_sent_bytes_total", "counter", "bytes to clients"),
    _plain("headrace_http_body_bytes", "gauge", "memory held for request bodies above 64 KiB"),
    _plain("headrace_http_body_bytes_limit", "gauge", "beyond this a body is answered 503"),
    _plain("headrace_rows_in_flight_limit", "gauge", "per model version; beyond: 503"),
    _plain("headrace_bytes_in_flight_limit", "gauge", "per model version; beyond: 503"),
    _plain("process_resident_memory_bytes", "gauge", "resident memory of the front end"),
    _plain("process_virtual_memory_bytes", "gauge", "address space of the front end"),
    _plain("process_cpu_seconds_total", "counter", "processor time of the front end"),
    _plain("process_start_time_seconds", "gauge", "start of the front end, in Unix time"),
    _plain("process_open_fds", "gauge", "file descriptors open in the front end"),
    _plain("process_max_fds", "gauge", "file descriptors that it may have"),
)

CATALOGUE: Final = (
    _REQUESTS,
    _REQUEST_SECONDS,
    *_STAGES.values(),
    _ROWS,
    *_BATCHES.values(),
    *_OF_VERSION.values(),
    *_PLAIN,
    _REFUSALS,
    _INFO,
)
"""Every metric with a conventional name, in the order of the page."""


def families(snapshot: Snapshot, success: int) -> list[Family]:
    """The metrics with conventional names; successes are shown under the status ``success``."""
    found: list[Family] = [*_of_answers(snapshot.answers, success), *_measured(snapshot.versions)]
    for name, metric in _OF_VERSION.items():
        by_version: dict[tuple[str, ...], int] = {
            (v.model, str(v.version)): value
            for v in snapshot.versions
            if (value := getattr(v, name)) is not None
        }
        found.append((metric, by_version))
    server = snapshot.server
    found += [(metric, {(): server.plain[metric.name]}) for metric in _PLAIN]
    found.append((_REFUSALS, {(str(status),): n for status, n in sorted(server.refusals.items())}))
    found.append((_INFO, {(server.info,): 1}))
    return found


def _of_answers(answers: Sequence[AnswerFigures], success: int) -> list[Family]:
    counts: dict[tuple[str, ...], int] = {}
    latencies: dict[tuple[str, ...], Distribution] = {}
    for of in answers:
        if succeeded := sum(of.latency.counts):
            counts[of.model, of.api, str(success)] = succeeded
            latencies[of.model, of.api] = of.latency
        for status, number in sorted(of.refused.items()):
            counts[of.model, of.api, str(status)] = number
    return [(_REQUESTS, counts), (_REQUEST_SECONDS, latencies)]


def _measured(versions: Sequence[VersionFigures]) -> list[Family]:
    staged = {**_STAGES, "rows": _ROWS}
    values: dict[str, dict[tuple[str, ...], Distribution]] = defaultdict(dict)
    for version in versions:
        for series in version.series:
            signature = (version.model, str(version.version), series.signature)
            for name in staged:
                values[name][(*signature, series.api)] = series.measures[name]
            for name in _BATCHES:
                # A run may have requests of several APIs; it is counted with one of them.
                measure, before = series.measures[name], values[name].get(signature)
                values[name][signature] = measure if before is None else before + measure
    return [(metric, values[name]) for name, metric in {**staged, **_BATCHES}.items()]
