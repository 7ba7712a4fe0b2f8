"""Flags become the configuration. Pure: the flags are parsed, and files read, before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.config.base_path import parse_base_path
from headrace.config.parts import (
    Address,
    HttpConfig,
    LifecycleConfig,
    MetricsConfig,
    ModelConfig,
    RequestConfig,
    SecurityConfig,
    ServerConfig,
    WorkerConfig,
)
from headrace.errors import SpecError
from headrace.workers.batching import BatchSettings

__all__ = ["server_config"]


def server_config(
    flags: Mapping[str, Any],
    file_models: Sequence[ModelConfig] | None = None,
    tfserving_metrics_path: str | None = None,
) -> ServerConfig:
    """The configuration that flags ask for.

    Args:
        flags: Every flag that Headrace honours, by name, with its parsed value or its default.
        file_models: What a file lists; None where none does.
        tfserving_metrics_path: What the ``--monitoring_config_file`` asks for.

    Raises:
        SpecError: The flags together make no sense.
    """
    intra_op_threads, inter_op_threads = _threads(flags)
    return ServerConfig(
        models=_models(flags, file_models),
        http=HttpConfig(
            address=_address(flags),
            max_connections=flags["max_connections"],
            max_body_bytes=flags["max_body_bytes"],
            max_total_body_bytes=flags["max_total_body_bytes"],
            max_header_bytes=flags["max_header_bytes"],
            idle_timeout_s=flags["idle_timeout"],
            header_timeout_s=flags["header_timeout"],
            body_timeout_s=flags["body_timeout"],
        ),
        requests=RequestConfig(
            timeout_s=_above_zero(flags["rest_api_timeout_in_ms"] / 1e3),
            cors=flags["rest_api_enable_cors_support"],
            max_json_depth=flags["max_json_depth"],
            max_in_flight_rows=flags["max_in_flight_rows"],
            max_in_flight_bytes=flags["max_in_flight_bytes"],
            pretty=flags["pretty"],
            non_finite=flags["non_finite"],
            int64=flags["int64"],
            invalid_utf8=flags["invalid_utf8"],
        ),
        workers=WorkerConfig(
            in_process=flags["in_process"],
            device=flags["device"] or None,
            saved_model_tags=_tags(flags["saved_model_tags"]),
            intra_op_threads=intra_op_threads,
            inter_op_threads=inter_op_threads,
            run_timeout_s=flags["run_timeout"],
            batching=BatchSettings(max_rows=flags["max_batch_rows"]),
            num_batch_threads=flags["num_batch_threads"],
            request_ring_bytes=flags["request_ring_bytes"],
            reply_ring_bytes=flags["reply_ring_bytes"],
            max_reply_bytes=flags["max_reply_bytes"],
        ),
        lifecycle=LifecycleConfig(
            poll_s=_above_zero(flags["file_system_poll_wait_seconds"]),
            max_load_retries=max(flags["max_num_load_retries"], 0),
            load_retry_s=max(flags["load_retry_interval_micros"], 0) / 1e6,
            drain_s=flags["drain_timeout"],
            read_models_s=_above_zero(flags["model_config_file_poll_wait_seconds"]),
        ),
        metrics=MetricsConfig(tfserving_metrics_path),
        security=_security(flags),
    )


def _models(
    flags: Mapping[str, Any], file_models: Sequence[ModelConfig] | None
) -> tuple[ModelConfig, ...]:
    """As in TensorFlow Serving, a file takes the place of the flags for a single model."""
    if file_models is not None:
        if not file_models:
            raise SpecError("the configuration lists no model")
        return tuple(file_models)
    if not flags["model_base_path"]:
        raise SpecError(
            "nothing to serve: give --model_base_path=DIR with a directory that holds numbered "
            "versions of a model, or --model_config_file=FILE, or --config=FILE"
        )
    if not flags["model_name"]:
        raise SpecError("--model_name must not be empty")
    return (ModelConfig(flags["model_name"], parse_base_path(flags["model_base_path"])),)


def _address(flags: Mapping[str, Any]) -> Address:
    """``--listen`` says exactly where; TensorFlow Serving's port is on every interface."""
    listen: Address | None = flags["listen"]
    if listen is not None:
        return listen
    port: int = flags["rest_api_port"]
    return Address(host="", port=port) if port else Address()


def _security(flags: Mapping[str, Any]) -> SecurityConfig:
    if bool(flags["tls_cert"]) != bool(flags["tls_key"]):
        raise SpecError("--tls_cert and --tls_key go together: one is missing")
    return SecurityConfig(
        tls_cert=_file(flags["tls_cert"]),
        tls_key=_file(flags["tls_key"]),
        auth_token_file=_file(flags["auth_token_file"]),
        auth_health=flags["auth_health"],
    )


def _file(text: str) -> Path | None:
    return Path(text).absolute() if text else None


def _tags(text: str) -> tuple[str, ...]:
    return tuple(tag for tag in text.split(",") if tag)


def _threads(flags: Mapping[str, Any]) -> tuple[int, int]:
    """Threads inside an operation and for operations; 0: TensorFlow's choice."""
    both = max(flags["tensorflow_session_parallelism"], 0)
    intra = max(flags["tensorflow_intra_op_parallelism"], 0)
    inter = max(flags["tensorflow_inter_op_parallelism"], 0)
    if both and intra and inter:
        raise SpecError(
            "--tensorflow_session_parallelism sets --tensorflow_intra_op_parallelism and "
            "--tensorflow_inter_op_parallelism, so that all three exclude each other"
        )
    return intra or both, inter or both


def _above_zero(value: float) -> float | None:
    """TensorFlow Serving's way to say never: zero or less."""
    return float(value) if value > 0 else None
