"""Tensors without JSON on the URL of predict, against live servers on loopback."""

from __future__ import annotations

import gzip
import http.client
import io
import json
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from headrace import Server
from headrace.cli.docs import pages
from headrace.server.front_end import FrontEndOptions
from headrace.server.inference import InferenceOptions
from headrace.server.limits import HttpLimits
from headrace.server.models import ModelSource
from headrace.server.tfserving_api import TensorFlowServingOptions
from model_builders import half_plus_two_examples, python_model

OCTETS, NPY = "application/octet-stream", "application/x-npy"
# Of every kind one; a row of 13 fails, one of 14 takes its time.
MODEL = """
    import time
    import numpy as np

    def same(dtype, shape):
        return {"inputs": {"x": (dtype, shape)}, "outputs": {"y": (dtype, shape)}}

    class Model:
        signatures = {
            "serving_default": same("float32", (None, 3)),
            **{dtype: same(dtype, None) for dtype in (
                "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                "float16", "bfloat16", "float64", "string")},
            "pair": {
                "inputs": {"a": ("float32", (None,)), "b": ("float32", (None,))},
                "outputs": {"sum": ("float32", (None,)), "name": ("string", (None,))},
            },
        }

        def predict(self, inputs, signature):
            if signature == "pair":
                total = inputs["a"] + inputs["b"]
                return {"sum": total, "name": np.array([b"n"] * len(total), object)}
            x = inputs["x"]
            if signature == "serving_default":
                if (x == 13).any():
                    raise ValueError("thirteen")
                if (x == 14).any():
                    time.sleep(1)
                x = x * 2
            return {"y": x}
"""
INTEGERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)

Answer = tuple[int, Mapping[str, str], bytes]
Ask = Callable[..., Answer]


def saved(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def loaded(body: bytes) -> Any:
    return np.load(io.BytesIO(body), allow_pickle=False)


def raw(shape: str, **more: str) -> dict[str, str]:
    return {"Content-Type": OCTETS, "X-Tensor-Shape": shape, **more}


def error_of(answer: Answer, status: int) -> str:
    assert answer[0] == status, answer
    assert answer[1]["Content-Type"] == "application/json"
    assert answer[2].startswith(b'{\n    "error": ')
    message = json.loads(answer[2])["error"]
    assert isinstance(message, str)
    return message


def options(path: Path, *names: str, **changes: object) -> FrontEndOptions:
    sources = [ModelSource(name, path / name, poll_s=None, max_retries=0) for name in names]
    wanted: dict[str, object] = {"models": sources, "listen": [("127.0.0.1", 0)]}
    return FrontEndOptions(**(wanted | changes))  # type: ignore[arg-type]


def asker(server: Server) -> Ask:
    def ask(
        body: bytes, headers: Mapping[str, str], target: str = "m:predict", method: str = "POST"
    ) -> Answer:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
        with closing(connection):
            connection.request(method, f"/v1/models/{target}", body, dict(headers))
            response = connection.getresponse()
            return response.status, response.headers, response.read()

    return ask


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models")
    python_model(path / "m" / "1", MODEL)
    return path


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[Server]:
    with Server(options=options(models, "m")) as server:
        yield server


@pytest.fixture(scope="module")
def ask(server: Server) -> Ask:
    return asker(server)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (ROWS.tobytes(), raw("2,3")),
        (
            ROWS.tobytes(),
            {"content-type": "Application/Octet-Stream;x=y", "x-tensor-shape": "2, 3"},
        ),
        (saved(ROWS), {"Content-Type": NPY}),
        (saved(np.asfortranarray(ROWS.astype(">f4"))), {"Content-Type": NPY}),
        (gzip.compress(saved(ROWS)), {"Content-Type": NPY, "Content-Encoding": "gzip"}),
        (json.dumps({"instances": ROWS.tolist()}).encode(), {}),
        # Without a shape, bytes are JSON: curl --data-binary says no more than this.
        (json.dumps({"instances": ROWS.tolist()}).encode(), {"Content-Type": OCTETS}),
    ],
)
def test_each_form_of_body_has_each_form_of_answer(
    ask: Ask, body: bytes, headers: dict[str, str]
) -> None:
    status, answered, text = ask(body, headers)
    assert (status, answered["Content-Type"]) == (200, "application/json")
    assert json.loads(text) == {"predictions": (ROWS * 2).tolist()}

    status, answered, text = ask(body, headers | {"Accept": OCTETS})
    assert (status, answered["Content-Type"], text) == (200, OCTETS, (ROWS * 2).tobytes())
    assert (answered["X-Tensor-Shape"], answered["X-Tensor-Dtype"]) == ("2,3", "float32")

    status, answered, text = ask(body, headers | {"Accept": f"{NPY}, */*;q=0.5"})
    assert (status, answered["Content-Type"]) == (200, NPY)
    np.testing.assert_array_equal(loaded(text), ROWS * 2)


