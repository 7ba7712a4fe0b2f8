"""What runs a model: one module per framework behind one small interface."""

from headrace.runtimes.base import Runtime, RuntimeOptions
from headrace.runtimes.choose import find_runtime, open_model

__all__ = ["Runtime", "RuntimeOptions", "find_runtime", "open_model"]
