from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from headrace.errors import RemoteProtocolError, RunFailed
from headrace.tensors import Signature, TensorSpec
from headrace.workers.loop import Loop

Arrays = dict[str, np.ndarray[Any, Any]]
Answers = dict[int, Any]

SIGNATURE = Signature({"x": TensorSpec("float32", (None,))}, {"y": TensorSpec("float32", (None,))})


class FakeBatch:
    """The core's Batch, of requests for one row each, in plain Python."""

    signature = "serving_default"

    def __init__(self, answers: Answers, values: Mapping[int, float]) -> None:
        self._answers = answers
        self._values = dict(values)
        self.size = self.rows = len(values)
        self.inputs = {"x": np.array(list(values.values()), np.float32)}

    def reply(self, outputs: Mapping[str, np.ndarray[Any, Any]]) -> None:
        for name, value in outputs.items():
            if self.size > 1 and (value.ndim == 0 or len(value) != self.rows):
                raise ValueError(f"output {name!r} has shape {value.shape}")
        for row, request in enumerate(self._values):
            assert request not in self._answers
            self._answers[request] = {name: value[row] for name, value in outputs.items()}

    def fail(self, code: str, message: str) -> None:
        for request in self._values:
            assert request not in self._answers
            self._answers[request] = (code, message)

    def split(self) -> list[FakeBatch]:
        return [FakeBatch(self._answers, {key: x}) for key, x in self._values.items()]


class FakeCollector:
    def __init__(self, *batches: FakeBatch | Exception | None) -> None:
        self._batches = list(batches)

    def collect(self, *, timeout_ms: int = -1) -> FakeBatch | None:
        if not self._batches:
            raise EOFError
        batch = self._batches.pop(0)
        if isinstance(batch, Exception):
            raise batch
        return batch


class FakeRuntime:
    batch_threads = 1

    def __init__(self, run: Callable[[Any], Mapping[str, Any]], signature: Signature) -> None:
        self.signatures = {"serving_default": signature}
        self.runs: list[list[float]] = []
        self._run = run

    def run(self, signature: str, inputs: Mapping[str, Any]) -> Arrays:
        self.runs.append(inputs["x"].tolist())
        return dict(self._run(inputs["x"]))

    def close(self) -> None: ...


def serve(
    run: Callable[[Any], Mapping[str, Any]],
    *values: float,
    signature: Signature = SIGNATURE,
) -> tuple[Answers, FakeRuntime]:
    """Answers to a batch of these values, by place."""
    answers: Answers = {}
    runtime = FakeRuntime(run, signature)
    batch = FakeBatch(answers, dict(enumerate(values)))
    Loop(runtime).run(FakeCollector(batch))
    return answers, runtime


def test_each_request_gets_its_row() -> None:
    answers, runtime = serve(lambda x: {"y": x * 2}, 1, 2, 3)
    assert answers == {0: {"y": 2}, 1: {"y": 4}, 2: {"y": 6}}
    assert runtime.runs == [[1, 2, 3]]


def test_loop_goes_on_after_a_timeout_and_ends_when_front_ends_have_closed() -> None:
    answers: Answers = {}
    batches = [FakeBatch(answers, {i: float(i)}) for i in range(2)]
    runtime = FakeRuntime(lambda x: {"y": x}, SIGNATURE)
    Loop(runtime).run(FakeCollector(None, batches[0], None, batches[1]))
    assert answers == {0: {"y": 0}, 1: {"y": 1}}


def test_front_end_that_breaks_the_protocol_does_not_end_the_loop() -> None:
    answers: Answers = {}
    collector = FakeCollector(RemoteProtocolError("record"), FakeBatch(answers, {0: 1.0}))
    Loop(FakeRuntime(lambda x: {"y": x}, SIGNATURE)).run(collector)
    assert answers == {0: {"y": 1}}


def fail_on_2(x: np.ndarray[Any, Any]) -> Arrays:
    if 2 in x:
        raise RunFailed("two is bad", kind="invalid_argument")
    return {"y": x}


def test_failing_batch_is_run_singly_and_only_the_culprit_fails() -> None:
    answers, runtime = serve(fail_on_2, 1, 2, 3)
    assert answers == {0: {"y": 1}, 1: ("invalid_argument", "two is bad"), 2: {"y": 3}}
    assert runtime.runs == [[1, 2, 3], [1], [2], [3]]


