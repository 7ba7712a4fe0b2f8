"""What can be configured, one small immutable dataclass per part of the server.

A part never sees another's settings: the application that joins the parts hands each its own.
The defaults stand here and nowhere else; a name ends in its unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headrace.serving.versions import Latest, Policy
from headrace.workers.batching import BatchSettings

__all__ = [
    "Address",
    "HttpConfig",
    "LifecycleConfig",
    "MetricsConfig",
    "ModelConfig",
    "RequestConfig",
    "SecurityConfig",
    "ServerConfig",
    "WorkerConfig",
]


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen.

    Attributes:
        host: Name or literal address without brackets; empty for every interface.
        port: 0: the kernel chooses.
    """

    host: str = "127.0.0.1"
    port: int = 8501

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host or "*"
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Connections and what they may send.

    Attributes:
        address: Where to listen.
        max_connections: Live connections; the next one is answered 503.
        max_body_bytes: A longer request body is answered 413.
        max_total_body_bytes: All bodies received and not answered together; beyond: 503.
        max_header_bytes: A longer request line with its headers is answered 431.
        idle_timeout_s: A connection without a request is closed after this.
        header_timeout_s: From the first byte of a request to the end of its headers, else 408.
        body_timeout_s: For a body to arrive, besides what a slow line needs, else 408.
    """

    address: Address = Address()
    max_connections: int = 10_000
    max_body_bytes: int = 256 << 20
    max_total_body_bytes: int = 1024 << 20
    max_header_bytes: int = 64 << 10
    idle_timeout_s: float = 650.0
    header_timeout_s: float = 30.0
    body_timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class RequestConfig:
    """From a request's body to its answer.

    Attributes:
        timeout_s: From a request's arrival to its answer, else 504; None: no limit.
        cors: Whether answers carry the headers that let pages of other origins read them.
        max_json_depth: Nesting of those members of a body that nobody reads.
        max_in_flight_rows: Rows accepted and not answered per version; beyond: 503.
        max_in_flight_bytes: Tensor bytes likewise.
        pretty: Whether predictions are laid out as TensorFlow Serving does.
        non_finite: What becomes of NaN and the infinities in answers.
        int64: How 64-bit integers stand in answers.
        invalid_utf8: What becomes of a string output that is not UTF-8.
    """

    timeout_s: float | None = 30.0
    cors: bool = False
    max_json_depth: int = 10_000
    max_in_flight_rows: int = 1 << 17
    max_in_flight_bytes: int = 1 << 30
    pretty: bool = False
    non_finite: Literal["token", "null", "string", "error"] = "token"
    int64: Literal["number", "string"] = "number"
    invalid_utf8: Literal["error", "b64"] = "error"


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """How models run; the same for every worker.

    Attributes:
        in_process: Run models on threads of the front end's process instead of workers.
        device: As the runtime names it, such as ``cpu`` or ``gpu:0``; None: the runtime's choice.
        saved_model_tags: The tag set that picks a graph of a SavedModel.
        intra_op_threads: TensorFlow's threads inside one operation; 0: one per core.
        inter_op_threads: TensorFlow's threads for independent operations; 0: one per core.
        run_timeout_s: A worker one of whose runs takes longer hangs, and is replaced.
        batching: How requests are put together for a run.
        num_batch_threads: Batches that may run at once in one worker; None: the runtime's choice.
        request_ring_bytes: Shared memory per worker for accepted requests; beyond: 503.
        reply_ring_bytes: Shared memory per worker for answers on their way.
        max_reply_bytes: The outputs of one request together; beyond, the request fails.
    """

    in_process: bool = False
    device: str | None = None
    saved_model_tags: tuple[str, ...] = ("serve",)
    intra_op_threads: int = 0
    inter_op_threads: int = 0
    run_timeout_s: float = 300.0
    batching: BatchSettings = field(default_factory=BatchSettings)
    num_batch_threads: int | None = None
    request_ring_bytes: int = 8 << 20
    reply_ring_bytes: int = 8 << 20
    max_reply_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True)
class LifecycleConfig:
    """How versions and the server come and go.

    Attributes:
        poll_s: Seconds between scans of the base paths; None: one scan at the start.
        max_load_retries: Loads tried again after a version's first failure.
        load_retry_s: Seconds between them.
        drain_s: How long what runs may take to finish when a version or the server goes.
        read_models_s: Seconds between readings of the file that lists the models; None: one.
    """

    poll_s: float | None = 1.0
    max_load_retries: int = 5
    load_retry_s: float = 60.0
    drain_s: float = 30.0
    read_models_s: float | None = None


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    """Who may listen in, and who may ask.

    Attributes:
        tls_cert: Certificate chain in PEM; None: plain HTTP.
        tls_key: Its key; there is one if there is a certificate.
        auth_token_file: Bearer tokens, one of which a request needs; None: none is needed.
        auth_health: Health and readiness need one, too.
    """

    tls_cert: Path | None = None
    tls_key: Path | None = None
    auth_token_file: Path | None = None
    auth_health: bool = False


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """Metrics beside the page at ``/metrics``, which is always there.

    Attributes:
        tfserving_path: Where TensorFlow Serving's page is wanted; None: nowhere.
    """

    tfserving_path: str | None = None


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One model.

    Attributes:
        name: As in the URL.
        base_path: Directory of numbered versions, or a model itself.
        policy: Which of the versions found to serve.
        labels: Label to version number.
    """

    name: str
    base_path: Path
    policy: Policy = field(default_factory=Latest)
    labels: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Everything that ``headrace serve`` needs to know."""

    models: tuple[ModelConfig, ...]
    http: HttpConfig = HttpConfig()
    requests: RequestConfig = RequestConfig()
    workers: WorkerConfig = WorkerConfig()
    lifecycle: LifecycleConfig = LifecycleConfig()
    security: SecurityConfig = SecurityConfig()
    metrics: MetricsConfig = MetricsConfig()
