"""Listening sockets: addresses, both families, a port that is taken, a shared port."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket

import pytest

from headrace.server.limits import HttpLimits
from headrace.server.listener import HttpListener, open_sockets


def close(sockets: list[socket.socket]) -> None:
    for listening in sockets:
        listening.close()


def test_every_interface_is_one_socket_for_both_families() -> None:
    (listening,) = open_sockets(None, 0)
    port = listening.getsockname()[1]
    try:
        for host in ("127.0.0.1", "::1"):
            try:
                socket.create_connection((host, port), 5).close()
            except OSError:
                assert host == "::1", "IPv4 must always work"
                assert listening.family == socket.AF_INET
    finally:
        listening.close()


def test_without_ipv6_every_interface_means_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    make = socket.socket

    def no_ipv6(family: int, kind: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return make(family, kind)

    monkeypatch.setattr(socket, "socket", no_ipv6)
    (listening,) = open_sockets(None, 0)
    assert listening.family == socket.AF_INET
    listening.close()


@pytest.mark.parametrize("host", [None, "127.0.0.1"])
def test_port_that_is_taken_is_named(host: str | None) -> None:
    (first,) = open_sockets(host, 0)
    port = first.getsockname()[1]
    with pytest.raises(OSError, match=rf"cannot listen on .*:{port}: ") as caught:
        open_sockets(host, port)
    assert caught.value.errno == errno.EADDRINUSE
    first.close()


def test_name_is_bound_at_each_address_with_one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.2", 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    sockets = open_sockets("two.example", 0)
    names = [listening.getsockname() for listening in sockets]
    close(sockets)
    assert [host for host, _ in names] == ["127.0.0.1", "127.0.0.2"]
    assert names[0][1] == names[1][1] != 0


def test_no_socket_is_left_open_if_one_address_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    (taken,) = open_sockets("127.0.0.2", 0)
    port = taken.getsockname()[1]
    found = [(socket.AF_INET, 1, 6, "", (host, port)) for host in ("127.0.0.1", "127.0.0.2")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(OSError, match=r"127\.0\.0\.2"):
        open_sockets("two.example", port)
    close(open_sockets_unpatched("127.0.0.1", port))
    taken.close()


def open_sockets_unpatched(host: str, port: int) -> list[socket.socket]:
    """A socket that can only be opened if nothing listens there any more."""
    listening = socket.socket()
    listening.bind((host, port))
    return [listening]


def test_port_can_be_shared_if_both_ask_for_it() -> None:
    first = open_sockets("127.0.0.1", 0, reuse_port=True)
    second = open_sockets("127.0.0.1", first[0].getsockname()[1], reuse_port=True)
    close(first + second)


def test_connections_are_bounded_by_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    async def most(files: int) -> int:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
        listener = HttpListener(lambda exchange: None, HttpLimits(max_connections=5000))
        return listener.state.limits.max_connections

    assert asyncio.run(most(1024)) == 1024 - 128
    assert asyncio.run(most(100_000)) == 5000
    assert asyncio.run(most(resource.RLIM_INFINITY)) == 5000
    assert asyncio.run(most(10)) == 1


def test_stopping_an_unstarted_listener_does_nothing() -> None:
    async def run() -> None:
        await HttpListener(lambda exchange: None).stop(deadline_s=0)

    asyncio.run(run())
