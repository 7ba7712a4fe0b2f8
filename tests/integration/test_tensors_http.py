"""Tensors without JSON on the URL of predict, both ways, against a live server."""

from __future__ import annotations

import http.client
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model_builders import python_model
from server_process import ServerProcess, served

JSON = "application/json"
RAW = "application/octet-stream"
NPY = "application/x-npy"
MODEL = """
    import numpy as np

    FLOATS, TEXTS = ("float32", (None,)), ("string", (None,))

    class Model:
        signatures = {
            "serving_default": {
                "inputs": {"x": ("float32", (None, 3))}, "outputs": {"y": ("float32", (None, 3))}
            },
            "bf": {
                "inputs": {"x": ("bfloat16", (None,))}, "outputs": {"y": ("bfloat16", (None,))}
            },
            "two": {
                "inputs": {"a": FLOATS, "b": FLOATS}, "outputs": {"s": FLOATS, "t": TEXTS}
            },
            "texts": {"inputs": {"t": TEXTS}, "outputs": {"t": TEXTS}},
            "flags": {"inputs": {"x": ("bool", (None,))}, "outputs": {"y": ("bool", (None,))}},
            "scalar": {"inputs": {"x": ("int64", ())}, "outputs": {"y": ("int64", ())}},
        }

        def predict(self, inputs, signature):
            if signature == "two":
                s = inputs["a"] + inputs["b"]
                return {"s": s, "t": np.array([b"t"] * len(s), object)}
            if signature == "texts":
                return dict(inputs)
            return {"y": ~inputs["x"] if signature == "flags" else inputs["x"] * 2}
"""
X = np.arange(6, dtype="<f4").reshape(2, 3)
SHAPE = {"X-Tensor-Shape": "2,3"}
Answer = tuple[int, Mapping[str, str], bytes]
Ask = Callable[..., Answer]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("tensors")
    python_model(folder / "m" / "1", MODEL)
    with served("--model_name=m", f"--model_base_path={folder / 'm'}") as running:
        yield running


@pytest.fixture(scope="module")
def ask(server: ServerProcess) -> Ask:
    def ask(
        body: bytes, sent: str = JSON, wanted: str = JSON, query: str = "", **headers: str
    ) -> Answer:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request(
            "POST",
            f"/v1/models/m:predict{query}",
            body,
            {"Content-Type": sent, "Accept": wanted, **fields},
        )
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, response.headers, answer

    return ask


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def error_of(answer: Answer) -> str:
    status, headers, body = answer
    assert 400 <= status < 500
    assert headers["Content-Type"] == JSON
    return str(json.loads(body)["error"])


def in_json(array: Any) -> bytes:
    return json.dumps({"instances": array.tolist()}).encode()


BODIES = [
    pytest.param(X.tobytes(), RAW, {"X_Tensor_Shape": "2,3"}, id="raw"),
    pytest.param(npy(X), NPY, {}, id="npy"),
    pytest.param(npy(np.asfortranarray(X.astype(">f4"))), NPY, {}, id="npy, big end, Fortran"),
    pytest.param(in_json(X), JSON, {}, id="json"),
    pytest.param(in_json(X), RAW, {}, id="json, as no shape is given"),
]


@pytest.mark.parametrize(("body", "sent", "headers"), BODIES)
def test_form_of_the_answer_does_not_depend_on_the_bodys(
    ask: Ask, body: bytes, sent: str, headers: dict[str, str]
) -> None:
    status, _, answer = ask(body, sent, JSON, **headers)
    assert (status, json.loads(answer)) == (200, {"predictions": (X * 2).tolist()})
    status, fields, answer = ask(body, sent, RAW, **headers)
    assert (status, answer) == (200, (X * 2).tobytes())
    assert (fields["X-Tensor-Shape"], fields["X-Tensor-Dtype"]) == ("2,3", "float32")
    status, fields, answer = ask(body, sent, NPY, **headers)
    assert (status, fields["Content-Type"]) == (200, NPY)
    np.testing.assert_array_equal(np.load(io.BytesIO(answer)), X * 2)


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        (f"{NPY};q=0.5, {RAW}", RAW),
        (f"{JSON};q=0.5, {NPY}", NPY),
        ("*/*", JSON),
        ("text/html", JSON),
        (f"{NPY};q=0", JSON),
    ],
)
def test_the_client_gets_what_it_likes_best(ask: Ask, wanted: str, given: str) -> None:
    assert ask(npy(X), NPY, wanted)[1]["Content-Type"] == given


def test_large_tensors(ask: Ask) -> None:
    large = np.random.default_rng(1).normal(size=(300_000, 3)).astype("<f4")
    shape = {"X_Tensor_Shape": "300000,3"}
    status, _, answer = ask(large.tobytes(), RAW, RAW, **shape)
    assert status == 200
    assert answer == (large * 2).tobytes()


