"""The configuration taken apart: each part of the front end gets its own options."""

from __future__ import annotations

from headrace.config import ModelConfig, ServerConfig
from headrace.server.front_end import FrontEndOptions, WorkerDefaults
from headrace.server.inference import InferenceOptions
from headrace.server.limits import HttpLimits
from headrace.server.models import ModelSource

__all__ = ["front_end_options"]


def front_end_options(config: ServerConfig) -> FrontEndOptions:
    """What the front end and its parts need of a configuration."""
    http, requests, workers = config.http, config.requests, config.workers
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
        workers=WorkerDefaults(
            device=workers.device,
            tags=workers.saved_model_tags,
            intra_op_threads=workers.intra_op_threads,
            inter_op_threads=workers.inter_op_threads,
            run_timeout_s=workers.run_timeout_s,
            max_batch_rows=workers.max_batch_rows,
            request_bytes=workers.request_ring_bytes,
            reply_bytes=workers.reply_ring_bytes,
            max_reply_bytes=workers.max_reply_bytes,
            in_process=workers.in_process,
        ),
        max_in_flight_rows=requests.max_in_flight_rows,
        max_in_flight_bytes=requests.max_in_flight_bytes,
        drain_s=config.lifecycle.drain_s,
        tfserving_metrics_path=config.metrics.tfserving_path,
    )


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
