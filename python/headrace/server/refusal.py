"""Answers that the HTTP layer gives by itself, before any handler sees a request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus

from headrace.errors import RemoteProtocolError

__all__ = ["RequestRefused", "error_body", "html_page", "reason_phrase"]

_REASONS = {status.value: status.phrase for status in HTTPStatus}
# TensorFlow Serving's own words where they differ from the registry's (spec section 3).
_REASONS |= {429: "Client Error", 499: "Client Error", 504: "Gateway Time-out"}


class RequestRefused(RemoteProtocolError):
    """A request that gets its answer here and ends its connection.

    Attributes:
        status: HTTP status.
        html: Whether the answer is the HTML page that TensorFlow Serving's HTTP library gives (for
            what that library itself refuses), or TensorFlow Serving's JSON error with the message.
        headers: Further response headers.
        to_head: Whether the method is HEAD, whose answer has no body.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        html: bool = False,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.html = html
        self.headers = tuple(headers)
        self.to_head = False

    @property
    def content_type(self) -> bytes:
        """Content type of the body."""
        return b"text/html" if self.html else b"application/json"

    @property
    def body(self) -> bytes:
        """The answer's body."""
        return html_page(self.status) if self.html else error_body(str(self))


def reason_phrase(status: int) -> str:
    """The words beside a status code in the status line."""
    return _REASONS.get(status, "Unknown")


def html_page(status: int) -> bytes:
    """What TensorFlow Serving's HTTP library answers by itself.

    Spec: TensorFlow Serving REST, section 3.
    """
    reason = reason_phrase(status)
    return (
        f"<HTML><HEAD>\n<TITLE>{status} {reason}</TITLE>\n</HEAD><BODY>\n"
        f"<H1>{reason}</H1>\n</BODY></HTML>\n"
    ).encode()


def error_body(message: str) -> bytes:
    """TensorFlow Serving's layout of a JSON error.

    Spec: TensorFlow Serving REST, section 3.
    """
    return f'{{\n    "error": {json.dumps(message, ensure_ascii=False)}\n}}'.encode()
