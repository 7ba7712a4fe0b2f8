"""A closed-loop HTTP client over asyncio that looks at every answer: for checks, not figures."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit


class Client(asyncio.Protocol):
    """One connection. Subclasses say what to send next and look at what came.

    Understands answers with a Content-Length only, which every server here sends.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.address = parts.hostname, parts.port
        self._head = (
            f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._waiting = self._stopping = False
        self.ended: asyncio.Future[None] | None = None
        self.bad_status = 0
        """Answers with a status of 400 or more."""
        self.lost = 0
        """Requests that got no answer: the connection broke, or it was too late."""

    def next_body(self) -> bytes:
        """The body of the request that is sent next."""
        raise NotImplementedError

    def answered(self, status: int, body: bytes) -> None:
        """Called with every answer, before the next request is sent."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.ended = asyncio.get_running_loop().create_future()
        self._send()

    def _send(self) -> None:
        body = self.next_body()
        self._waiting = True
        self._transport.write(self._head + b"%d\r\n\r\n" % len(body) + body)

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._received[:end]).lower()
        length = int(head.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0])
        if len(self._received) < end + 4 + length:
            return
        body = bytes(self._received[end + 4 :])
        self._received.clear()
        self._take_answer(int(head[9:12]), body)

    def _take_answer(self, status: int, body: bytes) -> None:
        self._waiting = False
        self.bad_status += status >= 400
        self.answered(status, body)
        if self._stopping:
            self._transport.close()
        else:
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost += self._waiting
        if not self.ended.done():
            self.ended.set_result(None)

    def stop(self) -> None:
        """Closes after the answer that is on its way."""
        self._stopping = True


class CheckingClient(Client):
    """Sends the samples of a model in turn and holds every answer against its own request."""

    def __init__(
        self,
        url: str,
        samples: Sequence[tuple[bytes, Any]],
        first: int,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(url)
        self._samples, self._index, self._on_answer = samples, first - 1, on_answer
        self.right = 0
        self.wrong: list[bytes] = []
        """Bodies of status 200 that do not hold the predictions of their request."""

    def next_body(self) -> bytes:
        self._index = (self._index + 1) % len(self._samples)
        return self._samples[self._index][0]

    def answered(self, status: int, body: bytes) -> None:
        if status < 400:
            if same_predictions(body, self._samples[self._index][1]):
                self.right += 1
            else:
                self.wrong.append(body)
        self._on_answer()


def same_predictions(body: bytes, expected: Any) -> bool:
    """Whether an answer holds `expected`, floats within 1e-5: batches may round otherwise."""
    try:
        return _close(json.loads(body)["predictions"], expected)
    except (ValueError, KeyError, TypeError):
        return False


def _close(found: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return (
            isinstance(found, list)
            and len(found) == len(expected)
            and all(map(_close, found, expected))
        )
    return math.isclose(found, expected, rel_tol=1e-5, abs_tol=1e-6)


async def connect(clients: Sequence[Client]) -> None:
    """Opens every client's connection; each sends its first request at once."""
    loop = asyncio.get_running_loop()
    for client in clients:
        await loop.create_connection(lambda client=client: client, *client.address)


async def finish(clients: Sequence[Client], timeout_s: float = 10) -> None:
    """Stops the clients; a request whose answer does not come in time counts as lost."""
    for client in clients:
        client.stop()
    _, late = await asyncio.wait([client.ended for client in clients], timeout=timeout_s)
    for client in clients:
        client.lost += client.ended in late