@pytest.mark.parametrize(
    "dtype",
    [*INTEGERS, "bool", "float16", "bfloat16", "float64"],
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 1, 3)])
def test_every_dtype_and_rank_comes_back_bit_by_bit(
    ask: Ask, dtype: str, shape: tuple[int, ...]
) -> None:
    numpy_dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    array = np.random.default_rng(3).integers(0, 2, shape).astype(numpy_dtype)
    target = f"m:predict?signature_name={dtype}"
    text_shape = ",".join(map(str, shape))
    status, answered, body = ask(array.tobytes(), raw(text_shape, Accept=OCTETS), target)
    assert (status, body) == (200, array.tobytes())
    assert (answered["X-Tensor-Shape"], answered["X-Tensor-Dtype"]) == (text_shape, dtype)
    status, _, body = ask(saved(array), {"Content-Type": NPY, "Accept": NPY}, target)
    assert (status, body) == (200, saved(array))


def test_answer_in_json_has_rows_but_for_a_scalar(ask: Ask) -> None:
    target = "m:predict?signature_name=int64"
    assert ask(np.int64([-5]).tobytes(), raw("1"), target)[2] == b'{"predictions":[-5]}'
    assert ask(np.int64(-5).tobytes(), raw(""), target)[2] == b'{"outputs":-5}'
    assert ask(b"", raw("0"), target)[2] == b'{"predictions":[]}'


def test_wishes_hold_for_binary_bodies(ask: Ask) -> None:
    nan = struct.pack("<3f", 1, float("nan"), 2)
    body = ask(nan, raw("1,3"), "m:predict?non_finite=null&pretty=true")[2]
    assert json.loads(body) == {"predictions": [[2, None, 4]]}
    assert body.startswith(b'{\n    "predictions"')


