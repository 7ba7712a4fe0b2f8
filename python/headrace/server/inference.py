"""One inference through the rings: decode, wait, encode; what is large happens off the loop.

What is fast here must stay fast: a small body costs one call into the core, which decodes straight
into the ring, and its answer one more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from headrace.errors import HeadraceError
from headrace.server.fast_path import FastAnswers, learn_route

if TYPE_CHECKING:
    from headrace._core import DecodeOptions, Draft, EncodeOptions, Reply
    from headrace.server.messages import Body, Exchange
    from headrace.serving.endpoint import Endpoint
    from headrace.tensors import GivenTensors

__all__ = ["Answerer", "Inference", "InferenceOptions"]

_log = logging.getLogger(__name__)

# Answers up to this size are encoded on the loop, where the core has not encoded them itself.
_LARGE_REPLY_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class InferenceOptions:
    """How requests are carried.

    Attributes:
        timeout_s: From a request's arrival to its answer; None for no limit.
        large_body_bytes: Bodies from here on are decoded off the loop, so that small requests do
            not wait behind them.
        max_json_depth: Nesting of ignored members of a body.
    """

    timeout_s: float | None = 30.0
    large_body_bytes: int = 64 << 10
    max_json_depth: int = 10_000


class Answerer(Protocol):
    """How a dialect answers; shared by the requests of one route."""

    def succeed(self, exchange: Exchange, body: Any) -> None:
        """The answer: the body that the core has encoded, or what `encode` returned."""

    def encode(self, reply: Reply) -> Any:
        """An answer that is large, or not for the core to encode; called on any thread."""

    def fail(self, exchange: Exchange, error: HeadraceError) -> None:
        """No answer, and why."""

    @property
    def fast(self) -> FastAnswers | None:
        """How good answers look, where the fast path may give them; else None."""


class _Call:
    """An exchange that waits for the worker."""

    __slots__ = ("_answerer", "_exchange", "_inference", "deadline_ns")

    def __init__(
        self, inference: Inference, exchange: Exchange, answerer: Answerer, deadline_ns: int
    ) -> None:
        self._inference = inference
        self._exchange = exchange
        self._answerer = answerer
        self.deadline_ns = deadline_ns

    def succeed(self, body: bytes) -> None:
        self._answerer.succeed(self._exchange, body)

    def succeed_large(self, reply: Reply) -> None:
        self._inference.encode(self._exchange, reply, self._answerer)

    def fail(self, error: HeadraceError) -> None:
        self._answerer.fail(self._exchange, error)


class Inference:
    """Carries requests to endpoints and answers back. Single-owner: the front end's loop."""

    def __init__(
        self, options: InferenceOptions, *, loop: asyncio.AbstractEventLoop, executor: Executor
    ) -> None:
        self.max_json_depth = options.max_json_depth
        self._loop = loop
        self._executor = executor
        self._large_body_bytes = options.large_body_bytes
        self._timeout_ns = int((options.timeout_s or 0) * 1e9)

    def submit(
        self,
        endpoint: Endpoint,
        exchange: Exchange,
        answerer: Answerer,
        *,
        decode: DecodeOptions,
        encode: EncodeOptions | None,
    ) -> None:
        """Send the body on its way; ``answerer`` hears of it exactly once, unless the client goes.

        Raises:
            DecodeError: The body is no request for this model.
            OverloadError: A bound is reached; nothing was accepted.
            ModelNotReady: The version is being unloaded.
        """
        body = exchange.request.body
        if len(body) < self._large_body_bytes:
            deadline_ns = exchange.began_ns + self._timeout_ns if self._timeout_ns else 0
            meter = exchange.request.head.meter
            request_id = endpoint.submit(
                _Call(self, exchange, answerer, deadline_ns),
                body,
                decode,
                encode,
                api=0 if meter is None else meter.number,
                receive_ns=exchange.receive_ns,
            )
            exchange.on_disconnect = partial(endpoint.cancel, request_id)
            if answerer.fast is not None and exchange.wants_route():
                learn_route(
                    exchange,
                    endpoint,
                    decode,
                    answerer.fast,
                    timeout_ns=self._timeout_ns,
                    adopt=partial(self._adopt, endpoint, answerer),
                )
        else:
            prepare = partial(endpoint.prepare, body, decode)
            self._submit_prepared(endpoint, exchange, answerer, prepare, encode)

    def submit_tensors(
        self,
        endpoint: Endpoint,
        exchange: Exchange,
        answerer: Answerer,
        *,
        read: Callable[[Body], GivenTensors],
        encode: EncodeOptions | None,
    ) -> None:
        """As `submit`, of a body that ``read`` makes tensors of; it is called on any thread."""
        body = exchange.request.body
        if len(body) < self._large_body_bytes:
            request_id = endpoint.submit_tensors(
                self._call(exchange, answerer),
                read(body),
                encode,
                api=_api_of(exchange),
                receive_ns=exchange.receive_ns,
            )
            exchange.on_disconnect = partial(endpoint.cancel, request_id)
        else:
            self._submit_prepared(
                endpoint, exchange, answerer, lambda: endpoint.prepare_tensors(read(body)), encode
            )

    def _submit_prepared(
        self,
        endpoint: Endpoint,
        exchange: Exchange,
        answerer: Answerer,
        prepare: Callable[[], Draft],
        encode: EncodeOptions | None,
    ) -> None:
        call, receive_ns = self._call(exchange, answerer), exchange.receive_ns

        def decoded(task: asyncio.Future[Draft]) -> None:
            endpoint.release()
            if exchange.closed:
                task.exception()  # nobody is left to hear of it
                return
            exchange.release_body()
            try:
                request_id = endpoint.submit_draft(
                    call, task.result(), encode, api=_api_of(exchange), receive_ns=receive_ns
                )
            except Exception as error:
                answerer.fail(exchange, _expected(error))
            else:
                exchange.on_disconnect = partial(endpoint.cancel, request_id)

        endpoint.hold()
        future = self._loop.run_in_executor(self._executor, prepare)
        future.add_done_callback(decoded)

    def _adopt(
        self, endpoint: Endpoint, answerer: Answerer, exchange: Exchange, request_id: int
    ) -> None:
        endpoint.adopt(self._call(exchange, answerer), request_id)
        exchange.on_disconnect = partial(endpoint.cancel, request_id)

    def _call(self, exchange: Exchange, answerer: Answerer) -> _Call:
        deadline_ns = exchange.began_ns + self._timeout_ns if self._timeout_ns else 0
        return _Call(self, exchange, answerer, deadline_ns)

    def encode(self, exchange: Exchange, reply: Reply, answerer: Answerer) -> None:
        """Encode an answer, on a thread if it is large, then send it."""
        if reply.nbytes <= _LARGE_REPLY_BYTES:
            try:
                answer = answerer.encode(reply)
            except Exception as error:
                answerer.fail(exchange, _expected(error))
            else:
                answerer.succeed(exchange, answer)
            return

        def encoded(task: asyncio.Future[Any]) -> None:
            if (error := task.exception()) is not None:
                answerer.fail(exchange, _expected(error))
            else:
                answerer.succeed(exchange, task.result())

        future = self._loop.run_in_executor(self._executor, answerer.encode, reply)
        future.add_done_callback(encoded)


def _api_of(exchange: Exchange) -> int:
    meter = exchange.request.head.meter
    return 0 if meter is None else meter.number


def _expected(error: BaseException) -> HeadraceError:
    """The error itself if we raise it on purpose; else it is logged, and the client told little."""
    if isinstance(error, HeadraceError):
        return error
    _log.error("unexpected failure", exc_info=error)
    return HeadraceError()
