"""Zstandard (RFC 8878) for request bodies, where the extra ``zstd`` is installed."""

from __future__ import annotations

import zlib
from importlib import import_module
from typing import Any, Final

zstandard: Any
try:
    zstandard = import_module("zstandard")
except ImportError:
    zstandard = None

__all__ = ["ZSTD", "ZstdInflater"]

ZSTD: Final = zstandard is not None
"""Whether it is there."""

# A block of 4 bytes may stand for 128 KiB: so much input at a stretch is 4 MiB at most.
_STEP_BYTES: Final = 128
# What RFC 8878 section 3.1.1.1.2 asks every decoder for. Memory, whatever the frame claims.
_MAX_WINDOW_BYTES: Final = 8 << 20


class ZstdInflater:
    """One frame, in the way of `zlib.decompressobj`.

    Attributes:
        eof: Whether the frame has ended.
        unconsumed_tail: What was not looked at yet, to be given again.
        unused_data: What follows the frame.
    """

    __slots__ = ("_frame", "eof", "unconsumed_tail", "unused_data")

    def __init__(self) -> None:
        decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
        self._frame = decompressor.decompressobj()
        self.eof = False
        self.unconsumed_tail = b""
        self.unused_data = b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """The next piece; steps of the input bound it, not ``max_length``.

        Raises:
            zlib.error: The frame is corrupt, or asks for too large a window.
        """
        if self.eof or not data:
            return b""
        try:
            piece: bytes = self._frame.decompress(data[:_STEP_BYTES])
        except zstandard.ZstdError as error:
            raise zlib.error(str(error)) from None
        self.eof = self._frame.eof
        rest = data[_STEP_BYTES:]
        self.unused_data = self._frame.unused_data + rest if self.eof else b""
        self.unconsumed_tail = b"" if self.eof else rest
        return piece
