"""How every peer runs the model: the SavedModel's own concrete function, looked up once.

TensorFlow keeps its default thread pools.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf


def load(path: str) -> Callable[[np.ndarray], np.ndarray]:
    """The signature `serving_default` as a function from its one input to its one output."""
    model = tf.saved_model.load(path)
    signature = model.signatures["serving_default"]
    (name,) = signature.structured_input_signature[1]
    (output,) = signature.structured_outputs

    def run(batch: np.ndarray) -> np.ndarray:
        return signature(**{name: tf.constant(batch)})[output].numpy()

    run.model = model  # the signature holds its variables only weakly
    return run


def run_batched(
    run: Callable[[np.ndarray], np.ndarray], requests: Sequence[Any]
) -> list[np.ndarray]:
    """One call for many requests: their rows joined, and the result split back."""
    arrays = [np.asarray(request, np.float32) for request in requests]
    if len(arrays) == 1:
        return [run(arrays[0])]
    ends = np.cumsum([len(array) for array in arrays[:-1]])
    return np.split(run(np.concatenate(arrays)), ends)
