"""The server under load: its URL, its headers, and what it says when asked singly."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

from headrace.bench.plan import Trust
from headrace.errors import SpecError

__all__ = ["Target", "TargetFailed", "message_in", "parse_header"]

_VERB = re.compile(r"(?P<model>.*/v1/models/[^:]+):predict")


class TargetFailed(Exception):
    """The server cannot be reached, or refuses what is sent.

    Attributes:
        status: Of its answer; None where there is none.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


def parse_header(text: str) -> tuple[str, str]:
    """``Name: value``.

    Raises:
        ValueError: It is none, or its value could not be sent.
    """
    name, colon, value = text.partition(":")
    value = value.strip(" \t")
    if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise ValueError(f"{text!r}: expected a header such as 'Name: value'")
    if re.search(r"[^\t\x20-\x7e\x80-\xff]", value):
        raise ValueError(f"{text!r}: a header's value is one line of Latin-1 text")
    if name.lower() in {"content-length", "transfer-encoding", "connection"}:
        raise ValueError(f"{text!r}: this header is the load generator's own")
    return name, value


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go. See `parse`.

    Attributes:
        url: With its path.
        headers: Sent with each request.
        tls: For HTTPS; None: HTTP.
    """

    url: SplitResult
    headers: tuple[tuple[str, str], ...]
    tls: Trust | None

    @classmethod
    def parse(
        cls, url: str, model: str | None, headers: Sequence[tuple[str, str]], trust: Trust
    ) -> Target:
        """A server, or the whole URL up to the verb.

        Raises:
            ValueError: It is no URL, or a server without a model.
        """
        parts = urlsplit(url)
        # .port raises ValueError where it is no port.
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
            raise ValueError(f"{url!r}: expected a URL such as http://127.0.0.1:8501")
        if parts.path in {"", "/"}:
            if model is None:
                raise ValueError("which model? --model NAME, or a URL up to :predict")
            parts = parts._replace(path=f"/v1/models/{quote(model, safe='')}:predict")
        elif model is not None:
            raise ValueError("--model goes with the URL of a server, and this one has a path")
        return cls(parts, tuple(headers), trust if parts.scheme == "https" else None)

    @property
    def host(self) -> str:
        """Its name or address."""
        return self.url.hostname or ""

    @property
    def port(self) -> int:
        """Its port."""
        return self.url.port or (443 if self.url.scheme == "https" else 80)

    def message(self, body: bytes) -> bytes:
        """A whole POST request."""
        head = [
            f"POST {self._request_target(self.url.path)} HTTP/1.1",
            f"Host: {self.url.netloc.rpartition('@')[2]}",
            *(f"{name}: {value}" for name, value in self._headers().items()),
            f"Content-Length: {len(body)}",
        ]
        return "\r\n".join([*head, "", ""]).encode("latin-1") + body

    def metadata(self, timeout_s: float) -> Mapping[str, Any]:
        """What the server says of the model.

        Raises:
            TargetFailed: It does not say it.
            SpecError: The URL is none of a model's ``:predict``.
        """
        match = _VERB.fullmatch(self.url.path)
        if match is None:
            raise SpecError("bodies can be made for URLs that end with :predict: give a body")
        answer = self._ask("GET", match["model"] + "/metadata", None, timeout_s)
        try:
            found: Mapping[str, Any] = json.loads(answer)
        except ValueError:
            raise SpecError("the model's metadata is no JSON") from None
        return found

    def try_once(self, body: bytes, timeout_s: float) -> None:
        """Send a body.

        Raises:
            TargetFailed: The answer's status is not 2xx, or there is none.
        """
        self._ask("POST", self.url.path, body, timeout_s)

    def _headers(self) -> dict[str, str]:
        named = {name.lower() for name, _ in self.headers}
        default = {} if "content-type" in named else {"Content-Type": "application/json"}
        return {**default, **dict(self.headers)}

    def _request_target(self, path: str) -> str:
        return (path or "/") + (f"?{self.url.query}" if self.url.query else "")

    def _ask(self, method: str, path: str, body: bytes | None, timeout_s: float) -> bytes:
        where = f"{self.url.scheme}://{self.url.netloc.rpartition('@')[2]}{path}"
        connection = self._connection(timeout_s)
        try:
            connection.request(method, self._request_target(path), body, self._headers())
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            # HTTPException often says nothing but its name.
            said = error or type(error).__name__
            raise TargetFailed(f"no answer from {where}: {said}") from error
        finally:
            connection.close()
        if not 200 <= response.status < 300:
            raise TargetFailed(
                f"{where}: {response.status} {response.reason}: {message_in(answer)}",
                response.status,
            )
        return answer

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self.tls is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)
        context: ssl.SSLContext = self.tls.context()
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout_s, context=context)


def message_in(answer: bytes) -> str:
    """What an error answer says, on one line: its ``error`` member, else how it begins."""
    text = answer.decode(errors="replace")
    with contextlib.suppress(ValueError, KeyError, TypeError):
        text = str(json.loads(text)["error"])
    return " ".join(text.split())[:300] or "(an empty answer)"
