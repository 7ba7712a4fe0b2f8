"""What every runtime offers to the worker that runs it, and the options they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.tensors import Signature

__all__ = ["Array", "Runtime", "RuntimeOptions", "Schedule"]

Array = NDArray[Any]

Schedule = Literal["auto", "caller", "pool"]
"""Which threads run a graph's operations.

``caller``: those of one run stay on the thread that asked for it, which spares the hand-over that
costs a tiny model more than its own work. ``pool``: independent operations run side by side.
``auto``: the caller's thread until runs prove long enough for a hand-over not to matter. Operations
that split their own work (a matrix product, a convolution) use all cores in each.
"""


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """How a model is to be run; a runtime ignores what it has no use for.

    Attributes:
        device: ``cpu``, ``gpu`` or ``gpu:N``; None leaves the choice to the framework.
        tags: The tag set that picks a graph of a SavedModel.
        intra_op_threads: Threads inside one operation; 0: one per core.
        inter_op_threads: Threads for independent operations; 0: one per core.
        schedule: See `Schedule`.
        num_batch_threads: Runs that may go on at once; None: the runtime's choice.
        shared_interpreter: The process holds other models too, so that a Python model must not
            leave its directory on the import path.
    """

    device: str | None = None
    tags: tuple[str, ...] = ("serve",)
    intra_op_threads: int = 0
    inter_op_threads: int = 0
    schedule: Schedule = "auto"
    num_batch_threads: int | None = None
    shared_interpreter: bool = False


class Runtime(Protocol):
    """One loaded model version. Made by `headrace.runtimes.open_model`."""

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """Name to signature; never changes."""

    @property
    def batch_threads(self) -> int:
        """How many threads may be in `run` at once, and should; never changes."""

    def run(self, signature: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of one batch.

        Args:
            signature: One of `signatures`.
            inputs: Input name to values of the declared dtype; strings as object arrays of bytes.
                The run may keep or change them.

        Raises:
            RunFailed: The model raised; ``kind`` tells whether it blames its inputs.
        """

    def close(self) -> None:
        """Let go of what the process's end would not: files, child processes, devices."""


def as_array(value: object, *, strings: bool) -> Array:
    """A framework's output as NumPy; scalars and bytes become arrays of rank 0.

    Args:
        value: What the framework returned.
        strings: Whether bytes are expected: NumPy would cut their trailing NULs by itself.
    """
    if isinstance(value, np.ndarray):
        return value
    return np.array(value, dtype=object) if strings else np.asarray(value)
