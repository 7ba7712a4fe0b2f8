from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from headrace.cli import demo, main
from headrace.config import Address, ServerConfig

pytestmark = pytest.mark.tensorflow

ASK = """
import json, sys
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
feature = tf.train.Feature(float_list=tf.train.FloatList(value=[2.0]))
example = tf.train.Example(features=tf.train.Features(feature={"x": feature})).SerializeToString()
answers = {"serving_default": model.signatures["serving_default"](x=tf.constant([1.0, 2.0, 5.0]))}
for name in set(model.signatures) - {"serving_default"}:
    answers[name] = model.signatures[name](inputs=tf.constant([example]))
print(json.dumps({name: {key: value.numpy().tolist() for key, value in answer.items()}
                  for name, answer in answers.items()}))
"""


# In a process of its own: this one may have imported TensorFlow for other tests.
MAKE = """
import pathlib, sys
from headrace.cli import demo
demo.make_model(pathlib.Path(sys.argv[1]))
sys.exit("this process imported TensorFlow" if "tensorflow" in sys.modules else 0)
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("demo")
    subprocess.run([sys.executable, "-c", MAKE, str(directory)], check=True, timeout=120)
    return directory


def test_model_answers_by_each_of_its_signatures(directory: Path) -> None:
    version = directory / demo.MODEL / "1"
    ran = subprocess.run(
        [sys.executable, "-c", ASK, str(version)], capture_output=True, check=True, timeout=120
    )
    assert json.loads(ran.stdout) == {
        "serving_default": {"y": [3.5, 4.0, 5.5]},
        "tensorflow/serving/regress": {"outputs": [[4.0]]},
        "regress_x_to_y": {"outputs": [[4.0]]},
        "classify_x_to_y": {"scores": [[4.0]]},
    }


def test_making_leaves_nothing_but_the_version(directory: Path) -> None:
    assert [path.name for path in (directory / demo.MODEL).iterdir()] == ["1"]


def test_a_model_that_is_there_is_served_as_it_is(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configs: list[ServerConfig] = []

    def serve(config: ServerConfig, *, on_ready: Callable[[Sequence[str]], None]) -> int:
        configs.append(config)
        on_ready(["http://127.0.0.1:12345"])
        return 0

    monkeypatch.setattr(demo, "serve", serve)
    monkeypatch.setattr(demo, "set_up_logging", lambda level: None)
    monkeypatch.setattr(subprocess, "run", None)  # TensorFlow is not to be run again
    assert main(["demo", f"--directory={directory}", "--listen=127.0.0.1:0"]) == 0
    (config,) = configs
    assert config.http.address == Address("127.0.0.1", 0)
    assert [(m.name, m.base_path) for m in config.models] == [(demo.MODEL, directory / demo.MODEL)]
    assert "http://127.0.0.1:12345/v1/models/half_plus_three:predict" in capsys.readouterr().out


def test_failure_of_tensorflow_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setattr(demo, "set_up_logging", lambda level: None)
    assert main(["demo", f"--directory={tmp_path}"]) == 1
    assert "headrace demo: " in capsys.readouterr().err


def test_missing_tensorflow_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(demo, "set_up_logging", lambda level: None)
    assert main(["demo", f"--directory={tmp_path}"]) == 1
    assert "pip install 'headrace[tensorflow-cpu]'" in capsys.readouterr().err
