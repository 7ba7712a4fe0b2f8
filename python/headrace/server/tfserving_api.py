"""TensorFlow Serving's REST API over the registry and the rings; its grammar is the dialect's."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from headrace._core import DecodeOptions, EncodeOptions
from headrace.codec import check_examples, check_predict
from headrace.dialects.tfserving.binary import parse_answer_form, parse_body_form
from headrace.dialects.tfserving.errors import Failure, failure_of
from headrace.dialects.tfserving.routes import Route, parse_target
from headrace.dialects.tfserving.status import VersionStatus, metadata_body, status_body
from headrace.dialects.tfserving.wishes import Wishes, parse_wishes
from headrace.errors import HeadraceError, ModelError, ModelNotFound
from headrace.server.fast_path import FastAnswers
from headrace.server.tensor_run import Answers, TensorAnswers, TensorRun

if TYPE_CHECKING:
    from headrace._core import Reply
    from headrace.dialects.tfserving.binary import TensorAnswer, TensorBody
    from headrace.server.head import Head
    from headrace.server.inference import Inference
    from headrace.server.messages import Exchange, Handler
    from headrace.serving.endpoint import Endpoint
    from headrace.serving.metrics import RequestMeter, RequestMetrics
    from headrace.serving.registry import Registry, Version

__all__ = ["TensorFlowServingApi", "TensorFlowServingOptions"]

Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class TensorFlowServingOptions:
    """How this API answers.

    Attributes:
        cors: Add the CORS headers to every answer.
        asks_token: Pages of other origins may send an Authorization header, too.
        wishes: The form of answers where the client wishes nothing else.
        invalid_utf8_as_b64: A string output that is not UTF-8 is answered as ``{"b64": ...}``
            instead of an error.
    """

    cors: bool = False
    asks_token: bool = False
    wishes: Wishes = field(default_factory=Wishes)
    invalid_utf8_as_b64: bool = False


class TensorFlowServingApi:
    """Handlers for everything under ``/v1/``. Single-owner: the front end's loop."""

    def __init__(
        self,
        registry: Registry[Endpoint],
        inference: Inference,
        options: TensorFlowServingOptions,
        metrics: RequestMetrics,
    ) -> None:
        self._registry = registry
        self._inference = inference
        self._options = options
        self._metrics = metrics
        self.headers: Headers = _cors_headers(options) if options.cors else ()
        """On every answer."""
        self._decode = {
            method: DecodeOptions(
                check_shapes=True, max_depth=inference.max_json_depth, method=method
            )
            for method in ("predict", "classify", "regress")
        }

    def handler(self, head: Head) -> Handler:
        """What answers requests with this head; gives it the meter that counts them."""
        method, target = head.method.decode("latin-1"), head.target.decode("latin-1")
        if method == "OPTIONS":
            return partial(self._preflight, _has_web_origin(head))
        route = parse_target(method, target)
        head.meter = self._meter(route)
        wishes = parse_wishes(target, head.headers, self._options.wishes)
        failure = next((f for f in (route, wishes) if isinstance(f, Failure)), None)
        if failure is not None:
            return partial(self.refuse, failure)
        assert isinstance(route, Route)
        assert isinstance(wishes, Wishes)
        match route.verb:
            case "status":
                return self._guard(partial(self._status, route))
            case "metadata":
                return self._guard(partial(self._metadata, route))
            case "predict":
                return self._predict_handler(head, target, route, wishes)
        return _Run(self, route, wishes)

    def _predict_handler(self, head: Head, target: str, route: Route, wishes: Wishes) -> Handler:
        """The handler for the forms of body and answer that the head asks for."""
        body_form = parse_body_form(target, head.headers)
        answer_form = parse_answer_form(head.headers)
        if isinstance(body_form, Failure):
            return partial(self.refuse, body_form)
        run: _Run | TensorAnswers = _Run(self, route, wishes)
        if answer_form is not None:
            run = TensorAnswers(self, route, wishes.outputs, answer_form)
        return run if body_form is None else TensorRun(self, run, body_form)

    def _meter(self, route: Route | Failure) -> RequestMeter:
        if isinstance(route, Failure):
            return self._metrics.meter("", "")
        return self._metrics.meter(route.model if route.model in self._registry else "", route.verb)

    def run(self, run: Answers, exchange: Exchange) -> None:
        """Send a predict, classify or regress to its endpoint.

        Raises:
            HeadraceError: What `failure_of` has an answer for.
        """
        route = run.route
        try:
            endpoint = self._registry.find(route.model, route.version, route.label)
        except ModelError:
            # What is wrong with the body itself is said first.
            check = check_predict if route.verb == "predict" else check_examples
            check(exchange.request.body, max_depth=self._inference.max_json_depth)
            raise
        self._inference.submit(
            endpoint, exchange, run, decode=self._decode[route.verb], encode=run.options
        )

    def run_tensors(self, answers: Answers, form: TensorBody, exchange: Exchange) -> None:
        """The same for a predict whose body is a tensor, except that the body is judged last."""
        route = answers.route
        endpoint = self._registry.find(route.model, route.version, route.label)
        read = partial(form.read, endpoint.signatures)
        self._inference.submit_tensors(
            endpoint, exchange, answers, read=read, encode=answers.options
        )

    def encode_options(self, wishes: Wishes) -> EncodeOptions:
        """The core's options for a form of answer."""
        return EncodeOptions(
            pretty=wishes.pretty,
            non_finite=wishes.non_finite,
            int64_as_string=wishes.int64_as_string,
            invalid_utf8="b64" if self._options.invalid_utf8_as_b64 else "error",
            outputs=list(wishes.outputs),
        )

    def respond(self, exchange: Exchange, body: bytes) -> None:
        """A good answer."""
        exchange.respond(200, body, headers=self.headers)

    def respond_tensor(self, exchange: Exchange, answer: TensorAnswer) -> None:
        """A good answer that is no JSON."""
        headers = self.headers + answer.headers
        exchange.respond(200, answer.body, content_type=answer.content_type, headers=headers)

    def fail(self, exchange: Exchange, error: HeadraceError) -> None:
        """An answer that is an error."""
        self.refuse(failure_of(error), exchange)

    def refuse(self, failure: Failure, exchange: Exchange) -> None:
        """An answer that says what is wrong."""
        exchange.respond(failure.status, failure.body(), headers=self.headers)

    def _guard(self, handler: Handler) -> Handler:
        def guarded(exchange: Exchange) -> None:
            try:
                handler(exchange)
            except HeadraceError as error:
                self.fail(exchange, error)

        return guarded

    def _preflight(self, from_web: bool, exchange: Exchange) -> None:
        exchange.respond(
            200 if from_web else 400,
            b"",
            content_type=b"text/html; charset=ISO-8859-1",
            headers=self.headers,
        )

    def _status(self, route: Route, exchange: Exchange) -> None:
        number = route.version
        if route.label is not None:
            number = self._registry.labelled(route.model, route.label)
        try:
            versions = self._registry.model(route.model).versions.values()
        except ModelNotFound as error:
            self.refuse(_no_versions(route, None, error.detail), exchange)
            return
        chosen = [v for v in versions if number is None or v.number == number]
        if chosen:
            self.respond(exchange, status_body(map(_version_status, chosen)))
        else:
            self.refuse(_no_versions(route, number), exchange)

    def _metadata(self, route: Route, exchange: Exchange) -> None:
        endpoint = self._registry.find(route.model, route.version, route.label)
        body = metadata_body(route.model, endpoint.version, endpoint.signatures)
        self.respond(exchange, body)


