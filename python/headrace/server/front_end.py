"""The front end as a whole: its parts made, started and stopped in the right order."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from headrace.server.application import HEALTH_PATHS, Application
from headrace.server.auth import TokenGuard
from headrace.server.inference import Inference, InferenceOptions
from headrace.server.limits import HttpLimits
from headrace.server.listener import HttpListener, open_sockets
from headrace.server.metrics import MetricsPages, server_figures, version_figures
from headrace.server.models import ModelKeeper, ModelSource
from headrace.server.reload import ModelsReader, reload_file
from headrace.server.tfserving_api import TensorFlowServingApi, TensorFlowServingOptions
from headrace.server.tls import Certificate
from headrace.server.version_loader import VersionLoader
from headrace.serving.endpoint import Endpoint
from headrace.serving.metrics import RequestMetrics, Series, Snapshot
from headrace.serving.registry import Registry
from headrace.workers.batching import BatchSettings
from headrace.workers.supervisor import Supervisor, SupervisorOptions, Worker, WorkerSpec

__all__ = ["Address", "FrontEnd", "FrontEndOptions", "SecurityOptions", "WorkerDefaults"]

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
    batching: BatchSettings = field(default_factory=BatchSettings)
    num_batch_threads: int | None = None
    request_bytes: int = 8 << 20
    reply_bytes: int = 8 << 20
    max_reply_bytes: int = 1 << 30
    in_process: bool = False


@dataclass(frozen=True, slots=True)
class SecurityOptions:
    """Who may listen in, and who may ask.

    Attributes:
        certificate: The TLS certificate chain in PEM; None: plain HTTP.
        key: Its key.
        token_file: Bearer tokens, one of which a request needs; None: everybody may ask.
        guard_health: Health and readiness need a token, too.
    """

    certificate: Path | None = None
    key: Path | None = None
    token_file: Path | None = None
    guard_health: bool = False


@dataclass(frozen=True, slots=True)
class FrontEndOptions:
    """A front end's parts, each with its own options.

    Attributes:
        models: What to serve.
        listen: Where to listen.
        http: Limits of connections and bodies.
        inference: How requests are carried.
        tfserving: How TensorFlow Serving's API answers.
        security: TLS and tokens.
        read_models: Reads the models anew, off the loop; raises SpecError. None: they stay.
        read_models_every_s: Seconds between such readings; None: only when asked to reload.
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
    security: SecurityOptions = SecurityOptions()
    read_models: Callable[[], Sequence[ModelSource]] | None = None
    read_models_every_s: float | None = None
    workers: WorkerDefaults = field(default_factory=WorkerDefaults)
    supervisor: SupervisorOptions = field(default_factory=SupervisorOptions)
    max_in_flight_rows: int = 1 << 17
    max_in_flight_bytes: int = 1 << 30
    drain_s: float = 30.0
    tfserving_metrics_path: str | None = None


