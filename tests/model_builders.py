"""Small models for tests: SavedModels of both generations, and Python models that misbehave."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def half_plus_three_tf1(path: Path) -> Path:
    """y = x / 2 + 3 as TensorFlow 1 exported it: reference variables, a table, an asset."""
    import tensorflow as tf

    v1 = tf.compat.v1
    vocabulary = path.parent / "vocabulary.txt"
    vocabulary.write_text("no\nyes\n")
    with v1.Graph().as_default(), v1.Session() as session:
        a = v1.get_variable("a", initializer=0.5, use_resource=False)
        b = v1.get_variable("b", initializer=3.0, use_resource=False)
        x = v1.placeholder(tf.float32, [None], name="x")
        y = tf.add(tf.multiply(a, x), b, name="y")
        asset = tf.constant(str(vocabulary))
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, asset)
        table = v1.lookup.StaticVocabularyTable(
            v1.lookup.TextFileInitializer(
                asset,
                tf.string,
                -2,
                tf.int64,
                -1,  # the whole line to its number
            ),
            num_oov_buckets=1,
        )
        words = v1.placeholder(tf.string, [None], name="words")
        ids = table.lookup(words)
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        info = v1.saved_model.build_tensor_info
        signature = v1.saved_model.build_signature_def
        predict = "tensorflow/serving/predict"
        builder = v1.saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {
                "serving_default": signature({"x": info(x)}, {"y": info(y)}, predict),
                "lookup": signature({"words": info(words)}, {"ids": info(ids)}, predict),
                "echo": signature({"x": info(x)}, {"same": info(x), "y": info(y)}, predict),
                "broken": signature({"x": info(x)}, {"y": _missing(info(y))}, predict),
            },
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=v1.tables_initializer(),
        )
        builder.save()
    vocabulary.unlink()
    return path


def _missing(info: object) -> object:
    info.name = "not_there:0"  # type: ignore[attr-defined]
    return info


def counter_tf1(path: Path) -> Path:
    """A counter that each run of ``incr_counter_by`` moves, in a reference variable."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        counter = v1.get_variable("counter", initializer=0.0, use_resource=False)
        delta = v1.placeholder(tf.float32, None, name="delta")
        moved = v1.assign_add(counter, delta)
        session.run(v1.global_variables_initializer())
        info = v1.saved_model.build_tensor_info
        signature = v1.saved_model.build_signature_def
        builder = v1.saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {
                "incr_counter_by": signature({"delta": info(delta)}, {"output": info(moved)}, "p"),
                "get_counter": signature({}, {"output": info(counter)}, "p"),
            },
        )
        builder.save()
    return path


def module_tf2(path: Path) -> Path:
    """A TF2 export with a signature per thing that a runtime has to get right."""
    import tensorflow as tf

    class Module(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            rng = tf.random.Generator.from_seed(1)
            self.w = tf.Variable(rng.normal([4, 3]))
            self.total = tf.Variable(0, dtype=tf.int64)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
        def half_plus_three(self, x):  # type: ignore[no-untyped-def]
            return {"y": x * 0.5 + 3.0}

        @tf.function(
            input_signature=[
                tf.TensorSpec([None, 4], tf.float32, "a"),
                tf.TensorSpec([None, 3], tf.float32, "b"),
            ]
        )
        def affine(self, a, b):  # type: ignore[no-untyped-def]
            tf.debugging.assert_non_negative(a, "a must not be negative")
            return {"sum": tf.matmul(a, self.w) + b, "norm": tf.norm(a, axis=1)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
        def shout(self, text):  # type: ignore[no-untyped-def]
            return {"loud": tf.strings.join([text, "!"]), "size": tf.strings.length(text)}

        @tf.function(input_signature=[tf.TensorSpec(None, tf.float32, "x")])
        def total_of(self, x):  # type: ignore[no-untyped-def]
            return {"sum": tf.reduce_sum(x), "name": tf.constant(b"n\0")}

        @tf.function(input_signature=[tf.TensorSpec([], tf.int64, "by")])
        def count(self, by):  # type: ignore[no-untyped-def]
            return {"total": self.total.assign_add(by)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
        def narrow(self, x):  # type: ignore[no-untyped-def]
            return {"b": tf.cast(x, tf.bfloat16), "c": tf.cast(x, tf.complex64)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
        def deep(self, x):  # type: ignore[no-untyped-def]
            for _ in tf.range(2000):
                x = tf.sin(x)
            return {"y": x}

    module = Module()
    names = ("affine", "shout", "total_of", "count", "narrow", "deep")
    signatures = {name: getattr(module, name) for name in names}
    tf.saved_model.save(
        module, str(path), {"serving_default": module.half_plus_three, **signatures}
    )
    return path


def python_model(path: Path, code: str) -> Path:
    """A Python model from its source."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "model.py").write_text(textwrap.dedent(code))
    return path


def half_plus_two_examples(path: Path) -> Path:
    """y = x / 2 + 2 for x of any rank, and over serialized Examples for classify and regress."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, None, name="x")
        examples = v1.placeholder(tf.string, [None], name="examples")
        features = {"x": tf.io.FixedLenFeature([1], tf.float32)}
        parsed = v1.io.parse_example(examples, features)["x"]
        info = v1.saved_model.build_tensor_info
        y, scores = info(x / 2 + 2), info(parsed / 2 + 2)
        signature = v1.saved_model.build_signature_def
        serving = "tensorflow/serving/"
        builder = v1.saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {
                "serving_default": signature({"x": info(x)}, {"y": y}, serving + "predict"),
                "classify_x": signature(
                    {"inputs": info(examples)}, {"scores": scores}, serving + "classify"
                ),
                "regress_x": signature(
                    {"inputs": info(examples)}, {"outputs": scores}, serving + "regress"
                ),
            },
        )
        builder.save()
    return path
