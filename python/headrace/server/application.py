"""Where the parts meet: an HTTP exchange goes in, the registry is asked, a ring takes the request.

What is fast here must stay fast: a predict of a small body costs one lookup by target, one lookup
of the endpoint, and one call into the core that decodes straight into the ring.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from headrace._core import DecodeOptions, EncodeOptions
from headrace.codec import check_predict
from headrace.dialects.tfserving import Failure, Route, failure_of, parse_target
from headrace.dialects.tfserving.errors import html_page
from headrace.dialects.tfserving.routes import is_rest
from headrace.errors import HeadraceError, ModelError
from headrace.serving.endpoint import Endpoint
from headrace.serving.registry import Registry

if TYPE_CHECKING:
    from headrace._core import Draft, Reply
    from headrace.server.messages import Exchange

__all__ = ["Application", "ApplicationOptions"]

_log = logging.getLogger(__name__)

Handler = Callable[["Exchange"], None]

# A client sends few different targets; a scanner sends many, which must not fill the memory.
_MAX_CACHED_TARGETS = 1024
_TEXT = b"text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class ApplicationOptions:
    """What the application itself needs to know.

    Attributes:
        timeout_s: From the request's arrival to its answer; None for no limit.
        large_body_bytes: Bodies from here on are decoded off the loop, so that small requests do
            not wait behind them.
        max_json_depth: Nesting of ignored members of a body.
    """

    timeout_s: float | None = 30.0
    large_body_bytes: int = 64 << 10
    max_json_depth: int = 10_000


class PredictCall:
    """A predict whose exchange waits for the worker."""

    __slots__ = ("_application", "_exchange", "deadline_ns")

    def __init__(self, application: Application, exchange: Exchange, deadline_ns: int) -> None:
        self._application = application
        self._exchange = exchange
        self.deadline_ns = deadline_ns

    def succeed(self, body: bytes) -> None:
        self._exchange.respond(200, body)

    def succeed_large(self, reply: Reply) -> None:
        self._application.encode_off_loop(self._exchange, reply)

    def fail(self, error: HeadraceError) -> None:
        self._application.fail(self._exchange, error)


class Application:
    """The handler of every exchange. Single-owner: the front end's loop."""

    def __init__(
        self,
        registry: Registry[Endpoint],
        options: ApplicationOptions,
        *,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
    ) -> None:
        self._registry = registry
        self._loop = loop
        self._executor = executor
        self._large_body_bytes = options.large_body_bytes
        self._timeout_ns = int((options.timeout_s or 0) * 1e9)
        self._max_json_depth = options.max_json_depth
        self._decode = DecodeOptions(check_shapes=True, max_depth=options.max_json_depth)
        self._encode = EncodeOptions()
        self._handlers: dict[tuple[bytes, bytes], Handler] = {}

    def __call__(self, exchange: Exchange) -> None:
        """Answer an exchange, now or later."""
        request = exchange.request
        key = (request.method, request.target)
        handler = self._handlers.get(key)
        if handler is None:
            handler = self._route(request.method.decode("latin-1"), request.target)
            if len(self._handlers) < _MAX_CACHED_TARGETS:
                self._handlers[key] = handler
        try:
            handler(exchange)
        except HeadraceError as error:
            self.fail(exchange, error)

    def fail(self, exchange: Exchange, error: BaseException) -> None:
        """Answer with an error."""
        if not isinstance(error, HeadraceError):
            _log.error("unexpected failure", exc_info=error)
            error = HeadraceError()
        failure = failure_of(error)
        exchange.respond(failure.status, failure.body())

    def encode_off_loop(self, exchange: Exchange, reply: Reply) -> None:
        """Encode a large reply on a thread, then answer."""

        def done(task: asyncio.Future[bytes]) -> None:
            if (error := task.exception()) is not None:
                self.fail(exchange, error)
            else:
                exchange.respond(200, task.result())

        self._loop.run_in_executor(self._executor, reply.encode).add_done_callback(done)

    def _route(self, method: str, raw_target: bytes) -> Handler:
        target = raw_target.decode("latin-1")
        path = target.partition("?")[0]
        if path == "/healthz":
            return _healthz
        if path == "/readyz":
            return self._readyz
        if not is_rest(target):
            return partial(_respond_html, 404, "Not Found")
        route = parse_target(method, target)
        if isinstance(route, Failure):
            return partial(_respond_failure, route)
        if route.verb == "predict":
            return partial(self._predict, route)
        failure = Failure(501, f"The {route.verb} API is not implemented yet")
        return partial(_respond_failure, failure)

    def _readyz(self, exchange: Exchange) -> None:
        unready = self._registry.unready()
        if unready:
            exchange.respond(503, "\n".join(unready).encode() + b"\n", content_type=_TEXT)
        else:
            exchange.respond(200, b"ok\n", content_type=_TEXT)

    def _predict(self, route: Route, exchange: Exchange) -> None:
        body = exchange.request.body
        try:
            endpoint = self._registry.find(route.model, route.version, route.label)
        except ModelError:
            # What is wrong with the body itself is said first.
            check_predict(body, max_depth=self._max_json_depth)
            raise
        deadline = time.monotonic_ns() + self._timeout_ns if self._timeout_ns else 0
        call = PredictCall(self, exchange, deadline)
        if len(body) >= self._large_body_bytes:
            self._predict_large(endpoint, call, exchange)
            return
        request_id = endpoint.submit(call, body, self._decode, self._encode)
        exchange.on_disconnect = partial(endpoint.cancel, request_id)

    def _predict_large(self, endpoint: Endpoint, call: PredictCall, exchange: Exchange) -> None:
        def decoded(task: asyncio.Future[Draft]) -> None:
            if exchange.closed:
                return
            try:
                request_id = endpoint.submit_draft(call, task.result(), self._encode)
            except Exception as error:
                self.fail(exchange, error)
            else:
                exchange.on_disconnect = partial(endpoint.cancel, request_id)

        future = self._loop.run_in_executor(
            self._executor, endpoint.prepare, exchange.request.body, self._decode
        )
        future.add_done_callback(decoded)


def _healthz(exchange: Exchange) -> None:
    exchange.respond(200, b"ok\n", content_type=_TEXT)


def _respond_html(status: int, reason: str, exchange: Exchange) -> None:
    page = html_page(status, reason)
    exchange.respond(status, page, content_type=b"text/html", headers=[(b"Connection", b"close")])


def _respond_failure(failure: Failure, exchange: Exchange) -> None:
    exchange.respond(failure.status, failure.body())
