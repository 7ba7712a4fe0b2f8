"""Predict requests whose body or answer is no JSON, on TensorFlow Serving's URL."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from headrace.dialects.tfserving.binary import write_tensor
from headrace.dialects.tfserving.errors import Failure
from headrace.errors import HeadraceError
from headrace.server.inference import Answerer

if TYPE_CHECKING:
    from headrace._core import EncodeOptions, Reply
    from headrace.dialects.tfserving.binary import TensorAnswer, TensorBody
    from headrace.dialects.tfserving.routes import Route
    from headrace.server.messages import Exchange
    from headrace.server.tfserving_api import TensorFlowServingApi

__all__ = ["Answers", "TensorAnswers", "TensorRun"]


class Answers(Answerer, Protocol):
    """How answers of one head go out."""

    @property
    def route(self) -> Route:
        """What is asked."""

    @property
    def options(self) -> EncodeOptions | None:
        """How the core encodes them; None: it does not."""


class TensorAnswers:
    """Answers that are a tensor, of one head; also its handler, where bodies are JSON."""

    __slots__ = ("_api", "_media_type", "_outputs", "options", "route")

    def __init__(
        self, api: TensorFlowServingApi, route: Route, outputs: tuple[str, ...], media_type: bytes
    ) -> None:
        self._api = api
        self._outputs = outputs
        self._media_type = media_type
        self.route = route
        self.options = None

    def __call__(self, exchange: Exchange) -> None:
        """Answer a request in JSON."""
        try:
            self._api.run(self, exchange)
        except HeadraceError as error:
            self._api.fail(exchange, error)

    def succeed(self, exchange: Exchange, answer: TensorAnswer | Failure) -> None:
        """Send what `encode` returned."""
        if isinstance(answer, Failure):
            self._api.refuse(answer, exchange)
        else:
            self._api.respond_tensor(exchange, answer)

    def encode(self, reply: Reply) -> TensorAnswer | Failure:
        """The tensor that was asked for, or why there is none."""
        began_ns = time.monotonic_ns()
        answer = write_tensor(reply.tensors(), self._outputs, self._media_type)
        if not isinstance(answer, Failure):
            reply.record_encode_ns(time.monotonic_ns() - began_ns)
        return answer

    def fail(self, exchange: Exchange, error: HeadraceError) -> None:
        """Send an error, as JSON."""
        self._api.fail(exchange, error)

    @property
    def fast(self) -> None:
        """The fast path answers in JSON."""


class TensorRun:
    """The handler of one head whose bodies are a tensor."""

    __slots__ = ("_answers", "_api", "_form")

    def __init__(self, api: TensorFlowServingApi, answers: Answers, form: TensorBody) -> None:
        self._api = api
        self._answers = answers
        self._form = form

    def __call__(self, exchange: Exchange) -> None:
        """Answer a request of this form."""
        try:
            self._api.run_tensors(self._answers, self._form, exchange)
        except HeadraceError as error:
            self._api.fail(exchange, error)
