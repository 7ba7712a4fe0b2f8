"""Runs a model written as a Python class in a directory's ``model.py``.

The class is the one called ``Model``, or else the only one defined there that has ``predict``::

    class Model:
        signatures = {
            "serving_default": {
                "inputs": {"x": ("float32", (None,))},
                "outputs": {"y": ("float32", (None,))},
            }
        }

        def load(self, path): ...                                   # optional, called once
        def predict(self, inputs, signature="serving_default"):     # `signature` is optional
            return {"y": inputs["x"] * 2}
        def close(self): ...                                        # optional
        thread_safe = True      # optional: `predict` may be called from several threads at once

``signatures`` may also hold `headrace.Signature` and `headrace.TensorSpec`, may be set by ``load``,
and a bare dtype stands for unknown rank. ``predict`` takes and returns NumPy arrays (strings as
object arrays of bytes); what it raises is answered as an internal error with its text, and a
`headrace.errors.RunFailed` with the kind it names. Files beside ``model.py`` can be imported.
"""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes  # noqa: F401 - teaches NumPy the name bfloat16
import numpy as np

from headrace.errors import LoadFailed, RunFailed, SpecError
from headrace.runtimes.base import Array, RuntimeOptions
from headrace.tensors import Signature, TensorSpec

__all__ = ["PythonRuntime", "open_model"]

_log = logging.getLogger(__name__)
_numbers = itertools.count(1)


def open_model(path: Path, options: RuntimeOptions) -> PythonRuntime:
    """Imports ``model.py`` under a name of its own, makes its class and calls ``load``.

    Raises:
        LoadFailed: It cannot be imported, has no such class, or ``load`` raised.
    """
    directory = str(path.resolve())
    sys.path.insert(0, directory)
    try:
        model = _make(_import(path / "model.py"), path)
        runtime = PythonRuntime(model, _signatures(model), _batch_threads(model, options))
    except LoadFailed:
        _forget(directory)
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        _log.exception("loading %s", path)
        _forget(directory)
        raise LoadFailed(f"{path}/model.py: {_describe(error)}") from error
    if options.shared_interpreter:
        # A later `import` fails aloud rather than find another model's file of that name.
        _forget(directory)
    return runtime


class PythonRuntime:
    """A Python model. As safe to `run` from several threads as its class is."""

    def __init__(
        self, model: Any, signatures: Mapping[str, Signature], batch_threads: int = 1
    ) -> None:
        self.signatures = signatures
        self.batch_threads = batch_threads
        self._model = model
        self._predict: Callable[..., object] = model.predict
        self._takes_signature = _takes_signature(model.predict)

    def run(self, signature: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """See `Runtime.run`."""
        try:
            if self._takes_signature:
                outputs = self._predict(inputs, signature=signature)
            else:
                outputs = self._predict(inputs)
        except RunFailed:
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            _log.exception("predict raised")
            raise RunFailed(_describe(error)) from error
        return _arrays(outputs, self.signatures[signature].outputs)

    def close(self) -> None:
        """Calls the model's own ``close``, if it has one."""
        close = getattr(self._model, "close", None)
        if callable(close):
            close()


def _import(file: Path) -> ModuleType:
    name = f"headrace_model_{next(_numbers)}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise LoadFailed(f"{file}: no such file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _make(module: ModuleType, path: Path) -> Any:
    classes = {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and value.__module__ == module.__name__
        and callable(getattr(value, "predict", None))
    }
    if "Model" in classes:
        classes = {"Model": classes["Model"]}
    if len(classes) != 1:
        found = ", ".join(classes) or "none"
        raise LoadFailed(
            f"{path}/model.py: expected a class `Model`, or exactly one class with `predict`; "
            f"found {found}"
        )
    model: Any = classes.popitem()[1]()
    if callable(getattr(model, "load", None)):
        model.load(path)
    return model


def _batch_threads(model: Any, options: RuntimeOptions) -> int:
    """As many as are asked for, if the model allows more than one."""
    wanted = options.num_batch_threads or 1
    allowed = getattr(model, "thread_safe", False)
    if not isinstance(allowed, bool):
        raise LoadFailed(
            f"{type(model).__name__}.thread_safe: expected True or False, found {allowed!r:.80}"
        )
    if wanted > 1 and not allowed:
        _log.warning(
            "one batch at a time, not %d: %s does not say `thread_safe = True`",
            wanted,
            type(model).__name__,
        )
        return 1
    return wanted


def _signatures(model: Any) -> dict[str, Signature]:
    declared = getattr(model, "signatures", None)
    if not isinstance(declared, Mapping) or not declared:
        raise LoadFailed(
            f"{type(model).__name__} has no `signatures`: expected a mapping of names to "
            '{"inputs": ..., "outputs": ...}'
        )
    return {str(name): _signature(name, value) for name, value in declared.items()}


def _signature(name: str, value: Any) -> Signature:
    if isinstance(value, Signature):
        return value
    try:
        return Signature(
            {key: _spec(spec) for key, spec in value["inputs"].items()},
            {key: _spec(spec) for key, spec in value["outputs"].items()},
            value.get("method_name", "tensorflow/serving/predict"),
        )
    except (KeyError, TypeError, AttributeError, ValueError, SpecError) as error:
        raise LoadFailed(
            f'signature {name!r}: expected {{"inputs": {{name: (dtype, shape)}}, "outputs": ...}}: '
            f"{_describe(error)}"
        ) from error


def _spec(value: Any) -> TensorSpec:
    if isinstance(value, TensorSpec):
        return value
    return TensorSpec(value) if isinstance(value, str) else TensorSpec(*value)


def _takes_signature(predict: Callable[..., object]) -> bool:
    parameters = inspect.signature(predict).parameters
    return "signature" in parameters or any(
        p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()
    )


def _arrays(outputs: object, declared: Mapping[str, TensorSpec]) -> dict[str, Array]:
    """What ``predict`` returned, as arrays: lists of numbers take the dtype that is declared."""
    if not isinstance(outputs, Mapping):
        raise RunFailed(
            f"predict returned {type(outputs).__name__}; expected a mapping of names to arrays"
        )
    return {
        str(name): _array(str(name), value, declared.get(str(name)))
        for name, value in outputs.items()
    }


def _array(name: str, value: object, spec: TensorSpec | None) -> Array:
    try:
        if spec is not None and spec.dtype == "string":
            return _strings(np.array(value, dtype=object))
        if isinstance(value, np.ndarray):
            return value
        return np.array(value, dtype=None if spec is None else np.dtype(spec.dtype))
    except (TypeError, ValueError, OverflowError) as error:
        raise RunFailed(f"output {name!r} cannot become an array: {_describe(error)}") from error


def _strings(texts: Array) -> Array:
    """Text becomes UTF-8, in place."""
    flat = texts.reshape(-1)
    for i, text in enumerate(flat):
        if isinstance(text, str):
            flat[i] = text.encode()
        elif not isinstance(text, bytes):
            raise TypeError(f"expected str or bytes, found {type(text).__name__}")
    return texts


def _forget(directory: str) -> None:
    """Takes a model's directory off the import path, and its modules out of the interpreter."""
    while directory in sys.path:
        sys.path.remove(directory)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        own = name.startswith("headrace_model_")
        if file and not own and Path(file).is_relative_to(directory):
            del sys.modules[name]


def _describe(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
