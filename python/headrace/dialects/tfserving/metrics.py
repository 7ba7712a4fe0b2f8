"""TensorFlow Serving's metrics: its names, labels and scales, for the dashboards that know them.

Spec: the metrics page of TensorFlow Serving 2.20. What is left out has no meaning here: padding,
since nothing is padded, and warm-up. Two things are better: a model's name becomes a label only if
a model is configured under it, and sums are written with all their digits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Final

from headrace.dialects.tfserving.errors import STATUS_OF
from headrace.serving.distribution import (
    BATCH_SIZES,
    EXAMPLE_COUNTS,
    LATENCIES,
    QUEUEING,
    Distribution,
    Scale,
)
from headrace.serving.exposition import Family, Metric
from headrace.serving.metrics import APIS, AnswerFigures, Series, Snapshot

__all__ = ["CATALOGUE", "SUCCESS", "code_name", "families"]

SUCCESS: Final = 200
"""The status of every success."""

_PREFIX: Final = ":tensorflow:serving:"
# The pool that batches unless a file of batching parameters names another.
_POOL: Final = "model_server_batch_threads"
_RUNTIME: Final = "TF1"
# Several of absl's codes share a status; the first in the table is the one that is meant here.
_CODE_OF: Final = {status: code.upper() for code, status in reversed(STATUS_OF.items())} | {
    405: "INVALID_ARGUMENT",
    413: "INVALID_ARGUMENT",
    SUCCESS: "OK",
}


def _histogram(name: str, labels: tuple[str, ...], meaning: str, scale: Scale) -> Metric:
    return Metric(_PREFIX + name, "histogram", labels, meaning, scale, help=False)


def _counter(name: str, labels: tuple[str, ...], meaning: str) -> Metric:
    return Metric(_PREFIX + name, "counter", labels, meaning, help=False)


_INPUT = _histogram("batching_session:input_batch_size", (), "rows of a request", BATCH_SIZES)
_PROCESSED = _histogram(
    "batching_session:processed_batch_size", (), "rows of a run of a model", BATCH_SIZES
)
_QUEUEING = _histogram(
    "batching_session:queuing_latency",
    ("thread_pool_name",),
    "microseconds from the decoded request to the start of its run",
    QUEUEING,
)
_RUNS = _counter("batching_session:wrapped_run_count", (), "runs of models")
_REQUESTS = _counter(
    "request_count", ("model_name", "status"), "requests to the REST API, by the name of the code"
)
_EXAMPLES = _counter("request_example_count_total", ("model",), "examples classified or regressed")
_EXAMPLES_EACH = _histogram(
    "request_example_counts", ("model",), "examples of a request", EXAMPLE_COUNTS
)
_LATENCY = _histogram(
    "request_latency",
    ("model_name", "API", "entrypoint"),
    "microseconds from a complete request to its answer, where that was a success",
    LATENCIES,
)
_RUN = _histogram(
    "runtime_latency", ("model_name", "API", "runtime"), "microseconds in the model", LATENCIES
)

CATALOGUE: Final = (
    _INPUT,
    _PROCESSED,
    _QUEUEING,
    _RUNS,
    _REQUESTS,
    _EXAMPLES,
    _EXAMPLES_EACH,
    _LATENCY,
    _RUN,
)
"""Every metric, in the order of the page, which is that of the names."""


def code_name(status: int) -> str:
    """The name of absl's code that a status stands for."""
    return _CODE_OF.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")


def families(snapshot: Snapshot) -> list[Family]:
    """The metrics of a page."""
    counts, latencies = _of_answers(snapshot.answers)
    by_api = _totals(snapshot)
    examples = _examples(by_api)
    return [
        *_batching(by_api),
        (_REQUESTS, counts),
        (_EXAMPLES, {key: rows.total for key, rows in examples.items()}),
        (_EXAMPLES_EACH, examples),
        (_LATENCY, latencies),
        (
            _RUN,
            {
                (model, api.capitalize(), _RUNTIME): one.measures["run"]
                for (model, api), one in by_api.items()
                if model  # else it is of models that are not configured any more
            },
        ),
    ]


def _batching(by_api: Mapping[tuple[str, str], Series]) -> list[Family]:
    """Over all models; before the first request there is nothing but the names."""
    if not by_api:
        return [(metric, {}) for metric in (_INPUT, _PROCESSED, _QUEUEING, _RUNS)]
    measures = reduce(add, by_api.values()).measures
    runs = measures["batch_rows"]
    return [
        (_INPUT, {(): measures["rows"]}),
        (_PROCESSED, {(): runs}),
        (_QUEUEING, {(_POOL,): measures["wait"]}),
        (_RUNS, {(): sum(runs.counts)}),
    ]


def _of_answers(
    answers: Sequence[AnswerFigures],
) -> tuple[dict[tuple[str, ...], int], dict[tuple[str, ...], Distribution]]:
    counts: dict[tuple[str, ...], int] = defaultdict(int)
    latencies: dict[tuple[str, ...], Distribution] = {}
    for of in answers:
        if succeeded := sum(of.latency.counts):
            counts[of.model, code_name(SUCCESS)] += succeeded
            key = (of.model, of.api if of.api in APIS else "", "REST")
            latencies[key] = latencies[key] + of.latency if key in latencies else of.latency
        for status, number in of.refused.items():
            counts[of.model, code_name(status)] += number
    return counts, latencies


def _totals(snapshot: Snapshot) -> dict[tuple[str, str], Series]:
    """By model and API, over all versions that there are and were."""
    totals = dict(snapshot.retired)
    for version in snapshot.versions:
        for one in version.series:
            key = (version.model, one.api)
            totals[key] = totals[key] + one if key in totals else one
    return totals


def _examples(by_api: dict[tuple[str, str], Series]) -> dict[tuple[str, ...], Distribution]:
    """Only classify and regress have examples."""
    examples: dict[tuple[str, ...], Distribution] = {}
    for (model, api), one in by_api.items():
        if model and api != "predict":
            rows = one.measures["rows"]
            examples[model,] = examples[model,] + rows if (model,) in examples else rows
    return examples
