"""Classify and regress against a live server on loopback, over real models."""

import http.client
import json
import textwrap
from urllib.parse import urlsplit

import pytest

import model_builders
from headrace.server.front_end import FrontEndOptions
from headrace.server.inference import InferenceOptions
from headrace.server.models import ModelSource
from headrace.server.run import Server

pytestmark = pytest.mark.tensorflow

LABELS = """
    import numpy as np
    from headrace import Signature, TensorSpec

    INPUTS = {"inputs": TensorSpec("string", [None])}
    CLASSES = TensorSpec("string", [None, None])
    SCORES = TensorSpec("float32", [None, None])

    class Model:
        signatures = {
            "serving_default": Signature(INPUTS, {"classes": CLASSES, "scores": SCORES}),
            "labels": Signature(INPUTS, {"classes": CLASSES}),
            "odd": Signature(INPUTS, {"scores": TensorSpec("float32", None)}),
        }
        def predict(self, inputs, signature):
            n = len(inputs["inputs"])
            classes = np.array([[b"cat", b"dog"]] * n, dtype=object)
            scores = np.array([[0.25, 0.75]] * n, np.float32)
            if signature == "odd":
                return {"scores": scores[:, 0]}
            return {"classes": classes} if signature == "labels" else {
                "classes": classes, "scores": scores}
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    base = tmp_path_factory.mktemp("models")
    (base / "half").mkdir()
    model_builders.half_plus_two_examples(base / "half" / "00000123")
    model_builders.python_model(base / "labels" / "1", textwrap.dedent(LABELS))
    options = FrontEndOptions(
        models=[
            ModelSource(name=name, base_path=base / name, poll_s=None, max_retries=0)
            for name in ("half", "labels")
        ],
        listen=[("127.0.0.1", 0)],
        inference=InferenceOptions(large_body_bytes=4096),
    )
    server = Server(options=options)
    server.start()
    yield server.url
    server.close()


def ask(url, path, body):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", f"/v1/models/{path}", text)
        response = connection.getresponse()
        answer = response.read()
        assert response.getheader("content-type") == "application/json"
        return response.status, json.loads(answer)
    finally:
        connection.close()


def test_classify(url):
    body = {"signature_name": "classify_x", "examples": [{"x": 6.0}, {"x": [1.0]}]}
    assert ask(url, "half:classify", body) == (200, {"results": [[["", 5.0]], [["", 2.5]]]})


def test_regress(url):
    body = {"signature_name": "regress_x", "examples": [{"x": 6.0}, {"x": [1.0]}]}
    assert ask(url, "half:regress", body) == (200, {"results": [5.0, 2.5]})
    assert ask(url, "half/versions/123:regress", body) == (200, {"results": [5.0, 2.5]})


def test_context_is_every_examples(url):
    body = {"signature_name": "regress_x", "context": {"x": 6.0}, "examples": [{}, {"x": 1.0}]}
    assert ask(url, "half:regress", body) == (200, {"results": [5.0, 2.5]})


def test_whole_numbers_are_floats_where_the_graph_parses_floats(url):
    body = {"signature_name": "regress_x", "context": {"x": 2}, "examples": [{"x": 6}, {}]}
    assert ask(url, "half:regress", body) == (200, {"results": [5.0, 3.0]})


def test_large_body_and_answer(url):
    count = 50_000
    body = {"signature_name": "regress_x", "examples": [{"x": float(i)} for i in range(count)]}
    status, answer = ask(url, "half:regress", body)
    assert (status, answer["results"]) == (200, [i / 2 + 2 for i in range(count)])


def test_labels_and_scores(url):
    body = {"examples": [{"pixels": [1, 2, 3]}]}
    pairs = [["cat", 0.25], ["dog", 0.75]]
    assert ask(url, "labels:classify", body) == (200, {"results": [pairs]})
    body["signature_name"] = "labels"
    assert ask(url, "labels:classify", body) == (200, {"results": [[["cat", 0.0], ["dog", 0.0]]]})


def test_pretty_answer_has_tensorflow_servings_layout(url):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    body = {"signature_name": "classify_x", "examples": [{"x": 6.0}, {"x": 1.0}]}
    connection.request("POST", "/v1/models/half:classify?pretty=true", json.dumps(body))
    answer = connection.getresponse().read()
    connection.close()
    assert answer == b'{\n    "results": [[["", 5.0]], [["", 2.5]]\n    ]\n}'


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("half:regress", {}, 400, "When method is classify, key 'examples' is expected"),
        ("nope:regress", {}, 400, "When method is classify, key 'examples' is expected"),
        ("nope:regress", {"examples": [{"x": [[]]}]}, 400, "unexpected JSON type: Array"),
        ("nope:regress", {"examples": [{"x": 1}]}, 404, "Latest(nope)"),
        ("half/labels/l:classify", {"examples": [1]}, 400, "Example must be JSON object"),
        ("half/labels/l:classify", {"examples": [{}]}, 400, "version label: l"),
        ("half:classify", b'{"examples": [{"x": 1}', 400, "JSON Parse error: "),
        ("half:classify", {"signature_name": "q", "examples": [{}]}, 400, "with the name: q"),
        ("half:regress", {"examples": [{}]}, 400, "No regression inputs found in SignatureDef: "),
        (
            "half:regress",
            {"signature_name": "regress_x", "examples": [{"x": "a"}]},
            400,
            "Data types don't match",
        ),
        (
            "labels:classify",
            {"signature_name": "odd", "examples": [{}]},
            400,
            "Expected Tensor shape: [batch_size num_classes] but got [1]",
        ),
    ],
)
def test_mistakes_are_told_in_tensorflow_servings_order_and_words(
    url, path, body, status, message
):
    answered, answer = ask(url, path, body)
    assert (answered, message in answer["error"]) == (status, True), answer


def test_failure_of_one_request_is_not_its_neighbours(url):
    good = {"signature_name": "regress_x", "examples": [{"x": 6.0}]}
    bad = {"signature_name": "regress_x", "examples": [{"y": 6.0}]}
    connections = [http.client.HTTPConnection(urlsplit(url).netloc, timeout=60) for _ in range(6)]
    for i, connection in enumerate(connections):
        body = bad if i == 2 else good
        connection.request("POST", "/v1/models/half:regress", json.dumps(body))
    statuses = []
    for connection in connections:
        response = connection.getresponse()
        response.read()
        statuses.append(response.status)
        connection.close()
    assert statuses == [200, 200, 400, 200, 200, 200]
