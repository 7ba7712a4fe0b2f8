from __future__ import annotations

import pickle

import pytest

from headrace.bench.latencies import Latencies
from headrace.bench.record import LOST, NO_CONNECTION, TIMEOUT, Record


def test_percentiles_are_within_a_thousandth() -> None:
    latencies = Latencies()
    for microseconds in range(1, 20_001):
        latencies.record(microseconds / 1e6)
    assert latencies.count == 20_000
    assert latencies.mean_s == pytest.approx(0.0100005, rel=1e-3)
    for percentile in (1, 50, 90, 99, 99.9, 100):
        assert latencies.percentile_s(percentile) == pytest.approx(
            0.02 * percentile / 100, rel=1e-3
        )
    assert latencies.min_s == 1e-6
    assert latencies.max_s == pytest.approx(0.02, rel=1e-3)


def test_no_times_are_zeros() -> None:
    latencies = Latencies()
    latencies.add(Latencies().encode())
    assert (latencies.count, latencies.mean_s, latencies.min_s, latencies.max_s) == (0, 0, 0, 0)
    assert latencies.percentile_s(99) == 0


def test_times_out_of_range_count_as_the_nearest() -> None:
    latencies = Latencies()
    latencies.record(0)
    latencies.record(-1e-6)
    latencies.record(1e6)
    assert latencies.count == 3
    assert latencies.min_s == 1e-6
    assert latencies.max_s == pytest.approx(3600, rel=1e-3)


def test_adding_encoded_times_is_recording_them() -> None:
    whole, sum_ = Latencies(), Latencies()
    for start in (5, 50, 500):
        part = Latencies()
        for number in range(1000):
            part.record((start + number) / 1e4)
            whole.record((start + number) / 1e4)
        sum_.add(part.encode())
    sum_.add(Latencies().encode())
    assert sum_.encode() == whole.encode()
    assert sum_.min_s == whole.min_s == 500e-6


def test_record_tells_successes_from_refusals_and_failures() -> None:
    record = Record()
    record.answered(200, b"", due_at=1.0, sent_at=1.25, now=1.5)
    record.answered(503, b'{"error": "full"}' + b" " * 1000, due_at=1.0, sent_at=1.0, now=9.0)
    record.answered(503, b"another", due_at=1.0, sent_at=1.0, now=2.0)
    record.failed(TIMEOUT, due_at=1.0, now=5.0)
    record.failed(LOST, due_at=1.0, now=2.0)
    assert record.requests == 5
    assert record.successes == 1
    # A refusal that comes fast must not make the server look fast, nor one that comes never.
    assert record.latency.count == 2
    assert record.latency.max_s == pytest.approx(4, rel=1e-3)
    assert record.service.count == 1
    assert record.service.max_s == pytest.approx(0.25, rel=1e-3)
    assert record.samples[503].startswith(b'{"error": "full"}')
    assert len(record.samples[503]) == 500


def test_records_of_processes_add_up() -> None:
    whole = Record()
    for part in range(3):
        record = Record()
        record.failed(NO_CONNECTION, due_at=0.0, now=0.25)
        record.answered(400 + part, b"%d" % part, due_at=0.0, sent_at=0.0, now=0.5)
        record.answered(200, b"", due_at=0.0, sent_at=0.0, now=3.0 - part)
        record.lateness.record(0.001)
        whole.add(pickle.loads(pickle.dumps(record.pack())))
    assert whole.statuses == {200: 3, 400: 1, 401: 1, 402: 1}
    assert whole.failures == {NO_CONNECTION: 3}
    assert whole.samples == {400: b"0", 401: b"1", 402: b"2"}
    assert whole.latency.count == whole.lateness.count == 3
    assert whole.last_at == 3.0


def test_samples_are_of_so_many_statuses_only() -> None:
    record = Record()
    for status in range(400, 500):
        record.answered(status, b"x", due_at=0.0, sent_at=0.0, now=1.0)
    assert len(record.samples) == 16
    assert record.requests == 100
