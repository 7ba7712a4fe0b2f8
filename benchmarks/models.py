"""The two SavedModels of the benchmarks, and what they must answer.

Building needs TensorFlow, which the benchmarks themselves never import: `build` runs this file in a
child process. Weights and requests come from one seed, so every run measures the same bytes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEED = 784
FEATURES, HIDDEN, CLASSES = 784, 256, 10
SAMPLES = 64
"""Distinct requests a model; before anything is timed, each must get its own answer."""


@dataclass(frozen=True)
class Model:
    """A SavedModel on disk, requests to it, and TensorFlow's own answers to them."""

    name: str
    base_path: Path
    """The directory that holds the numbered versions."""
    instances: list[Any]
    predictions: list[Any]

    @property
    def saved_model(self) -> Path:
        return self.base_path / "1"

    def body(self, index: int) -> bytes:
        """Request `index`, as `json.dumps` writes it: a blank after each comma."""
        return json.dumps({"instances": self.instances[index]}).encode()


def build(directory: Path) -> dict[str, Model]:
    """Makes both models under `directory`, in a child process that imports TensorFlow."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run(
        [sys.executable, __file__, str(directory)], env=environment, check=True, timeout=300
    )
    return {path.parent.name: _read(path) for path in sorted(directory.glob("*/samples.json"))}


def _read(samples: Path) -> Model:
    name, base_path = samples.parent.name, samples.parent
    return Model(name=name, base_path=base_path, **json.loads(samples.read_text()))


def _save(module: Any, directory: Path, name: str, instances: list[Any]) -> None:
    """Saves `module` as version 1 and records what it answers to each of `instances`."""
    import numpy as np
    import tensorflow as tf

    signature = module.predict.get_concrete_function()
    tf.saved_model.save(module, str(directory / name / "1"), {"serving_default": signature})
    # Inputs are rounded once from their decimal text, as a server must round them.
    arrays = [np.asarray(instance, np.float32) for instance in instances]
    predictions = [signature(array)["y"].numpy().tolist() for array in arrays]
    samples = {"instances": instances, "predictions": predictions}
    (directory / name / "samples.json").write_text(json.dumps(samples))


def _build_here(directory: Path) -> None:
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(SEED)

    class HalfPlusThree(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def predict(self, x):
            return {"y": x / 2 + 3}

    class Perceptron(tf.Module):
        def __init__(self):
            super().__init__()
            self.hidden = tf.Variable(self._weights(FEATURES, HIDDEN))
            self.classes = tf.Variable(self._weights(HIDDEN, CLASSES))
            self.hidden_bias = tf.Variable(tf.zeros([HIDDEN]))
            self.classes_bias = tf.Variable(tf.zeros([CLASSES]))

        @staticmethod
        def _weights(rows, columns):
            return (random.standard_normal((rows, columns)) / rows**0.5).astype(np.float32)

        @tf.function(input_signature=[tf.TensorSpec([None, FEATURES], tf.float32, name="x")])
        def predict(self, x):
            hidden = tf.nn.relu(x @ self.hidden + self.hidden_bias)
            return {"y": tf.nn.softmax(hidden @ self.classes + self.classes_bias)}

    triples = [[index + 1.0, index + 2.0, index + 5.0] for index in range(SAMPLES)]
    _save(HalfPlusThree(), directory, "half_plus_three", triples)
    # Grey values as clients scale them: k/255 in float32's shortest text, some 9 KB a request.
    grey = random.integers(0, 256, (SAMPLES, 1, FEATURES)).astype(np.float32) / np.float32(255)
    rows = [[[float(str(value)) for value in row] for row in image] for image in grey]
    _save(Perceptron(), directory, "perceptron", rows)


if __name__ == "__main__":
    _build_here(Path(sys.argv[1]))