class _Run:
    """The handler of one route that runs a model, and how its answers go out."""

    __slots__ = ("_api", "fast", "options", "route")

    def __init__(self, api: TensorFlowServingApi, route: Route, wishes: Wishes) -> None:
        self._api = api
        self.route = route
        self.options = api.encode_options(wishes)
        lines = b"".join(b"%b: %b\r\n" % header for header in api.headers)
        self.fast: FastAnswers | None = FastAnswers(self.options, lines)

    def __call__(self, exchange: Exchange) -> None:
        try:
            self._api.run(self, exchange)
        except HeadraceError as error:
            self._api.fail(exchange, error)

    def succeed(self, exchange: Exchange, body: bytes) -> None:
        self._api.respond(exchange, body)

    def encode(self, reply: Reply) -> bytes:
        return reply.encode()

    def fail(self, exchange: Exchange, error: HeadraceError) -> None:
        self._api.fail(exchange, error)


def _cors_headers(options: TensorFlowServingOptions) -> Headers:
    allowed = b"Content-Type, Authorization" if options.asks_token else b"Content-Type"
    return (
        (b"Access-Control-Allow-Origin", b"*"),
        (b"Access-Control-Allow-Methods", b"POST, GET"),
        (b"Access-Control-Allow-Headers", allowed),
    )


def _has_web_origin(head: Head) -> bool:
    origin = dict(head.headers).get(b"origin", b"")
    return b"http://" in origin or b"https://" in origin


def _no_versions(route: Route, number: int | None, detail: str = "") -> Failure:
    which = "any versions" if number is None else f"version {number}"
    literal = f"Could not find {which} of model {route.model}"
    return Failure(404, f"{literal} ({detail})" if detail else literal)


def _version_status(version: Version[Endpoint]) -> VersionStatus:
    if version.failure:
        return VersionStatus(version.number, version.state.value, "UNKNOWN", version.failure)
    return VersionStatus(version.number, version.state.value)
