"""One HTTP/1.1 connection: bytes in, exchanges to the handler, answers out in order.

Where incoming bytes go, one at a time:

    between requests ──► head complete ──► body complete in the same read ──────────► handler
          │   ▲               │
          ▼   │               ├─► known length, no coding: received in place (`_Body`) ──► handler
     partial head             └─► chunked or coded: a `Receiver` decodes it ───────────► handler

    deaf: nothing is looked at any more (the last request is in, or one was refused)
    held: reading is paused; too many answers are outstanding, or the client takes none

There are no timers here. ``_since`` says when the present wait began, by the listener's coarse
clock, and the listener's sweep calls ``check``; so no way of closing can leave a timer behind.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import Final, cast

import numpy as np

from headrace.server.body import SLACK_BYTES, Receiver, receiver
from headrace.server.head import HEAD_END, Head, PartialHead
from headrace.server.messages import Body, Exchange, Request
from headrace.server.refusal import RequestRefused, error_body
from headrace.server.state import ListenerState

__all__ = ["HttpConnection"]

_log = logging.getLogger(__name__)

# One read of a body received in place: large enough to be cheap, small enough that the loop comes
# back to other connections (libuv reads up to 32 times while reads fill what they are given).
_FILL_BYTES: Final = 512 << 10
# Taken of a compressed body at once: it may inflate to a thousand times its size.
_INFLATE_READ_BYTES: Final = 8 << 10
_INFLATED_PER_TURN_BYTES: Final = 1 << 20
# Several answers in one write are copied together up to this size.
_JOINED_BYTES: Final = 64 << 10
# Connections above the limit that may be waiting for their 503 to arrive; further ones get nothing.
_MOST_REFUSED_AT_ONCE: Final = 128
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


_NO_HEAD: Final = Head(b"\r\n\r\n", b"", b"", (1, 1))
_NO_HEAD.plain_length = sys.maxsize  # no read is as long
_NO_HEAD_OF_HEAD: Final = Head(b"\r\n\r\n", b"HEAD", b"", (1, 1))


class _Body:
    """A body of known length being received in place: one buffer, with slack after its end."""

    __slots__ = ("filled", "head", "memory", "size")

    def __init__(self, head: Head) -> None:
        self.head = head
        self.size = head.content_length
        # Not zeroed: a page becomes resident when its bytes come, not when they are announced.
        self.memory = np.empty(self.size + SLACK_BYTES, np.uint8).data
        self.filled = 0

    def window(self) -> memoryview:
        """Where the next bytes go. Ends with the body: what follows is another request's."""
        return self.memory[self.filled : min(self.filled + _FILL_BYTES, self.size)]