@pytest.mark.parametrize("form", [OCTETS, NPY])
def test_large_tensors_go_and_come_whole(ask: Ask, form: str) -> None:
    array = np.random.default_rng(4).random((400_000, 3), np.float32)
    headers = raw("400000,3") if form == OCTETS else {"Content-Type": NPY}
    body = array.tobytes() if form == OCTETS else saved(array)
    assert ask(body, headers | {"Accept": OCTETS})[2] == (array * 2).tobytes()
    np.testing.assert_array_equal(loaded(ask(body, headers | {"Accept": NPY})[2]), array * 2)
    packed = ask(body, headers | {"Accept": OCTETS, "Accept-Encoding": "gzip"})
    assert packed[1]["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed[2]) == (array * 2).tobytes()
    assert "takes 12 bytes" in error_of(ask(array.tobytes(), raw("1,3")), 400)


def test_same_head_again_on_one_connection_may_have_another_body(server: Server) -> None:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    with closing(connection):
        for first in range(10):
            x = np.float32([[first, 0, 1]])
            connection.request("POST", "/v1/models/m:predict", x.tobytes(), raw("1,3"))
            answer = json.loads(connection.getresponse().read())
            assert answer == {"predictions": (x * 2).tolist()}


@pytest.mark.parametrize(
    ("body", "headers", "target", "status", "message"),
    [
        (bytes(23), raw("2,3"), "m:predict", 400, "takes 24 bytes, but the body has 23"),
        (b"", raw("2,3"), "m:predict", 400, "takes 24 bytes, but the body has 0"),
        (bytes(24), raw("3,2"), "m:predict", 400, "'x' has shape [3,2], expected [?,3]"),
        (bytes(24), raw("-1,3"), "m:predict", 400, "has a negative extent"),
        (b"", raw("0,99999999999999999999"), "m:predict", 400, "expected extents such as 2,3"),
        (b"", raw("4611686018427387904,4"), "m:predict", 400, "larger than any memory"),
        (b"", raw("0,4611686018427387904"), "m:predict", 400, "larger than any memory"),
        (b"", raw("2147483648,0"), "m:predict?signature_name=int8", 400, "there are no elements"),
        (b"1", raw(",".join("1" * 65)), "m:predict?signature_name=int8", 400, "rank 65"),
        (b"\2", raw("1"), "m:predict?signature_name=bool", 400, "byte 2 at element 0"),
        (b"", raw("0"), "m:predict?signature_name=string", 400, "takes string, which has no form"),
        (b"", raw("0"), "m:predict?signature_name=pair", 400, "has the inputs a, b;"),
        (b"", raw("0"), "m:predict?signature_name=pear", 400, "did you mean 'pair'?"),
        (b"", raw("0"), "n:predict", 404, "Servable not found for request: Latest(n)"),
        (b"", raw("0"), "m/versions/9:predict", 404, "Specific(m, 9)"),
        (b"", raw("0"), "m/labels/l:predict", 400, "Unrecognized servable version label"),
        (np.float32([13] * 3).tobytes(), raw("1,3"), "m:predict", 500, "thirteen"),
        (
            saved(np.float64([[1, 2, 3]])),
            {"Content-Type": NPY},
            "m:predict",
            400,
            "has dtype float",
        ),
        (saved(np.array(["a"])), {"Content-Type": NPY}, "m:predict", 400, "of dtype '<U1' is not"),
        (b'{"instances": []}', {"Content-Type": NPY}, "m:predict", 400, "is no .npy array"),
        (b"", {"Content-Type": NPY}, "m:predict", 400, "is no .npy array"),
    ],
)
@pytest.mark.parametrize("accept", ["*/*", NPY])
def test_mistakes_are_errors_of_tensorflow_serving_in_json(
    ask: Ask,
    body: bytes,
    headers: dict[str, str],
    target: str,
    status: int,
    message: str,
    accept: str,
) -> None:
    assert message in error_of(ask(body, headers | {"Accept": accept}, target), status)


@pytest.mark.parametrize("accept", [NPY, OCTETS])
def test_answer_that_is_no_tensor_is_not_acceptable(ask: Ask, accept: str) -> None:
    pair = json.dumps({"signature_name": "pair", "inputs": {"a": [1, 2], "b": [3, 4]}}).encode()
    headers = {"Accept": accept}
    message = error_of(ask(pair, headers), 406)
    assert message.startswith(f'an answer of type {accept} is one tensor, but the model gave "name')
    assert "outputs=NAME" in message
    assert "is of strings" in error_of(ask(pair, headers, "m:predict?outputs=name"), 406)
    assert 'it gave "name", "sum"' in error_of(ask(pair, headers, "m:predict?outputs=z"), 400)
    answer = ask(pair, headers, "m:predict?outputs=sum")
    assert answer[0] == 200
    assert answer[2][-8:] == struct.pack("<2f", 4, 6)


def test_other_routes_look_at_neither_header(ask: Ask) -> None:
    headers = {"Accept": NPY, **raw("1")}
    assert ask(b"", headers, "m", "GET")[1]["Content-Type"] == "application/json"
    assert ask(b"", headers, "m/metadata", "GET")[1]["Content-Type"] == "application/json"
    assert "JSON Parse error" in error_of(ask(b"\0", headers, "m:classify"), 400)


def test_cors_headers_are_on_these_answers_too(models: Path) -> None:
    cors = TensorFlowServingOptions(cors=True)
    with Server(options=options(models, "m", tfserving=cors)) as server:
        ask = asker(server)
        for headers in (raw("2,3"), raw("2,3", Accept=OCTETS), raw("9")):
            assert ask(ROWS.tobytes(), headers)[1]["Access-Control-Allow-Origin"] == "*"


def test_bounds_hold(models: Path) -> None:
    limits: dict[str, object] = {
        "http": HttpLimits(max_body_bytes=4096),
        "inference": InferenceOptions(timeout_s=0.3),
    }
    with Server(options=options(models, "m", **limits)) as server:
        ask = asker(server)
        assert ask(bytes(12 * 300), raw("300,3"))[0] == 200
        assert "above the limit of 4096" in error_of(ask(bytes(12 * 400), raw("400,3")), 413)
        slow = np.float32([14] * 3).tobytes()
        for accept in ("*/*", OCTETS):
            assert "deadline" in error_of(ask(slow, raw("1,3", Accept=accept)), 504)
    for bound in ({"max_in_flight_rows": 0}, {"max_in_flight_bytes": 0}):
        with Server(options=options(models, "m", **bound)) as server:
            assert "too much is waiting" in error_of(asker(server)(ROWS.tobytes(), raw("2,3")), 503)


def test_every_stage_is_measured(models: Path) -> None:
    with Server(options=options(models, "m")) as server:
        ask = asker(server)
        ask(ROWS.tobytes(), raw("2,3"))
        ask(saved(ROWS), {"Content-Type": NPY, "Accept": NPY})
        ask(b"", raw("2,3"))
        pair = b'{"signature_name": "pair", "inputs": {"a": [1], "b": [2]}}'
        ask(pair, {"Accept": OCTETS})
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
        with closing(connection):
            connection.request("GET", "/metrics")
            page = connection.getresponse().read().decode()
    samples = {
        (sample.name, sample.labels.get("signature")): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }
    for stage in ("receive", "decode", "wait", "run", "encode"):
        assert samples[f"headrace_{stage}_seconds_count", "serving_default"] == 2
    assert samples["headrace_run_seconds_count", "pair"] == 1
    assert samples.get(("headrace_encode_seconds_count", "pair"), 0) == 0
    answered = {
        (sample.labels["status"], sample.value)
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "headrace_requests_total" and sample.value
    }
    assert answered == {("200", 2), ("400", 1), ("406", 1)}


HALF_PLUS_THREE = """
    class Model:
        signatures = {
            "serving_default": {
                "inputs": {"x": ("float32", None)}, "outputs": {"y": ("float32", None)},
            }
        }

        def predict(self, inputs):
            return {"y": inputs["x"] / 2 + 3}
"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("demo")
    python_model(path / "half_plus_three" / "1", HALF_PLUS_THREE)
    with Server(options=options(path, "half_plus_three")) as server:
        yield server.url


def examples() -> list[Any]:
    """Language, source and output of each example on the page of the API."""
    page = pages()["rest-api"].read_text(encoding="utf-8")
    section = page.partition("## Tensors without JSON\n")[2].partition("\n## ")[0]
    found = re.findall(r"^```(sh|python)\n(.*?)```\n\n```\n(.*?)```$", section, re.M | re.S)
    assert len(found) == 3
    return [pytest.param(*example, id=str(i)) for i, example in enumerate(found)]


@pytest.mark.parametrize(("language", "source", "output"), examples())
def test_example_of_the_page_prints_what_it_says(
    demo: str, language: str, source: str, output: str
) -> None:
    if language == "sh" and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    command = [sys.executable, "-c"] if language == "python" else ["bash", "-o", "pipefail", "-c"]
    source = source.replace("http://127.0.0.1:8501", demo).replace("curl ", "curl -sS ")
    done = subprocess.run(
        [*command, source], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == output.split()


TYPES = st.sampled_from([NPY, OCTETS, "*/*", "", "application/json;q=0.1, " + NPY])
SHAPES = st.one_of(
    st.lists(st.integers(-1, 4), max_size=4).map(lambda extents: ",".join(map(str, extents))),
    st.sampled_from(["", "x", "0,0", "9" * 30, "2147483648,0", "0,4611686018427387904"]),
)
BODIES = st.one_of(
    st.binary(max_size=60),
    st.binary(max_size=120).map(lambda rest: b"\x93NUMPY\x01\x00v\x00" + rest),
    st.sampled_from([saved(ROWS), saved(ROWS.astype("f8")), saved(np.zeros((0, 3), "f4"))]),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    body=BODIES,
    shape=SHAPES,
    form=TYPES,
    accept=TYPES,
    signature=st.sampled_from(["", "int8", "bool", "float16", "string", "pair", "none", "%ff"]),
)
def test_whatever_is_sent_is_never_the_servers_fault(
    ask: Ask, body: bytes, shape: str, form: str, accept: str, signature: str
) -> None:
    headers = {"Content-Type": form, "X-Tensor-Shape": shape, "Accept": accept}
    answer = ask(body, headers, f"m:predict?signature_name={signature}&non_finite=null")
    if answer[0] != 200:
        assert answer[0] in (400, 406)
        error_of(answer, answer[0])


@pytest.mark.tensorflow
def test_saved_model_takes_and_gives_tensors(tmp_path: Path) -> None:
    half_plus_two_examples(tmp_path / "half" / "1")
    with Server(options=options(tmp_path, "half")) as server:
        ask = asker(server)
        for x in (ROWS, np.float32([1, 2, 5]), np.float32(3), np.zeros((0, 4), np.float32)):
            shape = ",".join(map(str, x.shape))
            answer = ask(x.tobytes(), raw(shape, Accept=OCTETS), "half:predict")
            assert answer[0] == 200
            assert answer[1]["X-Tensor-Shape"] == shape
            assert answer[2] == (x / 2 + 2).tobytes()
            answer = ask(saved(x), {"Content-Type": NPY, "Accept": NPY}, "half:predict")
            np.testing.assert_array_equal(loaded(answer[2]), x / 2 + 2)
        one_two_five = struct.pack("<3f", 1, 2, 5)
        text = ask(one_two_five, raw("3", Accept="application/json"), "half:predict")[2]
        assert text == b'{"predictions":[2.5,3.0,4.5]}'
