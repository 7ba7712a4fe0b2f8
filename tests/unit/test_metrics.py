from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.dialects.tfserving import metrics as tfserving
from headrace.serving import metrics as conventional
from headrace.serving.distribution import SIZE_BOUNDS, TIME_BOUNDS_NS, Distribution
from headrace.serving.exposition import Family, write
from headrace.serving.metrics import (
    RequestMetrics,
    Series,
    ServerFigures,
    Snapshot,
    VersionFigures,
)

TIMES = ("receive", "decode", "wait", "run", "encode")
PLAIN = {metric.name: 1.0 for metric in conventional.CATALOGUE if not metric.labels}

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(families: Iterable[Family]) -> Samples:
    """Name and labels to the value, of every sample."""
    samples: Samples = {}
    page = write(families).decode()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            # The parser gives every counter this ending, those of TensorFlow Serving too.
            bare = sample.name.removesuffix("_total")
            name = bare if f"\n{bare}{{" in page else sample.name
            key = (name, frozenset(sample.labels.items()))
            assert key not in samples, "a sample stands twice"
            samples[key] = sample.value
    return samples


def at(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def series(
    signature: str = "serving_default", api: str = "predict", *, times: int = 1, rows: int = 1
) -> Series:
    """One request of so many rows, each stage `times` ms long, run by itself."""
    stages = {name: Distribution.of([times * 10**6], TIME_BOUNDS_NS) for name in TIMES}
    sizes = {
        name: Distribution.of([size], SIZE_BOUNDS)
        for name, size in (("rows", rows), ("batch_rows", rows), ("batch_requests", 1))
    }
    return Series(signature, api, stages | sizes)


def version(number: int, *of: Series, model: str = "half") -> VersionFigures:
    return VersionFigures(
        model, number, of, requests=2, rows=3, bytes=4, restarts=5, poisonous=6, worker_bytes=7
    )


def snapshot(*versions: VersionFigures, requests: RequestMetrics | None = None) -> Snapshot:
    requests = requests or RequestMetrics()
    server = ServerFigures(PLAIN, {413: 2}, "1.0")
    return Snapshot(requests.read(), requests.retired(), versions, server)


def both(of: Snapshot) -> Samples:
    return parse([*tfserving.families(of), *conventional.families(of, 200)])


def test_ten_thousand_answers_of_all_outcomes_are_each_counted_once() -> None:
    requests = RequestMetrics()
    meters = [requests.meter(m, a) for m in ("half", "other", "") for a in ("predict", "status")]
    rng = random.Random(7)
    outcomes = {200: 0, 400: 0, 404: 0, 499: 0, 503: 0, 504: 0}
    total_ns = 0
    for _ in range(10_000):
        status = rng.choice(list(outcomes))
        outcomes[status] += 1
        if status == 200:
            elapsed = rng.randrange(10**9)
            total_ns += elapsed
            rng.choice(meters).succeeded(elapsed)
        else:
            rng.choice(meters).failed(status)
    samples = both(snapshot(requests=requests))

    def total(name: str, **labels: str) -> float:
        wanted = set(labels.items())
        return sum(v for (n, found), v in samples.items() if n == name and wanted <= found)

    assert total("headrace_requests_total") == 10_000
    assert total(":tensorflow:serving:request_count") == 10_000
    for status, number in outcomes.items():
        assert total("headrace_requests_total", status=str(status)) == number
        name = tfserving.code_name(status)
        assert total(":tensorflow:serving:request_count", status=name) == number
    assert total("headrace_request_seconds_count") == outcomes[200]
    assert total("headrace_request_seconds_bucket", le="+Inf") == outcomes[200]
    assert total("headrace_request_seconds_sum") == pytest.approx(total_ns / 1e9)
    assert total(":tensorflow:serving:request_latency_count") == outcomes[200]
    assert total(":tensorflow:serving:request_latency_sum") == pytest.approx(total_ns / 1e3)


def test_histograms_are_cumulative_and_end_with_their_count() -> None:
    requests = RequestMetrics()
    for elapsed in (1, 20_000, 20_000, 10**8, 10**13):
        requests.meter("half", "predict").succeeded(elapsed)
    of = snapshot(version(1, series(times=3, rows=5)), requests=requests)
    for family in text_string_to_metric_families(
        write([*tfserving.families(of), *conventional.families(of, 200)]).decode()
    ):
        if family.type != "histogram":
            continue
        buckets: dict[frozenset[tuple[str, str]], list[tuple[float, float]]] = {}
        counts = {}
        for sample in family.samples:
            labels = frozenset((k, v) for k, v in sample.labels.items() if k != "le")
            if sample.name.endswith("_bucket"):
                buckets.setdefault(labels, []).append((float(sample.labels["le"]), sample.value))
            elif sample.name.endswith("_count"):
                counts[labels] = sample.value
        assert buckets.keys() == counts.keys()
        for labels, values in buckets.items():
            assert values == sorted(values)
            assert [n for _, n in values] == sorted(n for _, n in values)
            assert values[-1] == (float("inf"), counts[labels])


def test_get_requests_have_no_api_for_tensorflow_serving() -> None:
    requests = RequestMetrics()
    for api in ("status", "metadata", "predict"):
        requests.meter("half", api).succeeded(5_000_000)
    samples = parse(tfserving.families(snapshot(requests=requests)))
    of_gets = {"model_name": "half", "API": "", "entrypoint": "REST"}
    name = ":tensorflow:serving:request_latency_count"
    assert at(samples, name, **of_gets) == 2
    assert at(samples, name, **(of_gets | {"API": "predict"})) == 1


def test_stages_are_shown_in_seconds_by_version_signature_and_api() -> None:
    samples = both(snapshot(version(3, series(times=3, rows=5), series("other", "classify"))))
    labels = {"model": "half", "version": "3", "signature": "serving_default", "api": "predict"}
    for stage in TIMES:
        assert at(samples, f"headrace_{stage}_seconds_sum", **labels) == 0.003
        assert at(samples, f"headrace_{stage}_seconds_count", **labels) == 1
        assert at(samples, f"headrace_{stage}_seconds_bucket", **labels, le="0.0025") == 0
        assert at(samples, f"headrace_{stage}_seconds_bucket", **labels, le="0.005") == 1
    assert at(samples, "headrace_request_rows_sum", **labels) == 5
    assert at(samples, "headrace_batch_rows_sum", model="half", version="3", signature="other") == 1
    runtime = {"model_name": "half", "runtime": "TF1"}
    assert at(samples, ":tensorflow:serving:runtime_latency_sum", **runtime, API="Predict") == 3000
    assert at(samples, ":tensorflow:serving:runtime_latency_sum", **runtime, API="Classify") == 1000


def test_batches_are_counted_over_the_apis_of_a_signature() -> None:
    samples = both(snapshot(version(1, series(rows=2), series(api="regress", rows=4))))
    labels = {"model": "half", "version": "1", "signature": "serving_default"}
    assert at(samples, "headrace_batch_rows_sum", **labels) == 6
    assert at(samples, "headrace_batch_requests_count", **labels) == 2
    prefix = ":tensorflow:serving:batching_session:"
    assert at(samples, prefix + "processed_batch_size_sum") == 6
    assert at(samples, prefix + "wrapped_run_count") == 2
    pool = {"thread_pool_name": "model_server_batch_threads"}
    assert at(samples, prefix + "queuing_latency_count", **pool) == 2


def test_only_classify_and_regress_have_examples() -> None:
    of = snapshot(
        version(1, series(rows=7), series(api="classify", rows=2), series(api="regress", rows=4))
    )
    samples = parse(tfserving.families(of))
    assert at(samples, ":tensorflow:serving:request_example_count_total", model="half") == 6
    assert at(samples, ":tensorflow:serving:request_example_counts_count", model="half") == 2


def test_totals_do_not_fall_when_a_version_goes() -> None:
    requests = RequestMetrics()
    requests.configure(["half"])
    old, new = series(times=8, rows=3), series(times=2, rows=1)
    name = ":tensorflow:serving:runtime_latency_sum"
    labels = {"model_name": "half", "API": "Predict", "runtime": "TF1"}
    together = snapshot(version(1, old), version(2, new), requests=requests)
    before = both(together)
    requests.retire("half", [old])
    after = both(snapshot(version(2, new), requests=requests))
    assert at(before, name, **labels) == at(after, name, **labels) == 10_000
    prefix = ":tensorflow:serving:batching_session:"
    assert at(after, prefix + "input_batch_size_sum") == 4
    # Series of the version itself go with it.
    assert not any(("version", "1") in labels for _, labels in after)
    requests.retire("half", [new])
    assert at(both(snapshot(requests=requests)), name, **labels) == 10_000


def test_of_a_model_that_is_not_configured_any_more_nothing_is_shown_but_no_total_falls() -> None:
    requests = RequestMetrics()
    assert not requests.configure(["half", "other"])
    requests.meter("other", "predict").succeeded(1)
    requests.meter("half", "predict").failed(400)
    requests.retire("other", [series(rows=3, times=1)])
    assert not requests.configure(["half", "other", "third"])
    assert requests.configure(["half", "third"])
    requests.retire("other", [series(rows=4, times=1)])
    samples = both(snapshot(requests=requests))
    assert not any(("other" in dict(labels).values()) for _, labels in samples)
    assert not any(name.startswith(":tensorflow:serving:runtime") for name, _ in samples)
    assert at(samples, ":tensorflow:serving:batching_session:input_batch_size_sum") == 7
    assert at(samples, "headrace_requests_total", model="half", api="predict", status="400") == 1
    # Configured again, it begins anew.
    requests.configure(["half", "other"])
    assert sum(requests.meter("other", "predict").read().latency.counts) == 0


def test_gauges_and_counters_of_a_version() -> None:
    samples = both(snapshot(version(1)))
    labels = {"model": "half", "version": "1"}
    names = (
        "requests_in_flight",
        "rows_in_flight",
        "bytes_in_flight",
        "worker_restarts_total",
        "poisonous_requests_total",
        "worker_resident_memory_bytes",
    )
    assert [at(samples, f"headrace_{name}", **labels) for name in names] == [2, 3, 4, 5, 6, 7]


def test_every_metric_of_the_catalogues_is_on_the_page_once_and_in_order() -> None:
    page = write([*tfserving.families(snapshot()), *conventional.families(snapshot(), 200)])
    shown = [line.split()[2:4] for line in page.decode().splitlines() if line[:6] == "# TYPE"]
    catalogue = (*tfserving.CATALOGUE, *conventional.CATALOGUE)
    assert shown == [[metric.name, metric.kind] for metric in catalogue]
    names = [metric.name for metric in tfserving.CATALOGUE]
    assert names == sorted(names)


def test_series_are_read_as_the_core_gives_them() -> None:
    (read,) = Series.of([("other", 2, {"run": ([1, 0, 2], 30)})])
    assert (read.signature, read.api) == ("other", "regress")
    assert read.measures == {"run": Distribution([1, 0, 2], 30)}


def test_names_are_told_apart_in_openmetrics_too() -> None:
    # There a counter's family is named without the ending.
    names = [m.name.removesuffix("_total") for m in (*tfserving.CATALOGUE, *conventional.CATALOGUE)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (200, "OK"),
        (400, "INVALID_ARGUMENT"),
        (404, "NOT_FOUND"),
        (413, "INVALID_ARGUMENT"),
        (429, "RESOURCE_EXHAUSTED"),
        (499, "CANCELLED"),
        (500, "INTERNAL"),
        (501, "UNIMPLEMENTED"),
        (503, "UNAVAILABLE"),
        (504, "DEADLINE_EXCEEDED"),
    ],
)
def test_statuses_have_the_names_of_codes(status: int, name: str) -> None:
    assert tfserving.code_name(status) == name
