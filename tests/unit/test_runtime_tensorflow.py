from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import model_builders
from headrace.errors import LoadFailed, RunFailed
from headrace.runtimes import Runtime, RuntimeOptions, open_model
from headrace.tensors import TensorSpec

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def tf1_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_builders.half_plus_three_tf1(tmp_path_factory.mktemp("tf1") / "1")


@pytest.fixture(scope="module")
def tf2_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_builders.module_tf2(tmp_path_factory.mktemp("tf2") / "1")


@pytest.fixture(scope="module")
def tf1(tf1_path: Path) -> Iterator[Runtime]:
    runtime = open_model(tf1_path)
    yield runtime
    runtime.close()


@pytest.fixture(scope="module")
def tf2(tf2_path: Path) -> Iterator[Runtime]:
    runtime = open_model(tf2_path)
    yield runtime
    runtime.close()


def floats(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def texts(*values: bytes) -> np.ndarray[Any, Any]:
    return np.array(values, object)


def copy_with(path: Path, copied: Path, saved: Any) -> Path:
    """A copy of a SavedModel whose ``saved_model.pb`` is the one given."""
    shutil.copytree(path, copied)
    (copied / "saved_model.pb").write_bytes(saved.SerializeToString())
    return copied


def test_tf1_export_answers(tf1: Runtime) -> None:
    outputs = tf1.run("serving_default", {"x": floats(1, 2, 5)})
    np.testing.assert_array_equal(outputs["y"], floats(3.5, 4, 5.5), strict=True)


def test_tf1_signature_is_read(tf1: Runtime) -> None:
    signature = tf1.signatures["serving_default"]
    assert signature.inputs == {"x": TensorSpec("float32", (None,))}
    assert signature.outputs == {"y": TensorSpec("float32", (None,))}
    assert signature.method_name == "tensorflow/serving/predict"


def test_tables_and_assets_are_initialised(tf1: Runtime) -> None:
    outputs = tf1.run("lookup", {"words": texts(b"yes", b"no", b"what")})
    assert outputs["ids"].tolist() == [1, 0, 2]


def test_output_that_is_an_input_passes_through(tf1: Runtime) -> None:
    outputs = tf1.run("echo", {"x": floats(7)})
    assert outputs["same"].tolist() == [7.0]
    assert outputs["y"].tolist() == [6.5]


def test_signature_whose_tensors_are_missing_is_left_out(tf1: Runtime) -> None:
    assert "broken" not in tf1.signatures


def test_internal_signatures_are_not_shown(tf2: Runtime) -> None:
    assert not [name for name in tf2.signatures if name.startswith("__")]


def test_result_is_bit_equal_to_tensorflow_on_the_same_batch(tf2: Runtime, tf2_path: Path) -> None:
    import tensorflow as tf

    rng = np.random.default_rng(3)
    a, b = rng.random((17, 4), np.float32), rng.random((17, 3), np.float32)
    expected = tf.saved_model.load(str(tf2_path)).signatures["affine"](
        a=tf.constant(a), b=tf.constant(b)
    )
    outputs = tf2.run("affine", {"a": a, "b": b})
    assert outputs.keys() == expected.keys()
    for name, value in outputs.items():
        np.testing.assert_array_equal(value, expected[name].numpy(), strict=True)


def test_strings_go_in_and_come_out_as_bytes(tf2: Runtime) -> None:
    outputs = tf2.run("shout", {"text": texts(b"a", b"nul\0", "é".encode(), b"\xff")})
    assert outputs["loud"].tolist() == [b"a!", b"nul\0!", "é!".encode(), b"\xff!"]
    assert outputs["loud"].dtype == object
    assert outputs["size"].tolist() == [1, 4, 2, 1]


def test_unknown_rank_is_declared_and_takes_any(tf2: Runtime) -> None:
    assert tf2.signatures["total_of"].inputs == {"x": TensorSpec("float32", None)}
    for value in (np.float32(2).reshape(()), floats(1, 1), np.ones((1, 2, 1), np.float32)):
        assert tf2.run("total_of", {"x": value})["sum"] == np.float32(2)


def test_scalar_outputs_are_arrays_of_rank_0(tf2: Runtime) -> None:
    outputs = tf2.run("total_of", {"x": floats(1, 2)})
    assert outputs["sum"].shape == ()
    assert outputs["sum"].dtype == np.float32
    assert outputs["name"].shape == ()
    assert outputs["name"].item() == b"n\0"


@pytest.mark.parametrize("builder", ["counter_tf1", "module_tf2"])
def test_state_is_kept_between_runs(tmp_path: Path, builder: str) -> None:
    runtime = open_model(getattr(model_builders, builder)(tmp_path / "1"))
    if builder == "counter_tf1":
        name, inputs, output = "incr_counter_by", {"delta": floats(2)[0:1].reshape(())}, "output"
    else:
        name, inputs, output = "count", {"by": np.array(2, np.int64)}, "total"
    assert [runtime.run(name, inputs)[output].item() for _ in range(3)] == [2, 4, 6]
    runtime.close()


def test_signature_without_inputs_runs(tmp_path: Path) -> None:
    runtime = open_model(model_builders.counter_tf1(tmp_path / "1"))
    assert runtime.signatures["get_counter"].inputs == {}
    assert runtime.run("get_counter", {})["output"] == 0
    runtime.close()


def test_dtypes_without_a_json_form_are_named(tf2: Runtime) -> None:
    outputs = tf2.signatures["narrow"].outputs
    assert outputs["b"] == TensorSpec("bfloat16", (None,))
    assert outputs["c"].dtype == "complex64"
    assert tf2.run("narrow", {"x": floats(1.5)})["b"].dtype.name == "bfloat16"


def test_failing_assertion_blames_the_input(tf2: Runtime) -> None:
    inputs = {"a": np.full((1, 4), -1, np.float32), "b": np.zeros((1, 3), np.float32)}
    with pytest.raises(RunFailed, match="a must not be negative") as caught:
        tf2.run("affine", inputs)
    assert caught.value.kind == "invalid_argument"


def test_inputs_that_do_not_fit_are_an_invalid_argument(tf2: Runtime) -> None:
    inputs = {"a": np.zeros((1, 9), np.float32), "b": np.zeros((1, 3), np.float32)}
    with pytest.raises(RunFailed) as caught:
        tf2.run("affine", inputs)
    assert caught.value.kind == "invalid_argument"


def test_missing_input_is_named(tf2: Runtime) -> None:
    with pytest.raises(RunFailed, match="input 'x' is missing"):
        tf2.run("serving_default", {})


def test_missing_input_takes_the_default_of_the_signature(tf2_path: Path, tmp_path: Path) -> None:
    import tensorflow as tf
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString((tf2_path / "saved_model.pb").read_bytes())
    definition = saved.meta_graphs[0].signature_def["serving_default"]
    definition.defaults["x"].CopyFrom(tf.make_tensor_proto([4.0], tf.float32))
    runtime = open_model(copy_with(tf2_path, tmp_path / "1", saved))
    assert runtime.run("serving_default", {})["y"].tolist() == [5.0]
    assert runtime.run("serving_default", {"x": floats(0)})["y"].tolist() == [3.0]
    runtime.close()


def test_text_form_of_a_saved_model_loads(tf1_path: Path, tmp_path: Path) -> None:
    from google.protobuf import text_format
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString((tf1_path / "saved_model.pb").read_bytes())
    copied = copy_with(tf1_path, tmp_path / "1", saved)
    (copied / "saved_model.pb").unlink()
    (copied / "saved_model.pbtxt").write_text(text_format.MessageToString(saved))
    runtime = open_model(copied)
    assert runtime.run("serving_default", {"x": floats(2)})["y"].tolist() == [4.0]
    runtime.close()


@pytest.mark.parametrize("schedule", ["auto", "caller", "pool"])
def test_schedules_agree_and_survive_long_graphs(tf2_path: Path, schedule: Any) -> None:
    runtime = open_model(tf2_path, options=RuntimeOptions(schedule=schedule))
    results = [runtime.run("deep", {"x": floats(1, 0.5)})["y"].tolist() for _ in range(6)]
    assert len({tuple(result) for result in results}) == 1
    runtime.close()


def test_auto_leaves_the_callers_thread_after_long_runs(
    monkeypatch: pytest.MonkeyPatch, tf2_path: Path
) -> None:
    from headrace.runtimes import tensorflow as module

    monkeypatch.setattr(module, "_LONG_RUN_S", 0.0)
    runtime = open_model(tf2_path)
    call = runtime._calls["serving_default"]  # type: ignore[attr-defined]
    for _ in range(6):
        runtime.run("serving_default", {"x": floats(1)})
    assert list(call._callables) == [-1, 0]
    runtime.close()


def test_runs_from_many_threads_do_not_mix(tf2: Runtime) -> None:
    wrong: list[object] = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).random(seed + 1, np.float32)
        for _ in range(50):
            y = tf2.run("serving_default", {"x": x})["y"]
            if not np.array_equal(y, x * np.float32(0.5) + np.float32(3)):
                wrong.append((seed, y))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_damaged_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"not a proto")
    with pytest.raises(LoadFailed, match=str(tmp_path)):
        open_model(tmp_path)


