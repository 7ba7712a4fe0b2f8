from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from headrace.errors import LoadFailed, RunFailed
from headrace.runtimes import RuntimeOptions, open_model
from headrace.tensors import Signature, TensorSpec
from model_builders import python_model

DOUBLE = """
    class Model:
        signatures = {
            "serving_default": {
                "inputs": {"x": ("float32", (None,))},
                "outputs": {"y": ("float32", (None,))},
            }
        }

        def predict(self, inputs):
            return {"y": inputs["x"] * 2}
"""


def run(path: Path, code: str, signature: str = "serving_default", **inputs: object) -> object:
    runtime = open_model(python_model(path, code))
    return runtime.run(signature, {name: np.array(value) for name, value in inputs.items()})


def with_predict(body: str, outputs: str = '{"y": "float32"}') -> str:
    return f"""
    import numpy as np
    class Model:
        signatures = {{"serving_default": {{"inputs": {{"x": "float32"}}, "outputs": {outputs}}}}}
        def predict(self, inputs):
            {body}
    """


@pytest.fixture(autouse=True)
def _import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_predict_takes_and_returns_arrays(tmp_path: Path) -> None:
    outputs = run(tmp_path, DOUBLE, x=np.array([1, 2], np.float32))
    np.testing.assert_array_equal(outputs["y"], np.array([2, 4], np.float32), strict=True)  # type: ignore[index]


def test_signatures_are_read(tmp_path: Path) -> None:
    runtime = open_model(python_model(tmp_path, DOUBLE))
    assert runtime.signatures == {
        "serving_default": Signature(
            {"x": TensorSpec("float32", (None,))}, {"y": TensorSpec("float32", (None,))}
        )
    }


def test_only_class_with_predict_is_found_whatever_its_name(tmp_path: Path) -> None:
    code = DOUBLE.replace("class Model", "class Doubler") + "\n    class Other: pass\n"
    assert open_model(python_model(tmp_path, code)).signatures


def test_class_called_model_wins(tmp_path: Path) -> None:
    code = DOUBLE + "\n    class Helper:\n        def predict(self, inputs): ...\n"
    assert run(tmp_path, code, x=np.float32(1))["y"] == 2  # type: ignore[index]


def test_imported_class_is_not_the_model(tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text("class Base:\n    def predict(self, inputs): ...\n")
    code = "    from base import Base\n" + DOUBLE.replace("class Model:", "class Mine(Base):")
    assert run(tmp_path, code, x=np.float32(1))["y"] == 2  # type: ignore[index]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("x = 1", "found none"),
        ("class A:\n  def predict(s): ...\nclass B:\n  def predict(s): ...", "found A, B"),
    ],
)
def test_no_or_several_classes_say_what_was_found(tmp_path: Path, code: str, found: str) -> None:
    with pytest.raises(LoadFailed, match=f"expected a class `Model`.*{found}"):
        open_model(python_model(tmp_path, code))


def test_load_gets_the_directory_and_may_set_signatures(tmp_path: Path) -> None:
    code = """
    import numpy as np
    from headrace import Signature, TensorSpec
    class Model:
        def load(self, path):
            self.factor = float((path / "factor.txt").read_text())
            spec = TensorSpec("float32")
            self.signatures = {"f": Signature({"x": spec}, {"y": spec})}
        def predict(self, inputs, signature):
            return {"y": inputs["x"] * np.float32(self.factor), "s": [signature]}
    """
    (tmp_path / "factor.txt").write_text("3")
    outputs = run(tmp_path, code, "f", x=np.array([2], np.float32))
    assert outputs["y"].tolist() == [6.0]  # type: ignore[index]
    assert outputs["s"].tolist() == ["f"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise RuntimeError('no weights')", "model.py: RuntimeError: no weights"),
        ("import not_there_at_all", "ModuleNotFoundError"),
        ("def f(:", "SyntaxError"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("class Model:\n  def predict(self, inputs): ...", "has no `signatures`"),
        ("class Model:\n  signatures = {'a': 1}\n  def predict(self, i): ...", "signature 'a'"),
        (
            "class Model:\n  signatures = {'a': {'inputs': {'x': 'what'}, 'outputs': {}}}\n"
            "  def predict(self, i): ...",
            "unknown dtype 'what'",
        ),
    ],
)
def test_load_failure_gives_the_reason(tmp_path: Path, code: str, reason: str) -> None:
    before = list(sys.path)
    with pytest.raises(LoadFailed, match=reason):
        open_model(python_model(tmp_path, code))
    assert sys.path == before


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match="no such file"):
        open_model(tmp_path, runtime="python")


