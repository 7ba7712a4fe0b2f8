"""The bytes of one connection made requests. No I/O and no clock.

Where incoming bytes go, one at a time:

    between requests ──► head complete ──► body complete with it ───────────────────────► request
          │   ▲               │
          ▼   │               ├─► known length, no coding: received in place (`_Body`) ──► request
     partial head             └─► chunked or coded: a `Receiver` decodes it ─────────────► request
"""

from __future__ import annotations

import time
from typing import Final

import numpy as np

from headrace.server.body import SLACK_BYTES, Receiver, receiver
from headrace.server.head import HEAD_END, Head, PartialHead
from headrace.server.messages import Body
from headrace.server.refusal import RequestRefused
from headrace.server.state import ListenerState

__all__ = ["Incoming", "RequestReader"]

Incoming = tuple[Head, Body, int, int]
"""Head, body, readable bytes after it, and bytes of it that are taken from the budget."""

# One read of a body received in place: large enough to be cheap, small enough that the loop comes
# back to other connections (libuv reads up to 32 times while reads fill what they are given).
_FILL_BYTES: Final = 512 << 10
# Taken of a compressed body at once: it may inflate to a thousand times its size.
_INFLATE_READ_BYTES: Final = 8 << 10
_INFLATED_PER_TURN_BYTES: Final = 1 << 20


class _Body:
    """A body of known length being received in place: one buffer, with slack after its end."""

    __slots__ = ("filled", "head", "memory", "size")

    def __init__(self, head: Head, start: bytes) -> None:
        self.head = head
        self.size = head.content_length
        # Not zeroed: a page becomes resident when its bytes come, not when they are announced.
        self.memory = np.empty(self.size + SLACK_BYTES, np.uint8).data
        self.memory[: len(start)] = start
        self.filled = len(start)

    def window(self) -> memoryview:
        """Where the next bytes go. Ends with the body: what follows is another request's."""
        return self.memory[self.filled : min(self.filled + _FILL_BYTES, self.size)]


