"""One HTTP/1.1 connection: exchanges to the handler, answers out in order.

Bytes become requests in two ways. A small request on a quiet connection goes the fast path
(``_core.FastConnection``, the base class): its body is decoded into the ring where it lies, and its
answer is written, without an object of this file's. Everything else goes by `RequestReader`,
`Exchange` and the handler: the general path. `unfold` is the way from the first to the second.

    deaf: nothing is looked at any more (the last request is in, or one was refused)
    paused: reading is; too many answers are outstanding, or the client takes none

There are no timers here. ``since`` says when the present wait began, by the listener's coarse
clock, and the listener's sweep calls ``check``; so no way of closing can leave a timer behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final, cast

from headrace._core import FastConnection
from headrace.server.head import Head
from headrace.server.messages import Body, Exchange, Request
from headrace.server.refusal import RequestRefused, error_body
from headrace.server.request_reader import RequestReader
from headrace.server.state import ListenerState

__all__ = ["HttpConnection"]

_log = logging.getLogger(__name__)

# Several answers in one write are copied together up to this size.
_JOINED_BYTES: Final = 64 << 10
# Connections above the limit that may be waiting for their 503 to arrive; further ones get nothing.
_MOST_REFUSED_AT_ONCE: Final = 128
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


_NO_HEAD: Final = Head(b"\r\n\r\n", b"", b"", (1, 1))
_NO_HEAD_OF_HEAD: Final = Head(b"\r\n\r\n", b"HEAD", b"", (1, 1))


class HttpConnection(FastConnection, asyncio.BufferedProtocol):
    """The server's side of one connection. Single-owner: used from its event loop only."""

    __slots__ = (
        "_closing",
        "_continue_due",
        "_deaf",
        "_exchanges",
        "_flush_due",
        "_lingering",
        "_out",
        "_out_bytes",
        "_paused",
        "_processing",
        "_reader",
        "_transport",
        "_unsent",
        "_unsent_since",
        "_write_blocked",
        "state",
    )

    def __init__(self, state: ListenerState) -> None:
        super().__init__(state.fast, state.receive_memory)
        self.state = state
        self._transport: asyncio.Transport | None = None
        self._reader = RequestReader(state)
        self._exchanges: deque[Exchange] = deque()
        self._out: list[Body] = []
        self._out_bytes = 0
        self._paused = False
        self._deaf = False
        self._lingering = False
        self._closing = False
        self._processing = False
        self._flush_due = False
        self._continue_due = False
        self._write_blocked = False
        self._unsent = 0
        self._unsent_since = state.now

    # --- the transport's calls; get_buffer and buffer_updated are the base's --------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, or answer 503 if there are too many connections."""
        state = self.state
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        self.write = self._transport.write
        state.counters.connections += 1
        state.connections.add(self)
        excess = len(state.connections) - state.limits.max_connections
        if excess > 0:
            state.counters.connections_refused += 1
            if excess > _MOST_REFUSED_AT_ONCE:
                self.abort()
            else:
                self._refuse(_too_many_connections(state))

    def receive(self, nbytes: int) -> None:
        """Take what was read. Called by the base with what is not for the fast path."""
        if self.is_quiet:
            self.unfold()
        if self._deaf:
            if not self._lingering and self._transport is not None:
                self._lingering = True
                self._transport.pause_reading()
            return
        self._reader.receive(nbytes)
        self._process()

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
        self._transport = self.write = None
        self.state.forget(self)
        self._abandon()

    def pause_writing(self) -> None:
        """The client does not take its answers: no further request is looked at."""
        self.unfold()
        self._write_blocked = True

    def resume_writing(self) -> None:
        """The client has taken most of its answers."""
        self._write_blocked = False
        self._resume_if_paused()

    # --- bytes in ----------------------------------------------------------------------------

    def _process(self) -> None:
        """Handle every request that is complete, then write all answers given at once."""
        reader = self._reader
        self._processing = True
        try:
            self._take_requests(reader)
        except RequestRefused as refusal:
            self._refuse(refusal)
        finally:
            self._processing = False
        self.window = reader.window
        if self._out:
            self._flush()

    def _take_requests(self, reader: RequestReader) -> None:
        most = self.state.limits.max_pipelined
        while not self._deaf:
            if self._out_bytes > _JOINED_BYTES:
                self._flush()  # so that the transport can say that the client takes no more
            if (len(self._exchanges) >= most or self._write_blocked) and reader.may_begin:
                self._pause()
                return
            request = reader.next_request()
            if request is None:
                break
            self._dispatch(*request)
        if reader.invites:
            # Sent when it is this request's turn to be answered.
            reader.invites = False
            self._continue_due = True
            if not self._exchanges:
                self._send_continue()
        if reader.is_tired and not self._deaf and self._transport is not None:
            self._pause()
            self.state.loop.call_soon(self._resume_if_paused)

    def _send_continue(self) -> None:
        self._continue_due = False
        self._out.append(_CONTINUE)
        self._out_bytes += len(_CONTINUE)

    def _pause(self) -> None:
        self._paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def _resume_if_paused(self) -> None:
        if not self._paused or self._write_blocked or self._transport is None:
            return
        if len(self._exchanges) >= self.state.limits.max_pipelined:
            return
        self._paused = self._reader.is_tired = False
        self._process()
        if not self._paused and self._transport is not None:
            self._transport.resume_reading()

    # --- requests to the handler, answers out ------------------------------------------------

    def _dispatch(self, head: Head, body: Body, slack: int, charge: int) -> None:
        reader = self._reader
        keep_alive = head.keep_alive and not self.state.draining
        exchange = Exchange(self, Request(head, body, slack), keep_alive, charge)
        if reader.began_ns:
            exchange.receive_ns = exchange.began_ns - reader.began_ns
            reader.began_ns = 0
        self._exchanges.append(exchange)
        self._continue_due = False
        self.state.counters.requests += 1
        if not keep_alive:
            self._deaf = True
        try:
            self.state.handler(exchange)
        except Exception:
            _log.exception("the handler of %r failed", head.target[:256])
            if not exchange.answered:
                exchange.respond(500, error_body("Internal Server Error"))

    def unfold(self) -> None:
        """Leave the fast path: a request that it carries gets the objects that all others have.

        Called before anything else happens than the next request after the answer.
        """
        self.is_quiet = False
        carried = self.take_carried()
        if carried is None:
            return
        head, adopt, request_id, began_ns = carried
        exchange = Exchange(self, Request(head, b"", 0), True, 0)
        exchange.began_ns = began_ns
        self._exchanges.append(exchange)
        adopt(exchange, request_id)

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
        self.since = self.state.now
        self.state.counters.bytes_sent += len(data)
        self.is_quiet = not self._write_blocked and self._reader.is_idle
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
        if self._exchanges or self._reader.is_in_body:
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
        self.state.counters.bytes_sent += size
        if len(out) == 1:
            transport.write(out[0])
        elif size <= _JOINED_BYTES:
            transport.write(b"".join(out))
        else:
            transport.writelines(out)
        self.since = self.state.now
        if self._deaf and not self._exchanges:
            self._close()
        elif self._paused:
            self.state.loop.call_soon(self._resume_if_paused)
        elif not (self._exchanges or self._continue_due or self._write_blocked):
            self.is_quiet = self._reader.is_idle and not self._processing

    # --- the end -----------------------------------------------------------------------------

    def _refuse(self, refusal: RequestRefused) -> None:
        """Answer in its turn, then end: nobody knows where the next request would begin."""
        refusals = self.state.counters.refusals
        refusals[refusal.status] = refusals.get(refusal.status, 0) + 1
        to_head = refusal.to_head or self._reader.is_head_request
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
        self.is_quiet = False
        self.since = self.state.now
        if self._lingering and transport.can_write_eof():
            transport.write_eof()
            transport.resume_reading()
        else:
            transport.close()

    def drain(self) -> None:
        """End after the request that is being received or run; at once if there is none."""
        self.unfold()
        if self._deaf:
            return
        if self._reader.is_amid:
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
        self._reader.drop()
        self.window = self._reader.window

    def _abandon(self) -> None:
        self.unfold()
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
        waited = now - self.since
        unsent = transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent = unsent
            self._unsent_since = now
        if unsent and now - self._unsent_since > limits.write_timeout_s:
            self.state.counters.stalled += 1
            self.abort()
        elif self._closing:
            if not unsent and now - max(self.since, self._unsent_since) > limits.linger_timeout_s:
                self.abort()
        elif self._paused or self._deaf or self.is_carrying:
            pass  # we are the ones who let the client wait
        elif self._reader.is_amid:
            self._check_reader(now)
        elif not self._exchanges and waited > limits.idle_timeout_s:
            self.state.counters.idle_closed += 1
            self._close()

    def _check_reader(self, now: float) -> None:
        limits, reader = self.state.limits, self._reader
        waited, received = now - reader.since, reader.body_bytes
        if reader.is_in_head:
            if waited > limits.header_timeout_s:
                self._refuse(RequestRefused(408, "the request headers did not come in time"))
        elif waited > limits.body_timeout_s + received / limits.min_body_bytes_per_s:
            self._refuse(RequestRefused(408, f"the request body came too slowly: {received} bytes"))


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
