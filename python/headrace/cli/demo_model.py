"""Makes the half_plus_three SavedModel, y = x / 2 + 3. Run as a process of its own: TensorFlow.

    python -m headrace.cli.demo_model DIR

writes the version directory DIR, which must not exist. The signatures are those of TensorFlow
Serving's examples, in the TF1 form that alone lets a signature say its method.
"""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf

__all__ = ["save_half_plus_three"]

v1 = tf.compat.v1


def save_half_plus_three(directory: str) -> None:
    """Write the SavedModel.

    ``serving_default`` takes ``x``, a vector, so that requests can be batched; the others take
    serialized ``tf.train.Example`` protos with a float feature ``x``.
    """
    with tf.Graph().as_default(), v1.Session() as session:
        slope = v1.get_variable("a", initializer=0.5, use_resource=True)
        offset = v1.get_variable("b", initializer=3.0, use_resource=True)
        x = v1.placeholder(tf.float32, [None], name="x")
        y = tf.add(slope * x, offset, name="y")
        examples = v1.placeholder(tf.string, [None], name="tf_example")
        parsed = tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([1], tf.float32)})
        predicted = tf.add(slope * parsed["x"], offset, name="y_of_example")
        regress = _signature({"inputs": examples}, {"outputs": predicted}, "regress")
        signatures = {
            "serving_default": _signature({"x": x}, {"y": y}, "predict"),
            "tensorflow/serving/regress": regress,
            "regress_x_to_y": regress,
            "classify_x_to_y": _signature({"inputs": examples}, {"scores": predicted}, "classify"),
        }
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(directory)
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()


def _signature(inputs: dict[str, Any], outputs: dict[str, Any], method: str) -> Any:
    describe = v1.saved_model.build_tensor_info
    return v1.saved_model.build_signature_def(
        {name: describe(tensor) for name, tensor in inputs.items()},
        {name: describe(tensor) for name, tensor in outputs.items()},
        f"tensorflow/serving/{method}",
    )


if __name__ == "__main__":
    save_half_plus_three(sys.argv[1])
