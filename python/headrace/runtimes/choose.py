"""Chooses the runtime by what a model's directory holds."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

from headrace.errors import LoadFailed
from headrace.runtimes.base import Runtime, RuntimeOptions

__all__ = ["find_runtime", "open_model"]

_OPENERS = {
    "tensorflow": "headrace.runtimes.tensorflow",
    "python": "headrace.runtimes.python_model",
}
# In this order: a SavedModel may carry a stray model.py, a Python model has no saved_model.pb.
_MARKERS = {
    "saved_model.pb": "tensorflow",
    "saved_model.pbtxt": "tensorflow",
    "model.py": "python",
}


def find_runtime(path: Path) -> str:
    """Name of the runtime that a version's directory calls for: ``tensorflow`` or ``python``.

    Imports no framework, so the front end may ask.

    Raises:
        LoadFailed: None of the files that mark a model is there; says what is.
    """
    for marker, runtime in _MARKERS.items():
        if (path / marker).is_file():
            return runtime
    raise LoadFailed(f"{path}: expected one of {', '.join(_MARKERS)}, found {_listing(path)}")


def open_model(
    path: Path, *, runtime: str | None = None, options: RuntimeOptions | None = None
) -> Runtime:
    """Loads the model version in a directory. Blocks until it can run.

    Args:
        path: The version's directory.
        runtime: ``tensorflow`` or ``python``; None: what `find_runtime` says.
        options: How to run it.

    Raises:
        LoadFailed: It cannot be loaded; the message says why in a sentence.
    """
    name = runtime or find_runtime(path)
    if name not in _OPENERS:
        raise LoadFailed(f"unknown runtime {name!r}; there are {', '.join(sorted(_OPENERS))}")
    opener: Callable[[Path, RuntimeOptions], Runtime] = importlib.import_module(
        _OPENERS[name]
    ).open_model
    return opener(path, options or RuntimeOptions())


def _listing(path: Path, limit: int = 10) -> str:
    try:
        names = sorted(entry.name for entry in path.iterdir())
    except OSError as error:
        return f"no readable directory ({error.strerror})"
    if not names:
        return "an empty directory"
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
