"""Runs SavedModels, TF1's and TF2's alike, through a session.

Why a session and not the loaded object's signatures: it loads every export there is, and it is the
cheaper call. Of the ways into a session only the callable made from ``CallableOptions`` resolves
its feeds and fetches once: a tiny model takes a tenth of the time it takes through
``Session.make_callable``. It also sets the threads of each run (see `Schedule`), so that one
session serves short and long runs. The single-threaded executor would save 5 µs more, but it binds
the whole session and refuses reference variables and TF1 control flow.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

# TensorFlow reads it while it is imported; 2 keeps its errors and drops banners and hints.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

try:
    import tensorflow as tf
    from tensorflow.core.protobuf import config_pb2
except ImportError as error:
    raise ImportError(
        f"TensorFlow cannot be imported ({error}); "
        "install it with `pip install 'headrace[tensorflow]'` or 'headrace[tensorflow-cpu]'"
    ) from error

from headrace.errors import LoadFailed, RunFailed, SpecError
from headrace.runtimes.base import Array, RuntimeOptions, Schedule, as_array
from headrace.runtimes.graph_signatures import GraphSignature, read_signatures
from headrace.tensors import Signature

__all__ = ["TensorFlowRuntime", "open_model", "probe"]

# absl's status codes by number; TensorFlow's exceptions carry the number.
_KINDS = (
    "ok",
    "cancelled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
)

# A hand-over between threads costs about 50 µs; a tenth of a run this long can hide several.
_LONG_RUN_S = 0.002
_LONG_RUNS_TO_CHANGE = 3

_CALLER = -1  # RunOptions.inter_op_thread_pool: run operations on the calling thread
_POOL = 0  # ... on the session's pool

tf.get_logger().setLevel("ERROR")


def open_model(path: Path, options: RuntimeOptions) -> TensorFlowRuntime:
    """Loads a SavedModel: graph, variables, assets and tables.

    Raises:
        LoadFailed: It is damaged, needs operations this TensorFlow lacks, or has no such tags.
    """
    session = tf.compat.v1.Session(graph=tf.Graph(), config=_session_config(options))
    try:
        with session.graph.as_default():
            meta_graph = tf.compat.v1.saved_model.load(session, list(options.tags), str(path))
        signatures = read_signatures(meta_graph, session.graph)
    except (tf.errors.OpError, OSError, RuntimeError, ValueError, KeyError, SpecError) as error:
        session.close()
        raise LoadFailed(f"{path}: {_first_lines(error)}") from error
    if not signatures:
        session.close()
        raise LoadFailed(f"{path}: the SavedModel has no signatures, so nothing can be called")
    return TensorFlowRuntime(session, signatures, options)


def probe(options: RuntimeOptions) -> None:
    """Runs a product large enough to need TensorFlow's thread pools.

    In a child forked from a process that had used them it hangs, which is what it is for: whoever
    waits for it learns in milliseconds what a large model would have shown in minutes.
    """
    graph = tf.Graph()
    with graph.as_default():
        factor = tf.compat.v1.placeholder(tf.float32, [256, 256])
        product = tf.matmul(factor, factor)
    with tf.compat.v1.Session(graph=graph, config=_session_config(options)) as session:
        session.run(product, {factor: [[1.0] * 256] * 256})


class TensorFlowRuntime:
    """A SavedModel in a session. `run` may be called from several threads at once."""

    def __init__(
        self, session: Any, signatures: Mapping[str, GraphSignature], options: RuntimeOptions
    ) -> None:
        self.batch_threads = options.num_batch_threads or 1
        self.signatures: Mapping[str, Signature] = {
            name: found.signature for name, found in signatures.items()
        }
        self._session = session
        self._calls = {
            name: _Call(session, found, options.schedule) for name, found in signatures.items()
        }

    def run(self, signature: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """See `Runtime.run`. An input that is missing takes the signature's default."""
        try:
            return self._calls[signature](inputs)
        except tf.errors.OpError as error:
            raise RunFailed(error.message, kind=_kind(error)) from error

    def close(self) -> None:
        """Closes the session, which frees variables, tables and device memory."""
        self._session.close()


