"""HTTPS on loopback: versions, certificates that change, bodies larger than a record."""

from __future__ import annotations

import asyncio
import http.client
import logging
import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trustme
import uvloop

from headrace.errors import SpecError
from headrace.server.limits import HttpLimits
from headrace.server.listener import HttpListener, open_sockets
from headrace.server.messages import Exchange
from headrace.server.tls import Certificate

T = TypeVar("T")
PATIENCE_S = 30.0


def echo(exchange: Exchange) -> None:
    exchange.respond(200, bytes(exchange.request.body))


class Pair:
    """Files of a certificate and its key, written by an authority of their own."""

    def __init__(self, directory: Path) -> None:
        self.certificate, self.key = directory / "cert.pem", directory / "key.pem"
        self.renew()

    def renew(self) -> None:
        self.authority = trustme.CA()
        issued = self.authority.issue_cert("127.0.0.1", "localhost")
        self.key.write_bytes(issued.private_key_pem.bytes())
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        self.certificate.write_bytes(chain)

    def client(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


class Server:
    def __init__(self, certificate: Certificate, limits: HttpLimits) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self.listener = self._call(self._start(certificate, limits))
        self.port = self.listener.addresses[0][1]

    async def _start(self, certificate: Certificate, limits: HttpLimits) -> HttpListener:
        listener = HttpListener(echo, limits)
        await listener.start(open_sockets("127.0.0.1", 0), tls=certificate.context)
        return listener

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE_S)

    def close(self) -> None:
        self._call(self.listener.stop(deadline_s=5))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def connect(self, context: ssl.SSLContext, host: str | None = "127.0.0.1") -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)
        return context.wrap_socket(plain, server_hostname=host)

    def post(self, context: ssl.SSLContext, body: bytes) -> bytes:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=context, timeout=PATIENCE_S
        )
        try:
            connection.request("POST", "/", body)
            return connection.getresponse().read()
        finally:
            connection.close()


@pytest.fixture
def certificate(pair: Pair) -> Certificate:
    return Certificate(pair.certificate, pair.key)


@pytest.fixture
def serve(certificate: Certificate) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(**limits: float) -> Server:
        servers.append(Server(certificate, HttpLimits(**limits)))  # type: ignore[arg-type]
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def test_bodies_of_any_size_come_and_go(serve: Callable[..., Server], pair: Pair) -> None:
    server = serve()
    for size in (0, 1, 16 << 10, 100_000, 3 << 20):
        body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        assert server.post(pair.client(), body) == body


def test_connection_is_kept_between_requests(serve: Callable[..., Server], pair: Pair) -> None:
    connection = http.client.HTTPSConnection(
        "127.0.0.1", serve().port, context=pair.client(), timeout=PATIENCE_S
    )
    for body in (b"one", b"two", b"three"):
        connection.request("POST", "/", body)
        assert connection.getresponse().read() == body
    connection.close()


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_modern_versions_are_spoken(serve: Callable[..., Server], pair: Pair, version: str) -> None:
    context = pair.client()
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    assert serve().post(context, b"x") == b"x"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_older_versions_are_refused(serve: Callable[..., Server], pair: Pair) -> None:
    context = pair.client()
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    # OpenSSL itself gives them up above this level.
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError):
        serve().connect(context).close()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", None])
def test_new_certificate_is_for_new_connections(
    serve: Callable[..., Server], certificate: Certificate, pair: Pair, name: str | None
) -> None:
    server = serve()
    before = pair.client()
    before.check_hostname = name is not None
    old = server.connect(before, name)
    first = old.getpeercert(binary_form=True)
    pair.renew()
    certificate.reload()
    after = pair.client()
    after.check_hostname = name is not None
    new = server.connect(after, name)
    assert new.getpeercert(binary_form=True) != first
    for connection in (old, new):
        connection.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi")
        assert connection.recv(1000).endswith(b"hi")
        connection.close()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda pair: pair.key.unlink(),
        lambda pair: pair.certificate.write_text("nothing"),
        lambda pair: shutil.copy(pair.certificate, pair.key),
        lambda pair: pair.key.write_bytes(trustme.CA().private_key_pem.bytes()),
    ],
    ids=["missing key", "no certificate", "no key", "another's key"],
)
def test_bad_new_pair_is_refused_and_the_old_one_serves_on(
    serve: Callable[..., Server],
    certificate: Certificate,
    pair: Pair,
    spoil: Callable[[Pair], None],
) -> None:
    server = serve()
    spoil(pair)
    with pytest.raises(SpecError, match=r"the certificate .*cert\.pem with the key .*key\.pem: "):
        certificate.reload()
    with pytest.raises(SpecError):
        Certificate(pair.certificate, pair.key)
    assert server.post(pair.client(), b"still") == b"still"


def test_encrypted_key_is_refused_instead_of_asking_for_its_password(pair: Pair) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    pair.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(SpecError, match="a key without a password is needed"):
        Certificate(pair.certificate, pair.key)


def test_noise_and_silence_end_quietly(
    serve: Callable[..., Server], pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve(header_timeout_s=0.2)
    plain = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
    plain.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    silent = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
    for connection in (plain, silent):
        while connection.recv(1000):
            pass
        connection.close()
    assert server.post(pair.client(), b"alive") == b"alive"
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]