@pytest.mark.parametrize(
    ("signature", "array", "result"),
    [
        ("bf", np.arange(3).astype(ml_dtypes.bfloat16), [0.0, 2.0, 4.0]),
        ("flags", np.array([True, False]), [False, True]),
        ("serving_default", np.zeros((0, 3), "<f4"), []),
    ],
)
def test_other_signatures_and_dtypes(
    ask: Ask, signature: str, array: Any, result: list[object]
) -> None:
    query = f"?signature_name={signature}"
    shape = {"X_Tensor_Shape": ",".join(map(str, array.shape))}
    status, _, raw = ask(array.tobytes(), RAW, RAW, query, **shape)
    assert status == 200
    assert np.frombuffer(raw, array.dtype).tolist() == result
    assert ask(npy(array), NPY, RAW, query)[2] == raw


def test_a_scalar_has_no_rows(ask: Ask) -> None:
    query, shape = "?signature_name=scalar", {"X_Tensor_Shape": ""}
    status, _, answer = ask(np.int64(-7).tobytes(), RAW, JSON, query, **shape)
    assert (status, json.loads(answer)) == (200, {"outputs": -14})
    assert ask(npy(np.int64(-7)), NPY, RAW, query)[2] == np.int64(-14).tobytes()


@pytest.mark.parametrize(
    ("body", "headers", "parts"),
    [
        (X.tobytes(), {"X_Tensor_Shape": "2,4"}, ["'x'", "32 bytes", "has 24"]),
        (X.tobytes(), {"X_Tensor_Shape": "3,2"}, ["'x'", "[3,2]", "[?,3]"]),
        (X.tobytes(), {"X_Tensor_Shape": "-1,2"}, ["X-Tensor-Shape"]),
        (X.tobytes(), {"X_Tensor_Shape": "9223372036854775807,9"}, ["X-Tensor-Shape"]),
        (X.tobytes(), {"X_Tensor_Shape": "two"}, ["X-Tensor-Shape", "two"]),
        (X.tobytes(), {"X_Tensor_Shape": ",".join("1" * 70)}, ["64"]),
    ],
)
def test_raw_mistakes_are_named(
    ask: Ask, body: bytes, headers: dict[str, str], parts: list[str]
) -> None:
    error = error_of(ask(body, RAW, JSON, **headers))
    assert [part for part in parts if part not in error] == [], error


@pytest.mark.parametrize(
    ("body", "query", "part"),
    [
        (npy(X.astype("f8")), "", "float64"),
        (npy(np.array([b"a", None], object)), "", "'|O'"),
        (b"", "", "no .npy array"),
        (npy(X)[:-1], "", "takes 24 bytes, but 23"),
        (npy(X), "?signature_name=two", "a, b"),
        (npy(X), "?signature_name=texts", "string"),
        (npy(X), "?signature_name=none", '"none" not found'),
    ],
)
def test_npy_mistakes_are_named(ask: Ask, body: bytes, query: str, part: str) -> None:
    assert part in error_of(ask(body, NPY, JSON, query))


@pytest.mark.parametrize(
    ("query", "status", "part"),
    [
        ("", 406, '"s", "t"'),
        ("?outputs=t", 406, "strings"),
        ("?outputs=q", 400, '"q"'),
    ],
)
def test_answers_that_are_no_tensor(ask: Ask, query: str, status: int, part: str) -> None:
    body = json.dumps({"signature_name": "two", "inputs": {"a": [1, 2], "b": [3, 4]}}).encode()
    answer = ask(body, JSON, NPY, query)
    assert answer[0] == status
    assert part in error_of(answer)
    assert ask(body, JSON, RAW, "?outputs=s")[2] == np.array([4, 6], "<f4").tobytes()


def test_unknown_model_is_told_in_json(server: ServerProcess) -> None:
    status, answer, _ = server.ask("/v1/models/n:predict", 1, headers={"Accept": NPY})
    assert status == 400  # the body is looked at first
    assert "error" in answer


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    body=st.one_of(
        st.binary(max_size=200), st.builds(lambda n: npy(X)[:n] + b"x", st.integers(0, 200))
    ),
    shape=st.text(st.sampled_from("0123456789,- x"), max_size=12),
    sent=st.sampled_from([RAW, NPY]),
    wanted=st.sampled_from([JSON, RAW, NPY]),
)
def test_whatever_is_sent_is_answered(
    ask: Ask, body: bytes, shape: str, sent: str, wanted: str
) -> None:
    assert ask(body, sent, wanted, X_Tensor_Shape=shape)[0] < 500
