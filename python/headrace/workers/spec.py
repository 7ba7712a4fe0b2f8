"""What the supervisor and its workers tell each other about a model, and the events of its life."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.runtimes import RuntimeOptions
from headrace.runtimes.base import Schedule
from headrace.tensors import Signature, TensorSpec
from headrace.workers.batching import BatchSettings

if TYPE_CHECKING:
    from headrace._core import FrontPort

__all__ = [
    "Gone",
    "Ready",
    "Replaced",
    "SupervisorOptions",
    "WorkerEvent",
    "WorkerSpec",
    "signatures_from_json",
    "signatures_to_json",
]


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """One model version to run, and its bounds.

    Attributes:
        model: Its name; only for messages and logs.
        version: Likewise.
        path: The version's directory.
        runtime: ``tensorflow`` or ``python``; None: by what the directory holds.
        device: See `RuntimeOptions`.
        tags: See `RuntimeOptions`.
        intra_op_threads: See `RuntimeOptions`.
        inter_op_threads: See `RuntimeOptions`.
        schedule: See `RuntimeOptions`.
        run_timeout_s: A run that takes longer means a hung worker, which is killed; 0: never.
            A worker in this process cannot be killed; that it hangs is only logged.
        batching: How requests are put together for a run.
        num_batch_threads: Batches that may run at once; None: the runtime's choice.
        request_bytes: Capacity of the request ring: bound of what is in flight.
        reply_bytes: Capacity of the reply ring.
        max_payload_bytes: Largest decoded request.
        max_reply_bytes: Largest reply.
        in_process: Run as a thread of this process.
    """

    model: str
    version: int
    path: Path
    runtime: str | None = None
    device: str | None = None
    tags: tuple[str, ...] = ("serve",)
    intra_op_threads: int = 0
    inter_op_threads: int = 0
    schedule: Schedule = "auto"
    run_timeout_s: float = 300.0
    batching: BatchSettings = field(default_factory=BatchSettings)
    num_batch_threads: int | None = None
    request_bytes: int = 8 << 20
    reply_bytes: int = 8 << 20
    max_payload_bytes: int = 1 << 30
    max_reply_bytes: int = 1 << 30
    in_process: bool = False

    @property
    def name(self) -> str:
        """Model and version as logs name them."""
        return f"{self.model}/{self.version}"

    def runtime_options(self) -> RuntimeOptions:
        """The part that is the runtime's."""
        return RuntimeOptions(
            device=self.device,
            tags=self.tags,
            intra_op_threads=self.intra_op_threads,
            inter_op_threads=self.inter_op_threads,
            schedule=self.schedule,
            num_batch_threads=self.num_batch_threads,
            shared_interpreter=self.in_process,
        )

    def to_json(self) -> dict[str, Any]:
        """For the control socket."""
        return dataclasses.asdict(self) | {"path": str(self.path)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> WorkerSpec:
        """What `to_json` made."""
        rebuilt = {
            "path": Path(body["path"]),
            "tags": tuple(body["tags"]),
            "batching": BatchSettings(**body["batching"]),
        }
        return cls(**{**body, **rebuilt})


@dataclass(frozen=True, slots=True)
class SupervisorOptions:
    """How workers are started and restarted.

    Attributes:
        fork: Start TensorFlow workers by forking a parent that has imported it already.
        fork_with_gpu: Also where the model may use a GPU, whose driver may not survive a fork.
        first_answer_s: A forked worker that has not run its first operation by then has hung; it
            and all later ones are started afresh.
        stop_grace_s: How long a worker may take to finish and leave before it is killed.
        backoff_s: Wait before the second restart in a row without an answer in between; doubled
            for each one more.
        backoff_limit_s: Longest such wait.
    """

    fork: bool = True
    fork_with_gpu: bool = False
    first_answer_s: float = 20.0
    stop_grace_s: float = 10.0
    backoff_s: float = 0.25
    backoff_limit_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Replaced:
    """The worker has died. Everything from now on goes to ``new_port``, where it waits for the
    successor; replies still in ``old_port`` must be taken, and what it leaves unanswered be pushed
    to the new one, before the callback returns. The old port is closed after that.
    """  # noqa: D205 - one thought

    old_port: FrontPort
    new_port: FrontPort
    reason: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The successor could not be started; nobody answers what is in ``port`` until `Ready`.

    Attributes:
        port: The current port, which stays.
        reason: Why, in a sentence.
        retry_s: When it is tried again.
    """

    port: FrontPort
    reason: str
    retry_s: float


@dataclass(frozen=True, slots=True)
class Ready:
    """A successor has loaded the model and answers what is in ``port``."""

    port: FrontPort


WorkerEvent = Replaced | Gone | Ready


def signatures_to_json(signatures: Mapping[str, Signature]) -> dict[str, Any]:
    """A worker's signatures for the control socket."""
    return {
        name: {
            "inputs": {key: [spec.dtype, spec.shape] for key, spec in signature.inputs.items()},
            "outputs": {key: [spec.dtype, spec.shape] for key, spec in signature.outputs.items()},
            "method_name": signature.method_name,
            "float_features": sorted(signature.float_features),
            "signature_def": signature.signature_def,
        }
        for name, signature in signatures.items()
    }


def signatures_from_json(body: Mapping[str, Any]) -> dict[str, Signature]:
    """What `signatures_to_json` made."""
    return {
        name: Signature(
            {key: TensorSpec(*spec) for key, spec in value["inputs"].items()},
            {key: TensorSpec(*spec) for key, spec in value["outputs"].items()},
            value["method_name"],
            frozenset(value["float_features"]),
            value["signature_def"],
        )
        for name, value in body.items()
    }