class RequestReader:
    """Takes bytes, and gives the requests that they complete one by one. Single-owner.

    Attributes:
        window: Where to read into next.
        began_ns: When the request began that comes in pieces, by ``time.monotonic_ns()``; else 0.
        since: When the present wait for the rest of one began, by the listener's coarse clock.
        invites: The client waits for ``100 Continue``; whoever has sent it resets this.
        is_tired: So much has been inflated at a stretch that others should have their turn; whoever
            has seen to that resets this.
    """

    __slots__ = (
        "_at",
        "_body",
        "_data",
        "_head",
        "_partial",
        "_received",
        "_receiver",
        "_state",
        "began_ns",
        "invites",
        "is_tired",
        "since",
        "window",
    )

    def __init__(self, state: ListenerState) -> None:
        self._state = state
        self._data = b""  # not looked at before _at
        self._at = 0
        self._partial: PartialHead | None = None
        self._body: _Body | None = None
        self._receiver: Receiver | None = None
        self._head: Head | None = None  # of the body that is being received
        self._received = 0  # bytes of it, as sent
        self.window = state.receive_memory
        self.began_ns = 0
        self.since = state.now
        self.invites = False
        self.is_tired = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing has come but whole requests that were given out."""
        return self._at == len(self._data) and not self.is_amid

    @property
    def is_amid(self) -> bool:
        """Whether the beginning of a request has been looked at, and its end has not come."""
        return self.is_in_head or self.is_in_body

    @property
    def is_in_head(self) -> bool:
        """Whether it is the head whose end has not come."""
        return self._partial is not None

    @property
    def is_in_body(self) -> bool:
        """Whether it is the body."""
        return self._body is not None or self._receiver is not None

    @property
    def may_begin(self) -> bool:
        """Whether bytes of a request wait of which none has been looked at."""
        return self._at < len(self._data) and not self.is_in_body

    @property
    def body_bytes(self) -> int:
        """What has come of a body, as sent."""
        return self._body.filled if self._body is not None else self._received

    @property
    def is_head_request(self) -> bool:
        """Whether the request that is being received has the method HEAD."""
        if self._partial is not None:
            return self._partial.raw.startswith(b"HEAD ")
        return self._head is not None and self._head.is_head

    def receive(self, nbytes: int) -> None:
        """Take what was read into `window`."""
        body = self._body
        if body is None:
            self._data = self._data[self._at :] + self.window[:nbytes].tobytes()
            self._at = 0
            return
        body.filled += nbytes
        if body.filled < body.size:
            self.window = body.window()

    def next_request(self) -> Incoming | None:
        """The next one that is complete; None until more comes, or `is_tired` has been seen to.

        Raises:
            RequestRefused: Nobody knows where the next request would begin.
        """
        if self._body is not None:
            return self._take_body(self._body)
        heads = self._state.heads
        while self._at < len(self._data):
            if self._receiver is not None:
                request = self._decode(self._receiver)
                if request is not None or self.is_tired:
                    return request
                continue
            data, at = self._data, self._at
            end = data.find(HEAD_END, at) + 4
            if end == 3:
                self._keep_partial()
                break
            self._partial = None
            raw = data[at:end]
            try:
                head = heads[raw]
            except RequestRefused:
                if raw.strip():
                    raise
                self._at = end  # empty lines before a request line are skipped
                continue
            length = head.plain_length
            if len(data) - end >= length:
                self._at = end + length
                return head, data[end : self._at], 0, 0
            self._at = end
            self._begin_body(head)
        return None

    def drop(self) -> None:
        """Forget what has come of a request that is not complete, and give back what it holds."""
        budget = self._state.budget
        if self._body is not None:
            budget.give_back(self._body.size)
        if self._receiver is not None:
            budget.give_back(self._receiver.sink.charge)
        self.window = self._state.receive_memory
        self._body = self._receiver = self._head = self._partial = None
        self._data, self._at = b"", 0

    def _keep_partial(self) -> None:
        raw = self._data[self._at :]
        if self._partial is None:
            raw = raw.lstrip(b"\r\n")
            self._data, self._at = raw, 0
            if not raw:
                return
            self._partial = PartialHead(self._state.limits)
            self._begin()
        self._partial.update(raw)

    def _begin_body(self, head: Head) -> None:
        state = self._state
        self._head = head
        if head.plain_length <= state.limits.max_body_bytes:
            start = self._data[self._at :]
            state.budget.take(head.content_length)
            self._body = _Body(head, start)
            self._data, self._at = b"", 0
            self.window = self._body.window()
            self.invites = head.expects_continue and not start
        else:
            self._receiver = receiver(head, state.limits, state.budget)
            self._received = 0
            if head.coding is not None:
                self.window = state.receive_memory[:_INFLATE_READ_BYTES]
            self.invites = head.expects_continue
        self._begin()

    def _begin(self) -> None:
        self.began_ns = self.began_ns or time.monotonic_ns()
        self.since = self._state.now

    def _take_body(self, body: _Body) -> Incoming | None:
        if body.filled < body.size:
            return None
        self.window = self._state.receive_memory
        self._body = self._head = None
        return body.head, body.memory[: body.size], SLACK_BYTES, body.size

    def _decode(self, receiver: Receiver) -> Incoming | None:
        head = self._head
        assert head is not None
        data, at = self._data, self._at
        if head.coding is not None:
            data = data[: at + _INFLATE_READ_BYTES]
        before = receiver.sink.charge
        self._at = receiver.receive(data, at)
        self._received += self._at - at
        if receiver.done:
            body, charge = receiver.sink.finish(), receiver.sink.charge
            self._receiver = self._head = None
            self.window = self._state.receive_memory
            return head, body, SLACK_BYTES, charge
        self.is_tired = receiver.sink.charge - before > _INFLATED_PER_TURN_BYTES
        return None
