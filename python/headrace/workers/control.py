"""Control messages between the supervisor, its warm parent and its workers: JSON and descriptors.

A message on the stream socket is a head of two big-endian u32 (bytes of JSON, number of
descriptors) and the JSON. The descriptors travel with its first byte, so they have always arrived
when the message is complete; several messages may come in one read.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Message", "MessageReader", "send_message"]

_HEAD = struct.Struct("!II")
_READ_BYTES = 1 << 16
_FD = struct.Struct("i")
_ANCILLARY_BYTES = socket.CMSG_SPACE(64 * _FD.size)


@dataclass(slots=True)
class Message:
    """One message. Whoever takes it owns its descriptors."""

    body: dict[str, Any]
    fds: list[int] = field(default_factory=list)

    def close_fds(self) -> None:
        """Closes them."""
        while self.fds:
            os.close(self.fds.pop())


def send_message(sock: socket.socket, body: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Sends a message; the descriptors stay the caller's.

    Raises:
        OSError: The peer has gone.
    """
    text = json.dumps(body, separators=(",", ":")).encode()
    data = memoryview(_HEAD.pack(len(text), len(fds)) + text)
    rights = b"".join(_FD.pack(fd) for fd in fds)
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if fds else []
    rest = data[sock.sendmsg([data], ancillary, socket.MSG_NOSIGNAL) :]
    if rest:  # to send nothing is an error too once the peer has gone
        sock.sendall(rest, socket.MSG_NOSIGNAL)


class MessageReader:
    """Reads messages from one socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._data = bytearray()
        self._fds: deque[int] = deque()

    def receive(self) -> Message | None:
        """The next message, waiting for it; None once the peer has closed."""
        while True:
            message = self._take()
            if message is not None:
                return message
            if not self._read(0):
                return None

    def receive_ready(self) -> tuple[list[Message], bool]:
        """The messages that are complete without waiting, and whether more may come."""
        try:
            is_open = self._read(socket.MSG_DONTWAIT)
        except BlockingIOError:
            is_open = True
        messages = []
        while (message := self._take()) is not None:
            messages.append(message)
        return messages, is_open

    def close_fds(self) -> None:
        """Closes the descriptors of a message that never became complete."""
        while self._fds:
            os.close(self._fds.popleft())

    def _read(self, flags: int) -> bool:
        # Not socket.recv_fds: it takes flags and drops them (up to 3.12 at least).
        try:
            data, ancillary, _, _ = self._sock.recvmsg(
                _READ_BYTES, _ANCILLARY_BYTES, flags | socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:  # closed while something we had sent was unread
            return False
        self._data += data
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                whole = len(payload) - len(payload) % _FD.size
                self._fds.extend(fd for (fd,) in _FD.iter_unpack(payload[:whole]))
        return bool(data)

    def _take(self) -> Message | None:
        if len(self._data) < _HEAD.size:
            return None
        length, fds = _HEAD.unpack_from(self._data)
        end = _HEAD.size + length
        if len(self._data) < end:
            return None
        body = json.loads(self._data[_HEAD.size : end])
        del self._data[:end]
        return Message(body, [self._fds.popleft() for _ in range(fds)])
