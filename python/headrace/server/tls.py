"""The server's certificate: read at the start, and again on request, for new connections."""

from __future__ import annotations

import ssl
from pathlib import Path

from headrace.errors import SpecError

__all__ = ["Certificate"]


class Certificate:
    """A certificate chain with its key, behind a context that outlives both.

    Listening sockets hold one context for good. It is never touched again: at the beginning of each
    handshake the connection is moved to the context of the pair that was read last. So a pair is
    taken as a whole or not at all.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        """Read the pair.

        Raises:
            SpecError: It cannot be read, or is no pair.
        """
        self._certificate = certificate
        self._key = key
        self._current = self._read()
        self.context = self._read()
        """What a listening socket is opened with."""
        self.context.sni_callback = self._move  # called for clients that name no host, too

    def reload(self) -> None:
        """Use what the files hold now for new connections.

        Raises:
            SpecError: As the constructor does; the pair in use stays.
        """
        self._current = self._read()

    def _move(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: object) -> None:
        connection.context = self._current

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            # The password is asked for on the terminal otherwise, which would stop the server.
            context.load_cert_chain(self._certificate, self._key, password=_no_password)
        except (OSError, ValueError) as error:
            raise SpecError(
                f"the certificate {self._certificate} with the key {self._key}: {_reason(error)}"
            ) from error
        return context


def _no_password() -> str:
    raise ValueError("the key is encrypted; a key without a password is needed")


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not in PEM").replace("_", " ").lower()
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)
