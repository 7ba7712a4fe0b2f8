"""The worker's loop: collect a batch, run it, reply. The same as a process and as a thread."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import ml_dtypes  # noqa: F401 - teaches NumPy the name bfloat16
import numpy as np

from headrace.errors import RemoteProtocolError, RunFailed
from headrace.runtimes.base import Array, Runtime
from headrace.tensors import Signature, TensorSpec

__all__ = ["BatchLike", "CollectorLike", "Loop"]

_log = logging.getLogger(__name__)


class BatchLike(Protocol):
    """Requests stacked for one run; see the core's ``Batch``."""

    @property
    def signature(self) -> str:
        """Name of the signature they share."""

    @property
    def size(self) -> int:
        """Number of requests."""

    @property
    def rows(self) -> int:
        """Their rows in all; 0 where they have none."""

    @property
    def inputs(self) -> dict[str, Array]:
        """Input name to stacked values."""

    def reply(self, outputs: Mapping[str, Array]) -> None:
        """Answers each with its rows."""

    def fail(self, code: str, message: str) -> None:
        """Answers each with an error."""

    def split(self) -> Sequence[BatchLike]:
        """A batch per request."""


class CollectorLike(Protocol):
    """Where batches come from; see the core's ``Collector``."""

    def collect(self, *, timeout_ms: int = -1) -> BatchLike | None:
        """The next batch; EOFError once every front end has closed."""


class Loop:
    """Runs what a collector gathers until its front ends have closed.

    Several threads may run it at once, each with a batch of its own, if the runtime allows it:
    collecting and replying are the core's, behind its own locks.
    """

    def __init__(
        self, runtime: Runtime, *, on_first_answer: Callable[[], None] | None = None
    ) -> None:
        self._runtime = runtime
        self._on_first_answer = on_first_answer
        self._first_answer = threading.Lock()  # whoever gets it tells of the first answer
        self._outputs = {
            name: _OutputCheck(signature) for name, signature in runtime.signatures.items()
        }

    def run(self, collector: CollectorLike, *, threads: int = 1) -> None:
        """Returns once every front end has closed.

        Args:
            collector: Where batches come from.
            threads: Batches that run at once. One runs on the calling thread.

        Raises:
            BaseException: What has ended one of the threads, at once, while the others may go on:
                requests that it had taken are never answered, so the caller has to end the worker.
        """
        if threads == 1:
            self._run(collector)
            return
        ends: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

        def run() -> None:
            try:
                self._run(collector)
            except BaseException as error:
                ends.put(error)
            else:
                ends.put(None)

        for number in range(threads):
            threading.Thread(target=run, name=f"batch {number}", daemon=True).start()
        for _ in range(threads):
            if (error := ends.get()) is not None:
                raise error

    def _run(self, collector: CollectorLike) -> None:
        while True:
            try:
                batch = collector.collect()
            except EOFError:
                return
            except RemoteProtocolError:
                _log.exception("a front end broke the protocol and is not listened to any more")
                continue
            if batch is not None:
                self.answer(batch)

    def answer(self, batch: BatchLike) -> None:
        """Gives every request of a batch its answer.

        A batch that fails as a whole is run again request by request, so that one bad row costs
        its own request only.
        """
        failure = self._attempt(batch)
        if failure is None:
            self._answered()
        elif batch.size > 1:
            for single in batch.split():
                self.answer(single)
        else:
            # Text of other people's: a lone surrogate, as in names of files, has no UTF-8.
            text = str(failure).encode("utf-8", "backslashreplace").decode()
            batch.fail(failure.kind, text)
            self._answered()

    def _attempt(self, batch: BatchLike) -> RunFailed | None:
        try:
            outputs = self._runtime.run(batch.signature, batch.inputs)
            self._outputs[batch.signature].check(outputs)
            batch.reply(outputs)
        except RunFailed as failure:
            return failure
        except ValueError as error:  # from reply: rows that cannot be split
            return RunFailed(str(error))
        except Exception as error:
            # Models are other people's code: whatever they raise is an answer, not our end.
            _log.exception("running signature %s", batch.signature)
            return RunFailed(f"{type(error).__name__}: {error}")
        return None

    def _answered(self) -> None:
        on_first_answer = self._on_first_answer
        if on_first_answer is not None and self._first_answer.acquire(blocking=False):
            self._on_first_answer = None
            on_first_answer()


class _OutputCheck:
    """Holds a model to what its signature declares of outputs."""

    def __init__(self, signature: Signature) -> None:
        self._dtypes = {name: _dtype(spec) for name, spec in signature.outputs.items()}
        self._specs = signature.outputs

    def check(self, outputs: Mapping[str, Array]) -> None:
        """Raises RunFailed where names or types are not the declared ones."""
        if outputs.keys() != self._dtypes.keys():
            self._raise_names(outputs)
        for name, value in outputs.items():
            dtype = self._dtypes[name]
            if dtype is None:
                raise RunFailed(
                    f"output {name!r} is {self._specs[name].dtype}, which has no JSON form",
                    kind="invalid_argument",
                )
            if value.dtype != dtype:
                raise RunFailed(
                    f"output {name!r} is declared {self._specs[name].dtype}; "
                    f"the model returned {value.dtype}"
                )

    def _raise_names(self, outputs: Mapping[str, Array]) -> None:
        missing = sorted(self._dtypes.keys() - outputs.keys())
        if missing:
            raise RunFailed(
                f"output {missing[0]!r} is missing; the model returned {_names(outputs)}"
            )
        extra = sorted(outputs.keys() - self._dtypes.keys())
        raise RunFailed(
            f"output {extra[0]!r} is not in the signature, which declares {_names(self._dtypes)}"
        )


def _dtype(spec: TensorSpec) -> np.dtype[np.generic] | None:
    if spec.dtype == "string":
        return np.dtype(object)
    try:
        dtype = np.dtype(spec.dtype)
    except TypeError:
        return None
    return dtype if dtype.kind in "biuf" or dtype.name == "bfloat16" else None


def _names(values: Mapping[str, object]) -> str:
    return ", ".join(sorted(values)) or "none"