class FrontEnd:
    """Sockets, routes and workers of one process. All methods run on its loop."""

    def __init__(self, options: FrontEndOptions) -> None:
        """Make the parts; nothing is opened or started yet.

        Raises:
            SpecError: Certificate, key or tokens cannot be used.
        """
        self._options = options
        security = options.security
        self._certificate = _certificate(security)
        self._guard = _token_guard(security)
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(_CODEC_THREADS, thread_name_prefix="codec")
        self._registry: Registry[Endpoint] = Registry(self._forget_routes)
        self._supervisor = Supervisor(options.supervisor)
        inference = Inference(options.inference, loop=self._loop, executor=self._executor)
        self._metrics = RequestMetrics()
        api = TensorFlowServingApi(self._registry, inference, options.tfserving, self._metrics)
        pages = MetricsPages(self._snapshot, loop=self._loop, executor=self._executor)
        handlers = pages.handlers(options.tfserving_metrics_path)
        application = Application(api, self.unready, handlers)
        self._listener = HttpListener(
            application,
            options.http,
            admit=self._guard.check if self._guard else None,
            refusal_headers=api.headers,
        )
        self._loader = VersionLoader(
            self._supervisor,
            worker_spec=self._worker_spec,
            make_endpoint=self._make_endpoint,
            on_unload=self._retire_metrics,
            on_change=self._forget_routes,
        )
        self._keeper = ModelKeeper(self._registry, self._loader)
        self._models_reader: ModelsReader | None = None
        if options.read_models is not None:
            self._models_reader = ModelsReader(options.read_models, self._reconfigure)
        self._polling: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None

    async def open(self) -> list[str]:
        """Open the ports, and begin to load the models.

        Returns:
            The URLs listened on.

        Raises:
            OSError: An address cannot be had.
        """
        sockets = _open_all(self._options.listen)
        # The first request must find the models known, though not loaded.
        self._reconfigure(self._options.models)
        tls = self._certificate.context if self._certificate else None
        await self._listener.start(sockets, tls=tls)
        self._tick()
        if self._models_reader is not None and self._options.read_models_every_s is not None:
            poll = self._models_reader.poll(self._options.read_models_every_s)
            self._polling = asyncio.create_task(poll, name="read the models' configuration")
        scheme = "https" if tls else "http"
        return [_url(scheme, *address) for address in self._listener.addresses]

    async def load(self) -> None:
        """Return when each model is available or has failed; all are watched from then on."""
        await self._keeper.settle()

    async def reload(self) -> None:
        """Take certificate, tokens and models anew from their files; what is bad changes nothing.

        Connections that are open go on under the old certificate.
        """
        if self._certificate is not None:
            reload_file(self._certificate.reload, "the certificate")
        if self._guard is not None and reload_file(self._guard.reload, "the list of tokens"):
            self._listener.forget_heads()
        if self._models_reader is not None:
            await self._models_reader.read(always_log=True)

    async def close(self) -> None:
        """Stop accepting, finish what runs, then end the workers."""
        if self._polling is not None:
            self._polling.cancel()
        await self._listener.stop(deadline_s=self._options.drain_s)
        await self._keeper.close()
        await self._supervisor.close(drain_s=1.0)
        if self._expiry is not None:
            self._expiry.cancel()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def unready(self) -> list[str]:
        """A sentence for each model that cannot answer."""
        latest = ((model.name, model.latest()) for model in self._registry)
        troubled = [
            f"{name}: {version.endpoint.trouble}"
            for name, version in latest
            if version is not None and version.endpoint is not None and version.endpoint.trouble
        ]
        return self._registry.unready() + troubled

    def _reconfigure(self, sources: Sequence[ModelSource]) -> None:
        self._keeper.reconfigure(sources)
        if self._metrics.configure(source.name for source in sources):
            self._listener.forget_heads()

    def _snapshot(self) -> Snapshot:
        options = self._options
        return Snapshot(
            self._metrics.read(),
            self._metrics.retired(),
            version_figures(self._loader.running()),
            server_figures(
                self._listener.state,
                max_rows=options.max_in_flight_rows,
                max_bytes=options.max_in_flight_bytes,
            ),
        )

    def _forget_routes(self) -> None:
        self._listener.state.forget_routes()

    def _retire_metrics(self, model: str, endpoint: Endpoint) -> None:
        self._metrics.retire(model, Series.of(endpoint.port.metrics()))

    def _tick(self) -> None:
        now_ns = time.monotonic_ns()
        for endpoint, _ in self._loader.running():
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
            batching=defaults.batching,
            num_batch_threads=defaults.num_batch_threads,
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


def _open_all(addresses: Sequence[Address]) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    try:
        for host, port in addresses:
            sockets += open_sockets(host, port)
    except OSError:
        for opened in sockets:
            opened.close()
        raise
    return sockets


def _certificate(security: SecurityOptions) -> Certificate | None:
    if security.certificate is None or security.key is None:
        return None
    return Certificate(security.certificate, security.key)


def _token_guard(security: SecurityOptions) -> TokenGuard | None:
    if security.token_file is None:
        return None
    open_paths = () if security.guard_health else HEALTH_PATHS
    return TokenGuard(security.token_file, open_paths=open_paths)


def _url(scheme: str, host: str, port: int) -> str:
    # The address of every interface is none that a person can open; this machine's is.
    host = {"::": "127.0.0.1", "0.0.0.0": "127.0.0.1"}.get(host, host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
