"""The configuration taken apart: each part of the front end gets its own options."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.config import ModelConfig, ServerConfig
from headrace.dialects.tfserving.wishes import Wishes
from headrace.server.front_end import FrontEndOptions, SecurityOptions, WorkerDefaults
from headrace.server.inference import InferenceOptions
from headrace.server.limits import HttpLimits
from headrace.server.models import ModelSource
from headrace.server.tfserving_api import TensorFlowServingOptions

__all__ = ["front_end_options"]


def front_end_options(
    config: ServerConfig, read_models: Callable[[], Sequence[ModelConfig]] | None = None
) -> FrontEndOptions:
    """What the front end and its parts need of a configuration.

    Args:
        config: The configuration.
        read_models: Reads its models anew; raises SpecError.
    """
    http, requests, workers = config.http, config.requests, config.workers
    lifecycle, security = config.lifecycle, config.security
    return FrontEndOptions(
        models=[_source(model, config) for model in config.models],
        listen=[(http.address.host or None, http.address.port)],
        http=HttpLimits(
            max_connections=http.max_connections,
            max_body_bytes=http.max_body_bytes,
            max_total_body_bytes=http.max_total_body_bytes,
            max_header_bytes=http.max_header_bytes,
            idle_timeout_s=http.idle_timeout_s,
            header_timeout_s=http.header_timeout_s,
            body_timeout_s=http.body_timeout_s,
        ),
        inference=InferenceOptions(
            timeout_s=requests.timeout_s, max_json_depth=requests.max_json_depth
        ),
        tfserving=TensorFlowServingOptions(
            cors=requests.cors,
            asks_token=security.auth_token_file is not None,
            wishes=Wishes(
                non_finite=requests.non_finite,
                int64_as_string=requests.int64 == "string",
                pretty=requests.pretty,
            ),
            invalid_utf8_as_b64=requests.invalid_utf8 == "b64",
        ),
        workers=WorkerDefaults(
            device=workers.device,
            tags=workers.saved_model_tags,
            intra_op_threads=workers.intra_op_threads,
            inter_op_threads=workers.inter_op_threads,
            run_timeout_s=workers.run_timeout_s,
            batching=workers.batching,
            num_batch_threads=workers.num_batch_threads,
            request_bytes=workers.request_ring_bytes,
            reply_bytes=workers.reply_ring_bytes,
            max_reply_bytes=workers.max_reply_bytes,
            in_process=workers.in_process,
        ),
        max_in_flight_rows=requests.max_in_flight_rows,
        max_in_flight_bytes=requests.max_in_flight_bytes,
        drain_s=lifecycle.drain_s,
        security=SecurityOptions(
            certificate=security.tls_cert,
            key=security.tls_key,
            token_file=security.auth_token_file,
            guard_health=security.auth_health,
        ),
        tfserving_metrics_path=config.metrics.tfserving_path,
        read_models=_reader(read_models, config),
        read_models_every_s=lifecycle.read_models_s,
    )


def _reader(
    read_models: Callable[[], Sequence[ModelConfig]] | None, config: ServerConfig
) -> Callable[[], Sequence[ModelSource]] | None:
    if read_models is None:
        return None
    return lambda: [_source(model, config) for model in read_models()]


def _source(model: ModelConfig, config: ServerConfig) -> ModelSource:
    lifecycle = config.lifecycle
    return ModelSource(
        name=model.name,
        base_path=model.base_path,
        policy=model.policy,
        labels=dict(model.labels),
        poll_s=lifecycle.poll_s,
        max_retries=lifecycle.max_load_retries,
        retry_s=lifecycle.load_retry_s,
        drain_s=lifecycle.drain_s,
    )