def test_single_failing_request_is_not_run_again() -> None:
    answers, runtime = serve(fail_on_2, 2)
    assert answers == {0: ("invalid_argument", "two is bad")}
    assert len(runtime.runs) == 1


def test_wrong_number_of_rows_is_retried_singly() -> None:
    answers, _ = serve(lambda x: {"y": x[:2]}, 1, 2, 3)
    assert answers == {0: {"y": 1}, 1: {"y": 2}, 2: {"y": 3}}


def test_unexpected_exception_is_an_internal_error_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def run(x: object) -> Arrays:
        raise ZeroDivisionError("oops")

    with caplog.at_level(logging.ERROR):
        answers, _ = serve(run, 1)
    assert answers == {0: ("internal", "ZeroDivisionError: oops")}
    assert "ZeroDivisionError" in caplog.text


def test_text_of_an_exception_becomes_utf8() -> None:
    def run(x: object) -> Arrays:
        raise ValueError("file \udcff")

    answers, _ = serve(run, 1)
    assert answers == {0: ("internal", r"file \udcff")}


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({}, "output 'y' is missing; the model returned none"),
        ({"z": 1.0}, "output 'y' is missing; the model returned z"),
        ({"y": 1.0, "z": 1.0}, "output 'z' is not in the signature, which declares y"),
    ],
)
def test_outputs_must_be_those_of_the_signature(outputs: dict[str, float], message: str) -> None:
    answers, _ = serve(
        lambda x: {name: x * np.float32(value) for name, value in outputs.items()}, 1
    )
    assert answers == {0: ("internal", message)}


def test_output_of_another_dtype_names_both() -> None:
    answers, _ = serve(lambda x: {"y": x.astype(np.float64)}, 1)
    assert answers == {
        0: ("internal", "output 'y' is declared float32; the model returned float64")
    }


@pytest.mark.parametrize("dtype", ["complex64", "qint8", "resource"])
def test_output_without_a_json_form_is_refused(dtype: str) -> None:
    signature = Signature(SIGNATURE.inputs, {"y": TensorSpec(dtype, (None,))})
    answers, _ = serve(lambda x: {"y": x}, 1, signature=signature)
    message = f"output 'y' is {dtype}, which has no JSON form"
    assert answers == {0: ("invalid_argument", message)}


@pytest.mark.parametrize("dtype", ["string", "bfloat16", "float16", "bool", "uint64"])
def test_output_of_every_json_dtype_passes(dtype: str) -> None:
    import ml_dtypes  # noqa: F401

    signature = Signature(SIGNATURE.inputs, {"y": TensorSpec(dtype, (None,))})
    value = np.array([b"1"], object) if dtype == "string" else np.ones(1, dtype)
    answers, _ = serve(lambda x: {"y": value}, 1, signature=signature)
    assert answers == {0: {"y": value[0]}}


def test_first_answer_is_told_once_be_it_a_failure() -> None:
    told: list[None] = []
    answers: Answers = {}
    batches = [FakeBatch(answers, {0: 2.0}), FakeBatch(answers, {1: 1.0})]
    loop = Loop(FakeRuntime(fail_on_2, SIGNATURE), on_first_answer=lambda: told.append(None))
    loop.run(FakeCollector(*batches))
    assert len(told) == 1
    assert len(answers) == 2


def test_batches_run_at_once_on_as_many_threads_as_asked_for() -> None:
    together = threading.Barrier(3, timeout=30)

    def run(x: np.ndarray[Any, Any]) -> Arrays:
        together.wait()  # passes only when three runs are in here
        return {"y": x * 2}

    answers: Answers = {}
    told: list[None] = []
    batches = [FakeBatch(answers, {i: float(i)}) for i in range(6)]
    loop = Loop(FakeRuntime(run, SIGNATURE), on_first_answer=lambda: told.append(None))
    loop.run(FakeCollector(*batches), threads=3)
    assert answers == {i: {"y": 2 * i} for i in range(6)}
    assert len(told) == 1


@pytest.mark.parametrize("threads", [1, 3])
def test_fault_of_one_thread_ends_the_loop_though_others_wait(threads: int) -> None:
    over = threading.Event()

    class Collector(FakeCollector):
        def collect(self, *, timeout_ms: int = -1) -> FakeBatch | None:
            if not self._batches:
                over.wait(30)
            return super().collect()

    runtime = FakeRuntime(lambda x: {"y": x}, SIGNATURE)
    with pytest.raises(MemoryError):
        Loop(runtime).run(Collector(MemoryError()), threads=threads)
    assert not over.is_set()
    over.set()
