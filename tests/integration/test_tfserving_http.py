"""TensorFlow Serving's HTTP behaviour, case by case, against a live server on loopback."""

import base64
import http.client
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import model_builders
from headrace.server.front_end import FrontEndOptions
from headrace.server.inference import InferenceOptions
from headrace.server.models import ModelSource
from headrace.server.run import Server
from headrace.server.tfserving_api import TensorFlowServingOptions

pytestmark = pytest.mark.tensorflow

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "vectors/tfserving-http.jsonl")
    .read_text()
    .splitlines()
]

ODD_MODELS = {
    "scalar_out": """
        class Model:
            signatures = {"serving_default": Signature(
                {"x": TensorSpec("float32", [None])}, {"z": TensorSpec("float32", [])})}
            def predict(self, inputs, signature):
                return {"z": inputs["x"].sum()}
    """,
    "two_out": """
        class Model:
            signatures = {"serving_default": Signature(
                {"x": TensorSpec("float32", [None])},
                {"y": TensorSpec("float32", [None]), "total": TensorSpec("float32", [1])})}
            def predict(self, inputs, signature):
                return {"y": inputs["x"], "total": inputs["x"].sum(keepdims=True)}
    """,
    "half16": """
        class Model:
            signatures = {"serving_default": Signature(
                {"x": TensorSpec("float16", [None])}, {"y": TensorSpec("float16", [None])})}
            def predict(self, inputs, signature):
                return {"y": inputs["x"] / 2}
    """,
    "slow": """
        import time
        class Model:
            signatures = {"serving_default": Signature(
                {"x": TensorSpec("float32", [None])}, {"y": TensorSpec("float32", [None])})}
            def predict(self, inputs, signature):
                time.sleep(1)
                return {"y": inputs["x"]}
    """,
}
HEADER = "from headrace import Signature, TensorSpec\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    base = tmp_path_factory.mktemp("models")
    (base / "half").mkdir()
    model_builders.half_plus_two_examples(base / "half" / "00000123")
    for name, code in ODD_MODELS.items():
        model_builders.python_model(base / name / "1", HEADER + _dedent(code))
    return base


@pytest.fixture(scope="module")
def servers(models):
    started = {}

    def server(cors=False, fixture="half"):
        slow, metrics = fixture == "slow", fixture == "half+prometheus"
        if (cors, slow, metrics) not in started:
            names = (
                ["slow"]
                if slow
                else ["half"]
                if metrics
                else ["half", "scalar_out", "two_out", "half16"]
            )
            sources = [
                ModelSource(
                    name=name,
                    base_path=models / name,
                    labels={"stable": 123} if name == "half" else {},
                    poll_s=None,
                    max_retries=0,
                )
                for name in names
            ]
            options = FrontEndOptions(
                models=sources,
                listen=[("127.0.0.1", 0)],
                inference=InferenceOptions(timeout_s=0.3 if slow else 30),
                tfserving=TensorFlowServingOptions(cors=cors),
                tfserving_metrics_path="/monitoring/prometheus/metrics" if metrics else None,
            )
            started[cors, slow, metrics] = Server(options=options)
            started[cors, slow, metrics].start()
        return started[cors, slow, metrics]

    yield server
    for each in started.values():
        each.close()


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["id"])
def test_answer_is_tensorflow_servings(case, servers):
    server = servers(case.get("cors", False), case["fixture"])
    status, headers, body = _ask(server.url, case)
    text = body.decode()
    assert status == case["status"], text
    compact = _compact if status == 200 and case["path"].endswith(":predict") else str
    if "exact" in case:
        assert compact(text) == compact(case["exact"])
    if "contains" in case:
        assert compact(case["contains"]) in compact(text)
    if case.get("empty"):
        assert body == b""
    elif headers["content-type"] == "application/json" and case["method"] != "HEAD":
        json.loads(text)
    for name, value in case.get("answer_headers", {}).items():
        assert headers[name.lower()] == value
    for name in case.get("absent", []):
        assert name.lower() not in headers


def test_metadata_describes_the_signatures(servers):
    case = {"method": "GET", "path": "/v1/models/half/metadata"}
    status, _, body = _ask(servers().url, case)
    assert status == 200
    answer = json.loads(body)
    assert answer["model_spec"] == {"name": "half", "signature_name": "", "version": "123"}
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert signatures["serving_default"]["inputs"]["x"] == {
        "dtype": "DT_FLOAT",
        "tensor_shape": {"dim": [], "unknown_rank": True},
        "name": "x:0",
    }
    assert signatures["serving_default"]["defaults"] == {}
    assert signatures["regress_x"]["inputs"]["inputs"]["dtype"] == "DT_STRING"
    assert signatures["regress_x"]["method_name"] == "tensorflow/serving/regress"


@pytest.mark.parametrize(
    "case",
    [c for c in VECTORS if c["path"].endswith(":predict") and c["status"] == 200 and "exact" in c],
    ids=lambda case: case["id"],
)
def test_pretty_answer_is_tensorflow_servings_byte_for_byte(case, servers):
    server = servers(case.get("cors", False), case["fixture"])
    headers = case.get("headers", {}) | {"X-Headrace-Pretty": "true"}
    status, _, body = _ask(server.url, case | {"headers": headers})
    assert status == 200
    assert body.decode() == case["exact"]


def _ask(url, case):
    body = case.get("request", "").encode()
    if "request_b64" in case:
        body = base64.b64decode(case["request_b64"])
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request(case["method"], case["path"], body, case.get("headers", {}))
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return response.status, headers, response.read()
    finally:
        connection.close()


def _compact(text):
    return re.sub(r"\s+", "", text)


def _dedent(code):
    import textwrap

    return textwrap.dedent(code)
