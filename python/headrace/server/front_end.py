"""The front end as a whole: its parts made, started and stopped in the right order."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from headrace.server.application import Application
from headrace.server.inference import Inference, InferenceOptions
from headrace.server.limits import HttpLimits
from headrace.server.listener import HttpListener, open_sockets
from headrace.server.metrics import metrics_pages, server_figures, version_figures
from headrace.server.models import ModelKeeper, ModelSource
from headrace.server.tfserving_api import TensorFlowServingApi, TensorFlowServingOptions
from headrace.serving.endpoint import Endpoint
from headrace.serving.metrics import RequestMetrics, Series, Snapshot
from headrace.serving.registry import Registry
from headrace.workers.supervisor import Supervisor, SupervisorOptions, Worker, WorkerSpec

__all__ = ["Address", "FrontEnd", "FrontEndOptions", "WorkerDefaults"]

_log = logging.getLogger(__name__)

# Deadlines are kept to within this; finer would only wake an idle process more often.
_EXPIRY_TICK_S = 0.05
# Large bodies are decoded and large answers encoded here; two suffice to keep a core busy each way.
_CODEC_THREADS = 2

Address = tuple[str | None, int]
"""Host and port; host None: every interface; port 0: chosen by the kernel."""


@dataclass(frozen=True, slots=True)
class WorkerDefaults:
    """What every worker gets, in the terms of `WorkerSpec`."""

    runtime: str | None = None
    device: str | None = None
    tags: tuple[str, ...] = ("serve",)
    intra_op_threads: int = 0
    inter_op_threads: int = 0
    run_timeout_s: float = 300.0
    max_batch_rows: int = 1024
    request_bytes: int = 8 << 20
    reply_bytes: int = 8 << 20
    max_reply_bytes: int = 1 << 30
    in_process: bool = False


@dataclass(frozen=True, slots=True)
class FrontEndOptions:
    """A front end's parts, each with its own options.

    Attributes:
        models: What to serve.
        listen: Where to listen.
        http: Limits of connections and bodies.
        inference: How requests are carried.
        tfserving: How TensorFlow Serving's API answers.
        workers: What every worker gets.
        supervisor: How workers are started and restarted.
        max_in_flight_rows: Rows accepted and unanswered, per model version.
        max_in_flight_bytes: Tensor bytes accepted and unanswered, per model version.
        drain_s: Seconds that a stop waits for what runs.
        tfserving_metrics_path: Where TensorFlow Serving's page of metrics is; None: nowhere.
    """

    models: Sequence[ModelSource]
    listen: Sequence[Address]
    http: HttpLimits = field(default_factory=HttpLimits)
    inference: InferenceOptions = field(default_factory=InferenceOptions)
    tfserving: TensorFlowServingOptions = field(default_factory=TensorFlowServingOptions)
    workers: WorkerDefaults = field(default_factory=WorkerDefaults)
    supervisor: SupervisorOptions = field(default_factory=SupervisorOptions)
    max_in_flight_rows: int = 1 << 17
    max_in_flight_bytes: int = 1 << 30
    drain_s: float = 30.0
    tfserving_metrics_path: str | None = None


class FrontEnd:
    """Sockets, routes and workers of one process. All methods run on its loop."""

    def __init__(self, options: FrontEndOptions) -> None:
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(_CODEC_THREADS, thread_name_prefix="codec")
        self._registry: Registry[Endpoint] = Registry()
        self._supervisor = Supervisor(options.supervisor)
        inference = Inference(options.inference, loop=self._loop, executor=self._executor)
        self._metrics = RequestMetrics()
        api = TensorFlowServingApi(self._registry, inference, options.tfserving, self._metrics)
        pages = metrics_pages(self._snapshot, options.tfserving_metrics_path)
        application = Application(api, self._registry.unready, pages)
        self._listener = HttpListener(application, options.http)
        self._keeper = ModelKeeper(
            options.models,
            self._registry,
            self._supervisor,
            worker_spec=self._worker_spec,
            make_endpoint=self._make_endpoint,
            on_unload=self._retire_metrics,
        )
        self._expiry: asyncio.TimerHandle | None = None

    async def open(self) -> list[str]:
        """Open the ports, before any model is loaded.

        Returns:
            The URLs listened on.

        Raises:
            OSError: An address cannot be had.
        """
        for host, port in self._options.listen:
            await self._listener.start(open_sockets(host, port))
        self._tick()
        return [_url(*address) for address in self._listener.addresses]

    async def load(self) -> None:
        """Load the models; return when each is available or has failed, and go on watching."""
        await self._keeper.start()

    async def close(self) -> None:
        """Stop accepting, finish what runs, then end the workers."""
        await self._listener.stop(deadline_s=self._options.drain_s)
        await self._keeper.close()
        await self._supervisor.close(drain_s=1.0)
        if self._expiry is not None:
            self._expiry.cancel()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def unready(self) -> list[str]:
        """A sentence for each model that cannot answer."""
        return self._registry.unready()

    def _snapshot(self) -> Snapshot:
        options = self._options
        return Snapshot(
            self._metrics,
            version_figures(self._keeper.running()),
            server_figures(
                self._listener.state,
                max_rows=options.max_in_flight_rows,
                max_bytes=options.max_in_flight_bytes,
            ),
        )

    def _retire_metrics(self, model: str, endpoint: Endpoint) -> None:
        self._metrics.retire(model, Series.of(endpoint.port.metrics()))

    def _tick(self) -> None:
        now_ns = time.monotonic_ns()
        for endpoint in self._keeper.endpoints():
            endpoint.expire(now_ns)
        self._expiry = self._loop.call_later(_EXPIRY_TICK_S, self._tick)

    def _worker_spec(self, model: str, version: int, path: Path) -> WorkerSpec:
        defaults = self._options.workers
        return WorkerSpec(
            model=model,
            version=version,
            path=path,
            runtime=defaults.runtime,
            device=defaults.device,
            tags=defaults.tags,
            intra_op_threads=defaults.intra_op_threads,
            inter_op_threads=defaults.inter_op_threads,
            run_timeout_s=defaults.run_timeout_s,
            max_batch_rows=defaults.max_batch_rows,
            request_bytes=defaults.request_bytes,
            reply_bytes=defaults.reply_bytes,
            max_payload_bytes=self._options.http.max_body_bytes * 4,
            max_reply_bytes=defaults.max_reply_bytes,
            in_process=defaults.in_process,
        )

    def _make_endpoint(self, worker: Worker) -> Endpoint:
        return Endpoint(
            worker.spec.version,
            worker.signatures,
            worker.port,
            max_in_flight_rows=self._options.max_in_flight_rows,
            max_in_flight_bytes=self._options.max_in_flight_bytes,
        )


def _url(host: str, port: int) -> str:
    if ":" in host:
        # The dual-stack address of every interface; what a person can open is this machine's.
        return f"http://127.0.0.1:{port}" if host == "::" else f"http://[{host}]:{port}"
    return f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"
