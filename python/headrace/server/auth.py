"""Who may ask: bearer tokens from a file, looked for in the head of a request.

A request is judged once its head is there, before a byte of its body is taken. Heads that passed
are remembered with everything else about them, so that a client which repeats its head is judged
once; whoever reloads the tokens must let the remembered heads go.

Spec: RFC 6750 sections 2.1 and 3.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import SpecError
from headrace.server.refusal import RequestRefused

if TYPE_CHECKING:
    from headrace.server.head import Head

__all__ = ["TokenGuard", "parse_tokens"]

# As RFC 6750 has it: what may stand behind "Bearer".
_TOKEN_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=")


class TokenGuard:
    """Refuses requests without a token that the file lists."""

    def __init__(self, file: Path, *, open_paths: Collection[bytes] = ()) -> None:
        """Read the tokens.

        Args:
            file: One token a line.
            open_paths: Paths that everybody may ask for.

        Raises:
            SpecError: The file cannot be read, holds no token, or holds something else.
        """
        self._file = file
        self._open_paths = frozenset(open_paths)
        self._digests = self._read()

    def reload(self) -> None:
        """Go by what the file holds now.

        Raises:
            SpecError: As the constructor does; the tokens in use stay.
        """
        self._digests = self._read()

    def check(self, head: Head) -> None:
        """Let a request pass.

        Raises:
            RequestRefused: 401.
        """
        # A browser asks by OPTIONS, without any token, whether it may send one; the answer tells
        # nothing of what is served.
        if head.method == b"OPTIONS" or head.target.partition(b"?")[0] in self._open_paths:
            return
        given = [value for name, value in head.headers if name == b"authorization"]
        if not given:
            raise _refusal("a bearer token is needed: Authorization: Bearer TOKEN", b"Bearer")
        scheme, _, token = given[0].partition(b" ")
        known = scheme.lower() == b"bearer" and self._knows(token.strip(b" "))
        if len(given) > 1 or not known:
            raise _refusal("the bearer token is not known", b'Bearer error="invalid_token"')

    def _knows(self, token: bytes) -> bool:
        """Whether the token is one of ours, in a time that does not tell how near it comes."""
        digest = hashlib.sha256(token).digest()
        matches = [hmac.compare_digest(digest, ours) for ours in self._digests]
        return any(matches)

    def _read(self) -> tuple[bytes, ...]:
        try:
            tokens = parse_tokens(self._file.read_bytes())
        except OSError as error:
            raise SpecError(f"the tokens in {self._file}: {error.strerror}") from error
        except SpecError as error:
            raise SpecError(f"the tokens in {self._file}: {error}") from error
        return tuple(hashlib.sha256(token).digest() for token in tokens)


def parse_tokens(text: bytes) -> tuple[bytes, ...]:
    """The tokens of a file: one a line; empty lines and those that begin with ``#`` are skipped.

    Raises:
        SpecError: There is no token, or a line holds something else; the message has the line's
            number and not the line.
    """
    tokens = []
    for number, line in enumerate(text.removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
        token = line.strip()
        if not token or token.startswith(b"#"):
            continue
        if not _TOKEN_BYTES.issuperset(token):
            raise SpecError(
                f"line {number} is no token: expected ASCII letters, digits and -._~+/= only"
            )
        tokens.append(token)
    if not tokens:
        raise SpecError("there is none, so that nobody could ask anything")
    return tuple(tokens)


def _refusal(message: str, challenge: bytes) -> RequestRefused:
    return RequestRefused(401, message, headers=((b"WWW-Authenticate", challenge),))