def test_exception_becomes_an_internal_error_with_its_text(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"^ValueError: bad row$") as caught:
        run(tmp_path, with_predict("raise ValueError('bad row')"), x=1.0)
    assert caught.value.kind == "internal"


def test_sys_exit_is_an_error_of_the_run(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="SystemExit"):
        run(tmp_path, with_predict("raise SystemExit"), x=1.0)


def test_model_may_blame_the_input(tmp_path: Path) -> None:
    body = """from headrace.errors import RunFailed
            raise RunFailed("x is odd", kind="invalid_argument")"""
    with pytest.raises(RunFailed, match="x is odd") as caught:
        run(tmp_path, with_predict(body), x=1.0)
    assert caught.value.kind == "invalid_argument"


def test_lists_take_the_declared_dtype(tmp_path: Path) -> None:
    code = with_predict(
        "return {'y': [1, 2], 's': ['é', b'x'], 'b': [1.5]}",
        '{"y": "float32", "s": "string", "b": "bfloat16"}',
    )
    outputs = run(tmp_path, code, x=1.0)
    assert outputs["y"].dtype == np.float32  # type: ignore[index]
    assert outputs["s"].tolist() == ["é".encode(), b"x"]  # type: ignore[index]
    assert outputs["b"].dtype.name == "bfloat16"  # type: ignore[index]


def test_text_array_of_numpy_becomes_bytes(tmp_path: Path) -> None:
    code = with_predict("return {'y': np.array([['a', 'b']])}", '{"y": "string"}')
    assert run(tmp_path, code, x=1.0)["y"].tolist() == [[b"a", b"b"]]  # type: ignore[index]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("[1, 2]", "predict returned list"),
        ("None", "predict returned NoneType"),
        ("{'y': [[1], [2, 3]]}", "output 'y' cannot become an array"),
        ("{'y': ['a']}", "output 'y' cannot become an array"),
    ],
)
def test_wrong_results_say_what_was_returned(tmp_path: Path, value: str, reason: str) -> None:
    with pytest.raises(RunFailed, match=reason):
        run(tmp_path, with_predict(f"return {value}"), x=1.0)


def test_text_output_refuses_numbers(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="expected str or bytes, found int"):
        run(tmp_path, with_predict("return {'y': [1]}", '{"y": "string"}'), x=1.0)


def test_models_in_one_interpreter_keep_their_own_neighbours(tmp_path: Path) -> None:
    code = "import neighbour\n" + "\n".join(
        line[4:] for line in DOUBLE.replace("* 2", "* neighbour.FACTOR").splitlines()
    )
    shared = RuntimeOptions(shared_interpreter=True)
    runtimes = []
    for factor in (2, 3):
        path = python_model(tmp_path / str(factor), code)
        (path / "neighbour.py").write_text(f"FACTOR = {factor}")
        runtimes.append(open_model(path, options=shared))
    one = {"x": np.ones(1, np.float32)}
    assert [r.run("serving_default", one)["y"].item() for r in runtimes] == [2, 3]
    assert not [entry for entry in sys.path if entry.startswith(str(tmp_path))]


def test_close_calls_the_models_own(tmp_path: Path) -> None:
    code = DOUBLE + "\n        def close(self): self.signatures['closed'] = True\n"
    runtime = open_model(python_model(tmp_path, code))
    runtime.close()
    assert runtime._model.signatures["closed"]  # type: ignore[attr-defined]
    open_model(python_model(tmp_path / "2", DOUBLE)).close()


@pytest.mark.parametrize(
    ("said", "asked", "threads"),
    [("True", 4, 4), ("True", None, 1), ("False", 4, 1), ("", 4, 1), ("", None, 1), ("", 1, 1)],
)
def test_several_threads_only_where_the_model_says_it_is_thread_safe(
    tmp_path: Path, said: str, asked: int | None, threads: int, caplog: pytest.LogCaptureFixture
) -> None:
    code = DOUBLE + (f"        thread_safe = {said}\n" if said else "")
    options = RuntimeOptions(num_batch_threads=asked)
    assert open_model(python_model(tmp_path, code), options=options).batch_threads == threads
    assert ("does not say `thread_safe = True`" in caplog.text) == (asked == 4 and threads == 1)


def test_thread_safe_that_is_no_boolean_fails_the_load(tmp_path: Path) -> None:
    code = DOUBLE + "        thread_safe = 'yes'\n"
    with pytest.raises(LoadFailed, match=r"Model.thread_safe: expected True or False, found 'yes'"):
        open_model(python_model(tmp_path, code))
