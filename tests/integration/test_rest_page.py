"""What TensorFlow Serving's page on its REST API shows, asked as it stands there.

Where the page itself is wrong (a bracket too many, ``Nan``, ``example``, ``result``), what the
server it describes really does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from headrace.cli import demo
from model_builders import python_model
from server_process import served

pytestmark = pytest.mark.tensorflow

MODEL = """
    import numpy as np

    class Model:
        signatures = {{"serving_default": {{"inputs": {inputs}, "outputs": {outputs}}}}}

        def predict(self, inputs):
            return {result}
"""
SAME: dict[str, str] = {
    "words": '{"text": ("string", (None,))}',
    "pairs": '{"x": ("float32", (None, 1, 2))}',
    "sensors": (
        '{"tag": ("string", (None,)), "signal": ("int32", (None, 5)),'
        ' "sensor": ("int32", (None, 2, 2))}'
    ),
}
# Classifies by what it finds in the serialized Examples.
CAPTIONS = """
    import numpy as np

    class Model:
        signatures = {
            "classify_objects": {
                "inputs": {"inputs": ("string", (None,))},
                "outputs": {
                    "classes": ("string", (None, None)),
                    "scores": ("float32", (None, None)),
                },
            },
        }

        def predict(self, inputs, signature):
            known = [b"image bytes", b"awesome image bytes", b"seaside", b"mountains"]
            found = [[float(word in one) for word in known] for one in inputs["inputs"]]
            return {
                "classes": np.array([known] * len(found), object),
                "scores": np.array(found, "f4"),
            }
"""
# Answers with the floats of the Example's only feature, which end its bytes.
READINGS = """
    import numpy as np

    class Model:
        signatures = {
            "serving_default": {
                "inputs": {"inputs": ("string", (None,))},
                "outputs": {"scores": ("float32", (None, 4))},
            },
        }

        def predict(self, inputs):
            found = [np.frombuffer(one[-16:], "<f4") for one in inputs["inputs"]]
            return {"scores": np.array(found)}
"""
MAKE = (
    "import pathlib, sys; from headrace.cli import demo; demo.make_model(pathlib.Path(sys.argv[1]))"
)

Ask = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("page")
    for name, specs in SAME.items():
        code = MODEL.format(inputs=specs, outputs=specs, result="dict(inputs)")
        python_model(folder / name / "1", code)
    python_model(folder / "captions" / "1", CAPTIONS)
    python_model(folder / "readings" / "1", READINGS)
    subprocess.run([sys.executable, "-c", MAKE, str(folder)], check=True, timeout=120)
    names = (*SAME, "captions", "readings", demo.MODEL)
    listed = folder / "models.config"
    configs = (f'config {{ name: "{name}" base_path: "{folder / name}" }}' for name in names)
    listed.write_text(f"model_config_list {{ {' '.join(configs)} }}")
    with served(f"--model_config_file={listed}") as server:

        def ask(path: str, body: str | None = None) -> tuple[int, Any]:
            data = None if body is None else body.encode()
            request = urllib.request.Request(f"{server.url}/v1/models/{path}", data)
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                return error.code, json.load(error)

        yield ask


def test_predict_regress_and_a_wrong_name(ask: Ask) -> None:
    assert ask("half_plus_three:predict", '{"instances": [1.0,2.0,5.0]}') == (
        200,
        {"predictions": [3.5, 4.0, 5.5]},
    )
    assert ask(
        "half_plus_three:regress",
        '{"signature_name": "tensorflow/serving/regress", "examples": [{"x": 1.0}, {"x": 2.0}]}',
    ) == (200, {"results": [3.5, 4.0]})
    status, answer = ask("half:predict", '{"instances": [1.0,5.0]}')
    assert status == 404
    assert answer["error"].startswith("Servable not found for request: Latest(half)")


def test_rows_of_one_input(ask: Ask) -> None:
    assert ask("words:predict", '{"instances": [ "foo", "bar", "baz" ]}') == (
        200,
        {"predictions": ["foo", "bar", "baz"]},
    )
    assert ask("pairs:predict", '{"instances": [ [[1, 2]], [[3, 4]] ]}') == (
        200,
        {"predictions": [[[1.0, 2.0]], [[3.0, 4.0]]]},
    )


FOO = {"tag": "foo", "signal": [1, 2, 3, 4, 5], "sensor": [[1, 2], [3, 4]]}
BAR = {"tag": "bar", "signal": [3, 4, 1, 2, 5], "sensor": [[4, 5], [6, 8]]}


def test_rows_and_columns_of_several_inputs(ask: Ask) -> None:
    assert ask("sensors:predict", json.dumps({"instances": [FOO, BAR]})) == (
        200,
        {"predictions": [FOO, BAR]},
    )
    columns = {key: [FOO[key], BAR[key]] for key in FOO}
    assert ask("sensors:predict", json.dumps({"inputs": columns})) == (200, {"outputs": columns})


def test_bracket_too_many_on_the_page_is_a_syntax_error(ask: Ask) -> None:
    body = json.dumps({"instances": [BAR]}).replace("2, 5]", "2, 5]]")
    status, answer = ask("sensors:predict", body)
    assert status == 400
    assert answer["error"].startswith("JSON Parse error")


def test_images_in_base64(ask: Ask) -> None:
    body = """{
        "signature_name": "classify_objects",
        "examples": [
            {"image": {"b64": "aW1hZ2UgYnl0ZXM="}, "caption": "seaside"},
            {"image": {"b64": "YXdlc29tZSBpbWFnZSBieXRlcw=="}, "caption": "mountains"}
        ]
    }"""
    status, answer = ask("captions:classify", body)
    assert status == 200
    assert [[name for name, score in scores if score] for scores in answer["results"]] == [
        ["image bytes", "seaside"],
        ["image bytes", "awesome image bytes", "mountains"],
    ]


def test_numbers_that_are_not_finite(ask: Ask) -> None:
    body = '{"examples": [{"sensor_readings": [1.0, -3.14, NaN, Infinity]}]}'
    status, answer = ask("readings:classify", body)
    assert status == 200
    ((one, two, nan, infinity),) = answer["results"]
    assert (one, two, infinity) == (["", 1.0], ["", -3.14], ["", float("inf")])
    assert nan[1] != nan[1]
    assert ask("readings:classify", body.replace("NaN", "Nan"))[0] == 400
    assert ask("readings:classify", body.replace("examples", "example"))[0] == 400


def test_status_and_metadata(ask: Ask) -> None:
    available = {
        "version": "1",
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    assert ask("half_plus_three") == (200, {"model_version_status": [available]})
    assert ask("half_plus_three/versions/1") == ask("half_plus_three")
    status, answer = ask("half_plus_three/metadata")
    assert status == 200
    signature = answer["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["inputs"]["x"]["dtype"] == "DT_FLOAT"
    assert signature["method_name"] == "tensorflow/serving/predict"