class HttpConnection(asyncio.BufferedProtocol):
    """The server's side of one connection. Single-owner: used from its event loop only."""

    __slots__ = (
        "_began_ns",
        "_body",
        "_closing",
        "_continue_due",
        "_counters",
        "_deaf",
        "_exchanges",
        "_flush_due",
        "_handler",
        "_head",
        "_heads",
        "_held",
        "_lingering",
        "_out",
        "_out_bytes",
        "_partial",
        "_paused",
        "_processing",
        "_received",
        "_receiver",
        "_since",
        "_transport",
        "_unsent",
        "_unsent_since",
        "_window",
        "_write_blocked",
        "state",
    )

    def __init__(self, state: ListenerState) -> None:
        self.state = state
        self._handler = state.handler
        self._heads = state.heads
        self._counters = state.counters
        self._transport: asyncio.Transport | None = None
        self._exchanges: deque[Exchange] = deque()
        self._out: list[Body] = []
        self._out_bytes = 0
        self._window = state.receive_memory
        self._partial: PartialHead | None = None
        self._body: _Body | None = None
        self._receiver: Receiver | None = None
        self._head: Head | None = None  # of the body that is being received
        self._received = 0  # bytes of it, as sent
        self._began_ns = 0  # when a request began that comes in pieces
        self._held: list[bytes] = []
        self._paused = False
        self._deaf = False
        self._lingering = False
        self._closing = False
        self._processing = False
        self._flush_due = False
        self._continue_due = False
        self._write_blocked = False
        self._since = state.now
        self._unsent = 0
        self._unsent_since = state.now

    # --- the transport's calls ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, or answer 503 if there are too many connections."""
        state = self.state
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        state.counters.connections += 1
        state.connections.add(self)
        excess = len(state.connections) - state.limits.max_connections
        if excess > 0:
            state.counters.connections_refused += 1
            if excess > _MOST_REFUSED_AT_ONCE:
                self.abort()
            else:
                self._refuse(_too_many_connections(state))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to read into."""
        return self._window

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read."""
        self._counters.bytes_received += nbytes
        if self._body is not None:
            self._fill(self._body, nbytes)
        elif self._deaf:
            if not self._lingering and self._transport is not None:
                self._lingering = True
                self._transport.pause_reading()
        elif self._exchanges or self._partial is not None or self._receiver is not None:
            self._process(self._window[:nbytes].tobytes())
        else:
            data = self._window[:nbytes].tobytes()
            end = data.find(HEAD_END) + 4
            try:
                head = self._heads[data[:end]] if end > 3 else _NO_HEAD
            except RequestRefused:
                head = _NO_HEAD
            if nbytes - end == head.plain_length and not self._write_blocked:
                # By far the commonest case, the last one of `_requests`: one whole request.
                self._dispatch(head, data[end:], 0, 0)
            else:
                self._process(data)

    def eof_received(self) -> bool:
        """The client will send no more, and is taken to be gone.

        A client that closed cannot be told from one that only finished sending; the former is the
        common case, and computing for nobody is what a server under load can least afford.
        """
        if self._out:
            self._flush()
        self._abandon()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything."""
        self._transport = None
        self.state.forget(self)
        self._abandon()

    def pause_writing(self) -> None:
        """The client does not take its answers: no further request is looked at."""
        self._write_blocked = True

    def resume_writing(self) -> None:
        """The client has taken most of its answers."""
        self._write_blocked = False
        self._resume_if_paused()

    # --- bytes in ----------------------------------------------------------------------------

    def _process(self, data: bytes) -> None:
        """Handle every request that ``data`` completes, then write all answers given at once."""
        self._processing = True
        try:
            self._requests(data)
        except RequestRefused as refusal:
            self._refuse(refusal)
        finally:
            self._processing = False
        if self._out:
            self._flush()

    def _requests(self, data: bytes) -> None:
        if self._partial is not None:
            data = self._partial.raw + data
        state = self.state
        heads, most = self._heads, state.limits.max_pipelined
        position, size = 0, len(data)
        while position < size and not self._deaf:
            if self._receiver is not None:
                position = self._decode(self._receiver, data, position)
                if self._paused:
                    self._held.append(data[position:])
                    return
                continue
            if self._out_bytes > _JOINED_BYTES:
                self._flush()  # so that the transport can say that the client takes no more
            if len(self._exchanges) >= most or self._write_blocked:
                self._hold(data[position:])
                return
            end = data.find(HEAD_END, position) + 4
            if end == 3:
                self._keep_partial(data[position:])
                return
            self._partial = None
            raw = data[position:end]
            try:
                head = heads[raw]
            except RequestRefused:
                if raw.strip():
                    raise
                position = end  # empty lines before a request line are skipped
                continue
            length = head.plain_length
            if size - end >= length:
                position = end + length
                self._dispatch(head, data[end:position], 0, 0)
            else:
                self._head = head
                if length <= state.limits.max_body_bytes:
                    self._receive_in_place(head, data[end:])
                    return
                self._begin_decoding(head)
                position = end

    def _keep_partial(self, raw: bytes) -> None:
        if self._partial is None:
            raw = raw.lstrip(b"\r\n")
            if not raw:
                return
            self._partial = PartialHead(self.state.limits)
            self._began_ns = time.monotonic_ns()
            self._since = self.state.now
        self._partial.update(raw)

    def _receive_in_place(self, head: Head, start: bytes) -> None:
        self.state.budget.take(head.content_length)
        self._body = body = _Body(head)
        self._began_ns = self._began_ns or time.monotonic_ns()
        body.memory[: len(start)] = start
        body.filled = len(start)
        self._window = body.window()
        self._since = self.state.now
        self._invite(head, bool(start))

    def _fill(self, body: _Body, nbytes: int) -> None:
        body.filled += nbytes
        if body.filled < body.size:
            self._window = body.window()
            return
        self._window = self.state.receive_memory
        self._body = self._head = None
        self._processing = True
        self._dispatch(body.head, body.memory[: body.size], SLACK_BYTES, body.size)
        self._processing = False
        if self._out:
            self._flush()

    def _begin_decoding(self, head: Head) -> None:
        state = self.state
        self._receiver = receiver(head, state.limits, state.budget)
        self._received = 0
        self._began_ns = self._began_ns or time.monotonic_ns()
        self._since = state.now
        if head.coding is not None:
            self._window = state.receive_memory[:_INFLATE_READ_BYTES]
        self._invite(head, False)

    def _decode(self, receiver: Receiver, data: bytes, position: int) -> int:
        head = self._head
        assert head is not None
        if head.coding is not None:
            data = data[: position + _INFLATE_READ_BYTES]
        before = receiver.sink.charge
        start, position = position, receiver.receive(data, position)
        self._received += position - start
        if receiver.done:
            body, charge = receiver.sink.finish(), receiver.sink.charge
            self._receiver = self._head = None
            self._window = self.state.receive_memory
            self._dispatch(head, body, SLACK_BYTES, charge)
        elif receiver.sink.charge - before > _INFLATED_PER_TURN_BYTES:
            self._yield_turn()
        return position

    def _yield_turn(self) -> None:
        """Let other connections go first: this one has kept the loop for some milliseconds."""
        if not self._paused and self._transport is not None:
            self._pause()
            self.state.loop.call_soon(self._resume_if_paused)

    def _invite(self, head: Head, begun: bool) -> None:
        """Send 100 Continue, when it is this request's turn to be answered."""
        if head.expects_continue and not begun:
            self._continue_due = True
            if not self._exchanges:
                self._send_continue()

    def _send_continue(self) -> None:
        self._continue_due = False
        self._out.append(_CONTINUE)
        self._out_bytes += len(_CONTINUE)

    # --- holding back ------------------------------------------------------------------------

    def _hold(self, rest: bytes) -> None:
        self._partial = None
        self._held.append(rest)
        self._pause()

    def _pause(self) -> None:
        self._paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def _resume_if_paused(self) -> None:
        if not self._paused or self._write_blocked or self._transport is None:
            return
        if len(self._exchanges) >= self.state.limits.max_pipelined:
            return
        self._paused = False
        held, self._held = b"".join(self._held), []
        if held and not self._deaf:
            self._process(held)
        if not self._paused and self._transport is not None:
            self._transport.resume_reading()

    # --- requests to the handler, answers out ------------------------------------------------

    def _dispatch(self, head: Head, body: Body, slack: int, charge: int) -> None:
        keep_alive = head.keep_alive and not self.state.draining
        exchange = Exchange(self, Request(head, body, slack), keep_alive, charge)
        if self._began_ns:
            exchange.receive_ns = exchange.began_ns - self._began_ns
            self._began_ns = 0
        self._exchanges.append(exchange)
        self._continue_due = False
        self._counters.requests += 1
        if not keep_alive:
            self._deaf = True
        try:
            self._handler(exchange)
        except Exception:
            _log.exception("the handler of %r failed", head.target[:256])
            if not exchange.answered:
                exchange.respond(500, error_body("Internal Server Error"))

    def worth_gzip(self, body: Body, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        """Whether an answer is large enough to be compressed, and is not yet."""
        least = self.state.limits.gzip_min_bytes
        if least is None or len(body) < least:
            return False
        return all(name.lower() != b"content-encoding" for name, _ in headers)

    def answer_plain(self, exchange: Exchange, data: bytes) -> None:
        """Send an answer that is one piece and not the connection's last: mostly the only one."""
        if (
            len(self._exchanges) > 1
            or self._processing
            or self._out
            or self._paused
            or self._continue_due
            or self._deaf
            or exchange.charge
            or self._transport is None
        ):
            self.answer(exchange, [data])
            return
        self._exchanges.clear()
        self._since = self.state.now
        self._counters.bytes_sent += len(data)
        self._transport.write(data)

    def answer(self, exchange: Exchange, parts: list[Body]) -> None:
        """Send an exchange's answer when those before it have been sent. Called by the exchange."""
        if exchange.charge:
            self.state.budget.give_back(exchange.charge)
            exchange.charge = 0
        exchanges = self._exchanges
        exchange.parts = parts
        if exchanges[0] is not exchange:
            return
        while exchanges and exchanges[0].parts is not None:
            first = exchanges.popleft()
            for part in first.parts or ():
                self._out.append(part)
                self._out_bytes += len(part)
            if not first.keep_alive:
                self._end_after_answer()
        if not exchanges and self._continue_due:
            self._send_continue()
        if self._processing:
            return
        if not exchanges:
            self._flush()
        elif not self._flush_due:
            # The handler may be about to answer the next one, too: then both go in one write.
            self._flush_due = True
            self.state.loop.call_soon(self._flush_later)

    def _end_after_answer(self) -> None:
        """The answer just given says that it is the last, whatever the client has sent since."""
        self._deaf = True
        if self._exchanges or self._body is not None or self._receiver is not None:
            self._lingering = True
            self._drop_input()
            self._abandon_exchanges()

    def _flush_later(self) -> None:
        self._flush_due = False
        if self._out:
            self._flush()

    def _flush(self) -> None:
        transport = self._transport
        out = self._out
        if transport is None:
            return
        size = self._out_bytes
        self._out = []
        self._out_bytes = 0
        self._counters.bytes_sent += size
        if len(out) == 1:
            transport.write(out[0])
        elif size <= _JOINED_BYTES:
            transport.write(b"".join(out))
        else:
            transport.writelines(out)
        self._since = self.state.now
        if self._deaf and not self._exchanges:
            self._close()
        elif self._paused:
            self.state.loop.call_soon(self._resume_if_paused)

    # --- the end -----------------------------------------------------------------------------

    def _refuse(self, refusal: RequestRefused) -> None:
        """Answer in its turn, then end: nobody knows where the next request would begin."""
        refusals = self.state.counters.refusals
        refusals[refusal.status] = refusals.get(refusal.status, 0) + 1
        to_head = refusal.to_head or (self._head is not None and self._head.is_head)
        if self._partial is not None:
            to_head = self._partial.raw.startswith(b"HEAD ")
        self._drop_input()
        self._deaf = self._lingering = True
        self._exchanges.append(refused := _refused_exchange(self, to_head))
        refused.respond(
            refusal.status,
            refusal.body,
            content_type=refusal.content_type,
            headers=(*refusal.headers, *self.state.refusal_headers),
        )

    def _close(self) -> None:
        """Close once everything is written; first stop sending if the client may still be at it."""
        transport = self._transport
        if transport is None or self._closing:
            return
        self._closing = True
        self._since = self.state.now
        if self._lingering and transport.can_write_eof():
            transport.write_eof()
            transport.resume_reading()
        else:
            transport.close()

    def drain(self) -> None:
        """End after the request that is being received or run; at once if there is none."""
        if self._deaf:
            return
        if self._body is not None or self._receiver is not None or self._partial is not None:
            return  # `_dispatch` makes this request the last
        self._deaf = True
        if self._exchanges:
            self._exchanges[-1].keep_alive = self._exchanges[-1].plain = False
        elif not self._out:
            self._close()

    def abort(self) -> None:
        """End now; what is outstanding is abandoned."""
        self._abandon()
        if self._transport is not None:
            self._transport.abort()

    def _drop_input(self) -> None:
        """Forget a request that is not complete, and give back what it holds."""
        budget = self.state.budget
        if self._body is not None:
            budget.give_back(self._body.size)
        if self._receiver is not None:
            budget.give_back(self._receiver.sink.charge)
        self._window = self.state.receive_memory
        self._body = self._receiver = self._head = self._partial = None
        self._held.clear()

    def _abandon(self) -> None:
        self._drop_input()
        self._deaf = True
        self._abandon_exchanges()
        self._out.clear()
        self._out_bytes = 0

    def _abandon_exchanges(self) -> None:
        while self._exchanges:
            exchange = self._exchanges.popleft()
            if exchange.charge:
                self.state.budget.give_back(exchange.charge)
                exchange.charge = 0
            exchange.disconnect()

    # --- time --------------------------------------------------------------------------------

    def check(self, now: float) -> None:
        """End the wait that has lasted too long, if one has. Called by the listener's sweep."""
        limits = self.state.limits
        transport = self._transport
        if transport is None:
            return
        waited = now - self._since
        unsent = transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent = unsent
            self._unsent_since = now
        if unsent and now - self._unsent_since > limits.write_timeout_s:
            self.state.counters.stalled += 1
            self.abort()
        elif self._closing:
            if not unsent and now - max(self._since, self._unsent_since) > limits.linger_timeout_s:
                self.abort()
        elif self._paused or self._deaf:
            pass  # we are the ones who let the client wait
        elif self._body is not None or self._receiver is not None:
            received = self._body.filled if self._body is not None else self._received
            if waited > limits.body_timeout_s + received / limits.min_body_bytes_per_s:
                self._refuse(
                    RequestRefused(408, f"the request body came too slowly: {received} bytes")
                )
        elif self._partial is not None:
            if waited > limits.header_timeout_s:
                self._refuse(RequestRefused(408, "the request headers did not come in time"))
        elif not self._exchanges and waited > limits.idle_timeout_s:
            self.state.counters.idle_closed += 1
            self._close()


def _refused_exchange(connection: HttpConnection, to_head: bool) -> Exchange:
    return Exchange(
        connection, Request(_NO_HEAD_OF_HEAD if to_head else _NO_HEAD, b"", 0), False, 0
    )


def _too_many_connections(state: ListenerState) -> RequestRefused:
    return RequestRefused(
        503,
        f"{state.limits.max_connections} connections are open, which is the limit; try again",
        headers=((b"Retry-After", b"%d" % state.limits.retry_after_s),),
    )
