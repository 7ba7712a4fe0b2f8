"""Which features a graph parses as floats, over the graphs that exporters write."""

import pytest

tf = pytest.importorskip("tensorflow")

from headrace.runtimes.parse_specs import ParseSpecs  # noqa: E402

pytestmark = pytest.mark.tensorflow

FEATURES = {
    "f": tf.io.FixedLenFeature([1], tf.float32),
    "i": tf.io.FixedLenFeature([1], tf.int64),
    "s": tf.io.FixedLenFeature([1], tf.string),
    "vf": tf.io.VarLenFeature(tf.float32),
    "vi": tf.io.VarLenFeature(tf.int64),
}
RAGGED = {"rf": tf.io.RaggedFeature(tf.float32), "ri": tf.io.RaggedFeature(tf.int64)}


def graph_of(build):
    with tf.Graph().as_default() as graph:
        examples = tf.compat.v1.placeholder(tf.string, [None], name="examples")
        build(examples)
    return graph.as_graph_def()


def floats_of(build):
    return ParseSpecs(graph_of(build)).float_features("examples:0")


def test_dense_sparse_and_ragged_features():
    assert floats_of(lambda e: tf.io.parse_example(e, FEATURES | RAGGED)) == {"f", "vf", "rf"}


def test_operation_of_tensorflow_1():
    def build(examples):
        tf.raw_ops.ParseExample(
            serialized=examples,
            names=[],
            sparse_keys=["vf", "vi"],
            dense_keys=["f", "i"],
            dense_defaults=[tf.constant([], tf.float32), tf.constant([], tf.int64)],
            sparse_types=[tf.float32, tf.int64],
            dense_shapes=[[1], [1]],
        )

    assert floats_of(build) == {"vf", "f"}


def test_behind_an_identity():
    assert floats_of(lambda e: tf.io.parse_example(tf.identity(e), FEATURES)) == {"f", "vf"}


def test_within_functions():
    inner = tf.function(
        lambda e: tf.io.parse_example(e, FEATURES)["f"],
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    outer = tf.function(
        lambda a, e: (inner(e), a),
        input_signature=[tf.TensorSpec([], tf.float32), tf.TensorSpec([None], tf.string)],
    )
    assert floats_of(lambda e: outer(tf.constant(1.0), e)) == {"f", "vf"}


def test_one_example_at_a_time():
    def build(examples):
        tf.map_fn(
            lambda e: tf.io.parse_single_example(e, {"f": FEATURES["f"]})["f"],
            examples,
            fn_output_signature=tf.float32,
        )
        tf.io.parse_single_example(examples[0], {"g": FEATURES["f"]})

    assert floats_of(build) == set()  # cut out of the vector: not followed


def test_feature_parsed_in_two_types_is_left_alone():
    def build(examples):
        tf.io.parse_example(examples, {"x": FEATURES["f"], "y": FEATURES["f"]})
        tf.io.parse_example(examples, {"x": FEATURES["i"]})

    assert floats_of(build) == {"y"}


def test_other_strings_and_unknown_tensors_have_none():
    graph = graph_of(lambda e: tf.io.parse_example(tf.constant([b""]), FEATURES))
    assert ParseSpecs(graph).float_features("examples:0") == set()
    assert ParseSpecs(graph).float_features("nosuch:0") == set()
