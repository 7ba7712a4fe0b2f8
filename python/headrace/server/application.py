"""The handler of every exchange: health, readiness, and the APIs by the form of their targets.

Which handler a request gets depends on its head alone. A client repeats its head, and equal heads
are one object, so the answer is kept there and a repeated request is not routed at all.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.dialects.tfserving.errors import html_page
from headrace.dialects.tfserving.routes import is_rest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.server.head import Head
    from headrace.server.messages import Exchange, Handler
    from headrace.server.tfserving_api import TensorFlowServingApi

__all__ = ["HEALTH_PATHS", "Application"]

HEALTH_PATHS = (b"/healthz", b"/readyz")
"""What probes ask for."""

_TEXT = b"text/plain; charset=utf-8"


class Application:
    """Single-owner: the front end's loop."""

    def __init__(
        self,
        tfserving: TensorFlowServingApi,
        unready: Callable[[], list[str]],
        pages: Mapping[str, Handler],
    ) -> None:
        """Join the parts.

        Args:
            tfserving: Answers everything under ``/v1/``.
            unready: A sentence for each configured model that cannot answer now.
            pages: What answers at these paths, by any method.
        """
        self._tfserving = tfserving
        self._unready = unready
        self._pages = pages

    def __call__(self, exchange: Exchange) -> None:
        """Answer an exchange, now or later."""
        head = exchange.request.head
        handler = head.handler
        if handler is None:
            handler = self._route(head)
            # A model that is not configured may become so, and is counted under its name then.
            if head.meter is None or head.meter.model:
                head.handler = handler
        handler(exchange)

    def _route(self, head: Head) -> Handler:
        target = head.target.decode("latin-1")
        path = target.partition("?")[0]
        if path == "/healthz":
            return _healthz
        if path == "/readyz":
            return self._readyz
        if page := self._pages.get(path):
            return page
        if is_rest(target):
            return self._tfserving.handler(head)
        return partial(_respond_page, 404, "Not Found")

    def _readyz(self, exchange: Exchange) -> None:
        if unready := self._unready():
            text = "\n".join(unready).encode("utf-8", "backslashreplace") + b"\n"
            exchange.respond(503, text, content_type=_TEXT)
        else:
            exchange.respond(200, b"ok\n", content_type=_TEXT)


def _healthz(exchange: Exchange) -> None:
    exchange.respond(200, b"ok\n", content_type=_TEXT)


def _respond_page(status: int, reason: str, exchange: Exchange) -> None:
    exchange.respond(status, html_page(status, reason), content_type=b"text/html")
