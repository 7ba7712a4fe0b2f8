"""Models made by others, served whole: the answers are TensorFlow's own, bit for bit.

Two come out of wheels on PyPI (`pip download --no-deps`); the ones that TensorFlow Serving is
tested with are served where HEADRACE_TFS_MODELS names the directory that holds them.
"""

import json
import os
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import pytest

from headrace import Server

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

SOURCES = {
    "guesslang": "for (int i = 0; i < n; ++i) { std::cout << i; }",
    "python": "import os\n\n\ndef main():\n    print(os.getcwd())\n",
    "unicode": "# naïve — ünïcode\nlet x = «1»;",
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Unpacks a wheel's files and returns the directory."""

    def unpack(requirement):
        directory = tmp_path_factory.mktemp("wheel")
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", requirement]
        done = subprocess.run(command, cwd=directory, capture_output=True, timeout=300, check=False)
        if done.returncode:
            pytest.skip(f"{requirement} cannot be downloaded: {done.stderr.decode()[-200:]}")
        (wheel,) = directory.glob("*.whl")
        zipfile.ZipFile(wheel).extractall(directory)
        return directory

    return unpack


def test_guesslang_classifies_source_text_as_tensorflow_does(wheels):
    path = wheels("guesslang==2.2.1") / "guesslang/data/model"
    texts = list(SOURCES.values())
    stacked = np.array([text.encode() for text in texts], object)
    expected = _run(path, "predict", stacked)
    assert len(expected) == 6
    with Server(model=path, name="guesslang") as server:
        rows = _predict(server, {"signature_name": "predict", "instances": texts})["predictions"]
        columns = _predict(server, {"signature_name": "predict", "inputs": texts})["outputs"]
    for name, array in expected.items():
        _assert_same([row[name] for row in rows], array)
        _assert_same(columns[name], array)
    assert expected["probabilities"].shape == (3, 54)


def test_basic_pitch_answers_as_tensorflow_does(wheels):
    path = wheels("basic-pitch==0.4.0") / "basic_pitch/saved_models/icassp_2022/nmp"
    sound = np.random.default_rng(1).normal(0, 0.1, (2, 43844, 1)).astype(np.float32)
    expected = _run(path, "serving_default", sound)
    with Server(model=path, name="pitch") as server:
        rows = _predict(server, {"instances": sound.tolist()})["predictions"]
        columns = _predict(server, {"inputs": sound.tolist()})["outputs"]
        single = _predict(server, {"instances": sound[:1].tolist()})["predictions"]
    for name, array in expected.items():
        _assert_same([row[name] for row in rows], array)
        _assert_same(columns[name], array)
        np.testing.assert_allclose(single[0][name], array[0], atol=1e-5)
    assert sum(array[0].size for array in expected.values()) == 75_680


@pytest.fixture(scope="module")
def tfs_models():
    named = os.environ.get("HEADRACE_TFS_MODELS")
    if not named:
        pytest.skip("HEADRACE_TFS_MODELS names no directory")
    return Path(named)


@pytest.mark.parametrize(
    ("model", "values"),
    [
        ("saved_model_half_plus_three", [1.0, 2.5, -7.25]),
        ("saved_model_half_plus_two_tf2_cpu", [1.0, 2.5, -7.25]),
        ("saved_model_half_plus_two_2_versions", [1.0, 2.5, -7.25]),
        ("matrix_half_plus_two", [[[1.0, 2.0, 3.0]] * 3, [[0.5, 1.5, -1.0]] * 3]),
    ],
)
def test_tensorflow_servings_own_models(tfs_models, model, values):
    newest = max((tfs_models / model).iterdir(), key=lambda p: int(p.name))
    with Server(model=tfs_models / model, name="m") as server:
        rows = _predict(server, {"instances": values})["predictions"]
        columns = _predict(server, {"inputs": values})["outputs"]
    (array,) = _run(newest, "serving_default", np.array(values, np.float32)).values()
    _assert_same(rows, array)
    _assert_same(columns, array)


def test_tensorflow_servings_counter_counts(tfs_models):
    with Server(model=tfs_models / "saved_model_counter", name="counter") as server:
        answers = [
            _predict(server, {"signature_name": "incr_counter_by", "inputs": {"delta": delta}})
            for delta in (1.0, 2.5, 4.0)
        ]
    assert [answer["outputs"] for answer in answers] == [1.0, 3.5, 7.5]


def _predict(server, body):
    url = f"{server.url}/v1/models/{_name(server)}:predict"
    request = urllib.request.Request(url, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


def _name(server):
    return server.names[0]


def _run(path, signature, value):
    """What TensorFlow itself gives for the only input, in one run of the whole stack."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        graph = v1.saved_model.load(session, ["serve"], str(path))
        info = graph.signature_def[signature]
        (fed,) = info.inputs.values()
        fetched = {name: out.name for name, out in info.outputs.items()}
        declared = session.graph.get_tensor_by_name(fed.name).shape
        if declared.is_compatible_with(value.shape):
            return session.run(fetched, {fed.name: value})
        # `Session.run` holds the feed against the placeholder's static shape, servers do not:
        # these models are asked for [1.0, 2.0] where they declare a single value.
        feeds = [np.full([extent or 1 for extent in declared], item) for item in value]
        singles = [session.run(fetched, {fed.name: feed}) for feed in feeds]
        return {name: np.ravel([single[name] for single in singles]) for name in fetched}


def _assert_same(answer, array):
    if array.dtype == object:
        assert np.array(answer, object).tolist() == np.vectorize(bytes.decode)(array).tolist()
    else:
        np.testing.assert_array_equal(np.array(answer, array.dtype), array)