class _Call:
    """A signature bound to the session: values in the order of its feeds, results by name."""

    def __init__(self, session: Any, found: GraphSignature, schedule: Schedule) -> None:
        self._session = session
        self._found = found
        self._feeds = list(found.inputs.items())
        # A session refuses to fetch what it is fed, and there is nothing to run for it.
        self._passed = {
            output: next(name for name, fed in self._feeds if fed == tensor)
            for output, tensor in found.outputs.items()
            if tensor in found.inputs.values()
        }
        self._fetches = [
            (name, tensor, found.signature.outputs[name].dtype == "string")
            for name, tensor in found.outputs.items()
            if name not in self._passed
        ]
        self._schedule = schedule
        self._long_runs = 0
        self._callables: dict[int, Callable[..., Sequence[object]]] = {}

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        values = [self._value(name, inputs) for name, _ in self._feeds]
        pool = self._pool()
        first = pool not in self._callables
        run = self._callables.get(pool) or self._make(pool)
        start = time.monotonic()
        results = run(*values)
        if not first:  # the first run of a callable also prepares its kernels
            self._note(time.monotonic() - start)
        outputs = {
            name: as_array(result, strings=strings)
            for (name, _, strings), result in zip(self._fetches, results, strict=True)
        }
        for output, name in self._passed.items():
            outputs[output] = values[[fed for fed, _ in self._feeds].index(name)]
        return outputs

    def _value(self, name: str, inputs: Mapping[str, Array]) -> Array:
        value = inputs.get(name)
        if value is None:
            value = self._found.defaults.get(name)
        if value is None:
            raise RunFailed(f"input {name!r} is missing", kind="invalid_argument")
        return value

    def _pool(self) -> int:
        if self._schedule == "auto":
            return _POOL if self._long_runs >= _LONG_RUNS_TO_CHANGE else _CALLER
        return _POOL if self._schedule == "pool" else _CALLER

    def _note(self, run_s: float) -> None:
        if self._long_runs < _LONG_RUNS_TO_CHANGE:
            self._long_runs = self._long_runs + 1 if run_s >= _LONG_RUN_S else 0

    def _make(self, pool: int) -> Callable[..., Sequence[object]]:
        options = config_pb2.CallableOptions()
        options.feed.extend(tensor for _, tensor in self._feeds)
        options.fetch.extend(tensor for _, tensor, _ in self._fetches)
        options.run_options.inter_op_thread_pool = pool
        made: Callable[..., Sequence[object]] = self._session._make_callable_from_options(options)
        self._callables[pool] = made
        return made


def _session_config(options: RuntimeOptions) -> Any:
    config = tf.compat.v1.ConfigProto(
        allow_soft_placement=True,  # graphs with devices of their own run where there is no such
        intra_op_parallelism_threads=options.intra_op_threads,
        inter_op_parallelism_threads=options.inter_op_threads,
    )
    config.gpu_options.allow_growth = True
    kind, _, index = (options.device or "").lower().partition(":")
    if kind not in ("", "cpu", "gpu") or (index and (kind != "gpu" or not index.isdigit())):
        raise LoadFailed(f"unknown device {options.device!r}: expected cpu, gpu or gpu:N")
    if kind == "cpu":
        config.device_count["GPU"] = 0
    if index:
        config.gpu_options.visible_device_list = index
    return config


def _kind(error: Any) -> str:
    code = error.error_code
    return _KINDS[code] if isinstance(code, int) and 0 < code < len(_KINDS) else "internal"


def _first_lines(error: BaseException, limit: int = 500) -> str:
    """The error's own words without the stack traces that TensorFlow appends to them."""
    text = str(getattr(error, "message", None) or error).strip()
    text = text.removeprefix("Graph execution error:").strip() or type(error).__name__
    for end in ("\n\nOriginal stack trace", "\n\nDetected at node", "\n\t [[", "\nTraceback"):
        text = text.split(end)[0]
    return text if len(text) <= limit else text[:limit] + "..."