def test_missing_variables_are_a_load_failure(tf1_path: Path, tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes((tf1_path / "saved_model.pb").read_bytes())
    with pytest.raises(LoadFailed, match="variables"):
        open_model(tmp_path)


def test_unknown_tags_list_those_there_are(tf1_path: Path) -> None:
    with pytest.raises(LoadFailed, match="serve"):
        open_model(tf1_path, options=RuntimeOptions(tags=("train",)))


@pytest.mark.parametrize("device", ["tpu", "cpu:1", "gpu:x", ":0"])
def test_unknown_device_is_refused(tf1_path: Path, device: str) -> None:
    with pytest.raises(LoadFailed, match="expected cpu, gpu or gpu:N"):
        open_model(tf1_path, options=RuntimeOptions(device=device))


def test_device_cpu_runs(tf1_path: Path) -> None:
    runtime = open_model(tf1_path, options=RuntimeOptions(device="cpu"))
    assert runtime.run("serving_default", {"x": floats(2)})["y"].tolist() == [4.0]
    runtime.close()


def test_shape_that_a_signature_leaves_out_is_unknown(tf1_path: Path, tmp_path: Path) -> None:
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString((tf1_path / "saved_model.pb").read_bytes())
    info = saved.meta_graphs[0].signature_def["serving_default"].inputs["x"]
    info.ClearField("tensor_shape")
    info.dtype = 7  # a string, which the graph contradicts
    runtime = open_model(copy_with(tf1_path, tmp_path / "1", saved))
    assert runtime.signatures["serving_default"].inputs == {"x": TensorSpec("float32", None)}
    runtime.close()


def test_sparse_input_is_named_and_refused_by_its_dtype(tf1_path: Path, tmp_path: Path) -> None:
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString((tf1_path / "saved_model.pb").read_bytes())
    info = saved.meta_graphs[0].signature_def["serving_default"].inputs["x"]
    info.coo_sparse.values_tensor_name = "x:0"
    runtime = open_model(copy_with(tf1_path, tmp_path / "1", saved))
    assert runtime.signatures["serving_default"].inputs["x"].dtype == "variant"
    runtime.close()


def test_saved_model_without_signatures_cannot_be_called(tf1_path: Path, tmp_path: Path) -> None:
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString((tf1_path / "saved_model.pb").read_bytes())
    saved.meta_graphs[0].signature_def.clear()
    with pytest.raises(LoadFailed, match="no signatures"):
        open_model(copy_with(tf1_path, tmp_path / "1", saved))
