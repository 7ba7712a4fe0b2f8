"""Listening sockets and the life of a server's connections: open, sweep, drain."""

from __future__ import annotations

import asyncio
import errno
import functools
import resource
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from headrace.server.connection import HttpConnection
from headrace.server.head import Head
from headrace.server.limits import HttpLimits
from headrace.server.messages import Handler
from headrace.server.state import ListenerState

__all__ = ["HttpListener", "open_sockets"]

# TensorFlow Serving's 128 overflows when a few hundred clients connect at once; the kernel lowers
# this to net.core.somaxconn.
_BACKLOG: Final = 2048
# Open files that are not connections: the loop's own, rings, workers, logs, models being read.
_OTHER_FILES: Final = 128


def open_sockets(
    host: str | None,
    port: int,
    *,
    backlog: int = _BACKLOG,
    reuse_port: bool = False,
) -> list[socket.socket]:
    """Listening sockets for a host, none of them inherited by other programs. May block on DNS.

    Args:
        host: None for every interface: one socket for IPv6 and IPv4 alike, or IPv4 alone where the
            machine has no IPv6. A name is bound at each of its addresses.
        port: 0 lets the kernel choose, the same port for all addresses.
        backlog: Connections that may wait to be accepted.
        reuse_port: Let other processes bind the same port; the kernel spreads connections.

    Raises:
        OSError: An address cannot be bound; the message names it.
    """
    if host is None:
        return [_open_on_every_interface(port, backlog, reuse_port)]
    found = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_ADDRCONFIG
    )
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((family, address) for family, *_, address in found):
            if sockets:
                port = sockets[0].getsockname()[1]
            bound = (address[0], port, *address[2:])
            sockets.append(_open(family, bound, backlog, reuse_port=reuse_port))
    except OSError:
        for opened in sockets:
            opened.close()
        raise
    return sockets


def _open_on_every_interface(port: int, backlog: int, reuse_port: bool) -> socket.socket:
    try:
        return _open(
            socket.AF_INET6, ("::", port, 0, 0), backlog, reuse_port=reuse_port, dual_stack=True
        )
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise
        return _open(socket.AF_INET, ("0.0.0.0", port), backlog, reuse_port=reuse_port)


def _open(
    family: int,
    address: tuple[str | int, ...],
    backlog: int,
    *,
    reuse_port: bool,
    dual_stack: bool = False,
) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not dual_stack))
        listening.bind(address)
        listening.listen(backlog)
    except OSError as error:
        listening.close()
        where = f"[{address[0]}]" if family == socket.AF_INET6 else address[0]
        raise OSError(
            error.errno, f"cannot listen on {where}:{address[1]}: {error.strerror}"
        ) from error
    return listening


class HttpListener:
    """An HTTP/1.1 server on some sockets. Belongs to one event loop, and is made on it.

    Example::

        listener = HttpListener(handler)
        await listener.start(open_sockets("127.0.0.1", 0))
        ...
        await listener.stop(deadline_s=30)
    """

    def __init__(
        self,
        handler: Handler,
        limits: HttpLimits | None = None,
        *,
        admit: Callable[[Head], None] | None = None,
        refusal_headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """Prepare; nothing is opened.

        Args:
            handler: Called with each exchange.
            limits: The bounds.
            admit: Judges a head before its body is received; raises RequestRefused. Heads that it
                let pass are remembered until `forget_heads`.
            refusal_headers: On every answer to a request that never reaches the handler.
        """
        limits = limits or HttpLimits()
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files != resource.RLIM_INFINITY:
            most = max(1, min(limits.max_connections, files - _OTHER_FILES))
            limits = replace(limits, max_connections=most)
        self._loop = asyncio.get_running_loop()
        self.state: Final = ListenerState(
            handler, limits, self._loop, admit=admit, refusal_headers=refusal_headers
        )
        self._servers: list[asyncio.Server] = []
        self._timer: asyncio.TimerHandle | None = None
        self.addresses: list[tuple[str, int]] = []
        """Host and port of each socket, as bound."""

    async def start(
        self, sockets: Sequence[socket.socket], *, tls: ssl.SSLContext | None = None
    ) -> None:
        """Accept connections. The sockets belong to the listener from now on."""
        factory = functools.partial(HttpConnection, self.state)
        limits = self.state.limits
        # A client that is silent before its first request is bounded like one that is in its head;
        # one that does not say goodbye, like any that lingers.
        timeouts: dict[str, Any] = {
            "ssl_handshake_timeout": limits.header_timeout_s,
            "ssl_shutdown_timeout": limits.linger_timeout_s,
        }
        for listening in sockets:
            self.addresses.append(listening.getsockname()[:2])
            self._servers.append(
                await self._loop.create_server(
                    factory,
                    sock=listening,
                    ssl=tls,
                    backlog=_BACKLOG,
                    **(timeouts if tls is not None else {}),
                )
            )
        if self._timer is None:
            self._tick()

    def forget_heads(self) -> None:
        """Judge each head anew from now on."""
        self.state.heads.clear()
        self.state.forget_routes()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(self.state.limits.tick_s, self._tick)
        self.state.tick()

    async def stop(self, *, deadline_s: float) -> None:
        """Stop accepting, finish the requests that are being received or run, close the rest.

        What is not finished after ``deadline_s`` seconds is cut off.
        """
        for server in self._servers:
            server.close()
        state = self.state
        # Requests that have arrived but are still in the kernel are read first: two turns of the
        # loop, with a poll in between. Only then is a silent connection an idle one.
        for _ in range(2):
            await asyncio.sleep(0)
        state.draining = True
        for connection in tuple(state.connections):
            connection.drain()
        if state.connections:
            state.emptied = self._loop.create_future()
            await asyncio.wait([state.emptied], timeout=deadline_s)
            for connection in tuple(state.connections):
                connection.abort()
            await state.emptied
        state.forget_routes()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
