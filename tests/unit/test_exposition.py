from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from headrace.serving.distribution import SIZE_BOUNDS, Distribution, Scale
from headrace.serving.exposition import Metric, write

VECTORS = Path(__file__).parents[1] / "vectors"
SCALE = Scale(SIZE_BOUNDS, (1, 2, 4))


def counter(name: str, *labels: str) -> Metric:
    return Metric(f":tensorflow:serving:{name}", "counter", labels, "", help=False)


def histogram(name: str, *labels: str) -> Metric:
    return Metric(f":tensorflow:serving:{name}", "histogram", labels, "", SCALE, help=False)


def test_page_is_as_tensorflow_serving_lays_it_out() -> None:
    page = write(
        [
            (
                counter("request_count", "model_name", "status"),
                {("half", "OK"): 5, ('a\\b"c', "NOT_FOUND"): 1},
            ),
            (counter("wrapped"), {(): 7}),
            (histogram("sizes"), {(): Distribution.of([1, 3, 100], SIZE_BOUNDS)}),
            (
                histogram("latency", "model_name", "API"),
                {("half", ""): Distribution.of([2], SIZE_BOUNDS)},
            ),
            (counter("unused"), {}),
            (
                Metric("headrace_seconds", "gauge", (), "in seconds, with a \\ and a\nline"),
                {(): 0.25},
            ),
        ]
    )
    assert page == (VECTORS / "exposition.txt").read_bytes()


@given(st.text(st.characters(codec="utf-8")), st.floats(allow_nan=False, allow_infinity=False))
def test_any_label_and_number_come_back(text: str, number: float) -> None:
    metric = Metric("m", "gauge", ("name",), "", help=False)
    (family,) = text_string_to_metric_families(write([(metric, {(text,): number})]).decode())
    (sample,) = family.samples
    assert sample.labels == {"name": text}
    assert sample.value == number


def test_name_that_is_not_utf8_leaves_the_page_readable() -> None:
    metric = Metric("m", "gauge", ("name",), "", help=False)
    assert write([(metric, {("\udcff",): 1})]) == b'# TYPE m gauge\nm{name="?"} 1\n'
