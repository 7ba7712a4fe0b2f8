"""One connection of the storm: sends a conversation, reads every answer, and judges them."""

from __future__ import annotations

import gzip
import json
import re
import socket
from typing import NoReturn

from storm.requests import Conversation

__all__ = ["Misbehaviour", "converse"]

# What the server may say to a client that is wrong; 501 where its methods and dtypes end.
_EXPECTED = {200, 400, 404, 406, 408, 411, 413, 414, 415, 417, 431, 501, 505}
_PATIENCE_S = 60.0
# Where the borders of messages are not certain, the server may rightly wait for more.
_NO_PATIENCE_S = 0.2


class Misbehaviour(AssertionError):
    """An answer that no client should get."""


def converse(port: int, conversation: Conversation) -> list[int]:
    """The statuses of the answers.

    Raises:
        Misbehaviour: A status that is not expected, a message that is cut short, JSON that a strict
            parser refuses, or none at all where one is owed.
    """
    received = _exchange(port, conversation)
    try:
        return _judge(received, conversation)
    except Misbehaviour as error:
        sent = b"".join(conversation.pieces)
        raise Misbehaviour(f"{error}\nsent: {sent[:4000]!r}\ngot: {received[-4000:]!r}") from None


def _exchange(port: int, conversation: Conversation) -> bytes:
    received = b""
    with socket.create_connection(("127.0.0.1", port), _PATIENCE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for piece in conversation.pieces:
                connection.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all of it was sent; what was answered is still to be read
        connection.settimeout(_PATIENCE_S if conversation.framed else _NO_PATIENCE_S)
        try:
            while part := connection.recv(1 << 16):
                received += part
        except ConnectionResetError:
            pass
        except TimeoutError:
            if conversation.framed:
                raise Misbehaviour(
                    f"no answer to {b''.join(conversation.pieces)[:4000]!r}"
                ) from None
    return received


def _judge(received: bytes, conversation: Conversation) -> list[int]:
    statuses: list[int] = []
    methods = iter(conversation.methods)
    rest = received
    while rest:
        head, end, rest = rest.partition(b"\r\n\r\n")
        match = re.match(rb"HTTP/1\.1 ([0-9]{3}) [^\r\n]+\r\n", head + b"\r\n")
        if not end or not match:
            _complain(conversation, "this is no HTTP")
            break
        status = int(match[1])
        if status == 100:
            continue
        if status not in _EXPECTED:
            raise Misbehaviour(f"status {status}")
        statuses.append(status)
        method = next(methods, b"")
        if not method and any(b"HEAD" in piece for piece in conversation.pieces):
            break  # who knows which answers have bodies
        rest = _judge_body(head, rest, method, conversation)
    if conversation.framed and not statuses:
        raise Misbehaviour("closed without an answer")
    return statuses


def _judge_body(head: bytes, rest: bytes, method: bytes, conversation: Conversation) -> bytes:
    """What follows this answer."""
    fields = dict(re.findall(rb"\r\n([a-z-]+): ([^\r\n]*)", head.lower()))
    length = int(fields[b"content-length"])
    if method == b"HEAD" or (not conversation.framed and len(rest) < length):
        return rest if method == b"HEAD" else b""
    body, rest = rest[:length], rest[length:]
    if len(body) < length:
        raise Misbehaviour("an answer was cut short")
    if fields[b"content-type"] == b"application/json":
        if fields.get(b"content-encoding") == b"gzip":
            body = gzip.decompress(body)
        try:
            json.loads(body, parse_constant=_refuse)
        except ValueError as error:
            raise Misbehaviour(f"not strict JSON: {error}") from None
    return rest


def _complain(conversation: Conversation, what: str) -> None:
    # After a HEAD that only the server saw as one, or one that only we did, nothing is certain.
    if conversation.framed:
        raise Misbehaviour(what)


def _refuse(token: str) -> NoReturn:
    raise ValueError(f"{token} is no JSON")
