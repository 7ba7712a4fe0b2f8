"""Where C++ and Python meet: lifetimes, references, threads, memory."""

from __future__ import annotations

import gc
import resource
import sys
import threading
import weakref

import numpy as np
import pytest

from headrace import DecodeError, TensorSpec
from headrace.codec import decode_predict
from headrace.tensors import compile_signatures

SIGNATURES = compile_signatures(
    {"serving_default": {"x": TensorSpec("float32"), "s": TensorSpec("string")}}
)
BODY = b'{"inputs":{"x":[[1,2],[3,4]],"s":["a","\\u00e9"]}}'


def test_arrays_outlive_request_body_and_signatures() -> None:
    body = bytearray(BODY)
    signatures = compile_signatures({"serving_default": {"x": TensorSpec("float64")}})
    large = bytearray(b'{"instances":[' + b",".join([b"1.5"] * 5000) + b"]}")
    x = decode_predict(large, signatures).tensors["x"]
    s = decode_predict(body, SIGNATURES).tensors["s"]
    large[:] = b"\0" * len(large)
    body[:] = b"\0" * len(body)
    del large, body, signatures
    gc.collect()
    assert (x == 1.5).all()
    assert s.tolist() == [b"a", "é".encode()]


def test_a_view_keeps_the_memory_alive() -> None:
    x = decode_predict(BODY, SIGNATURES).tensors["x"]
    part = x[1]
    base = weakref.ref(x)
    del x
    gc.collect()
    assert base() is not None or part.base is not None
    assert part.tolist() == [3, 4]


def test_references_to_the_arguments_are_level() -> None:
    body = bytearray(BODY)
    counts = sys.getrefcount(body), sys.getrefcount(SIGNATURES)
    for _ in range(50):
        decode_predict(body, SIGNATURES)
    with pytest.raises(DecodeError):
        decode_predict(memoryview(body)[:-1], SIGNATURES)
    gc.collect()
    assert (sys.getrefcount(body), sys.getrefcount(SIGNATURES)) == counts
    body.append(0)  # a lease that was kept would forbid this


def test_strings_have_no_spare_references() -> None:
    s = decode_predict(BODY, SIGNATURES).tensors["s"]
    item = s[1]
    assert sys.getrefcount(item) == 3  # the array, `item`, the call
    dead = s.base
    del s, dead
    assert sys.getrefcount(item) == 2


def test_many_threads_decode_at_once() -> None:
    rows = [[float(i + k) for k in range(64)] for i in range(400)]
    body = repr({"instances": rows}).replace("'", '"').encode()
    signatures = compile_signatures({"serving_default": {"x": TensorSpec("float32")}})
    expected = np.array(rows, dtype=np.float32)
    failures = []

    def work() -> None:
        for _ in range(20):
            found = decode_predict(body, signatures).tensors["x"]
            if not np.array_equal(found, expected):
                failures.append(found)
            try:
                decode_predict(body[:-3], signatures)
            except DecodeError as error:
                if error.code != "syntax":
                    failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not failures


def _peak_kib(rounds: int) -> int:
    body = b'{"inputs":{"x":[' + b",".join([b"1.25"] * 50_000) + b'],"s":["' + b"a" * 100_000
    for _ in range(rounds):
        decode_predict(body + b'"]}}', SIGNATURES)
        with pytest.raises(DecodeError):
            decode_predict(body + b"\\q", SIGNATURES)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_memory_is_flat_over_many_rounds() -> None:
    settled = _peak_kib(5)
    assert _peak_kib(50) - settled < 4096
