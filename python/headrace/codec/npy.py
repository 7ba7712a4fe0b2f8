"""NumPy's file format for one array, ``.npy``, read without trust and without evaluating anything.

The header is the source of a Python dict, which NumPy's own reader evaluates as a literal. Here the
three items that it must have are matched one by one, and anything else is refused: so are pickles,
which dtype ``object`` stands for, and records.

Spec: NumPy Enhancement Proposal 1, versions 1.0, 2.0 and 3.0.
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from headrace.codec.raw import raw_bytes, shape_text, tensor_bytes
from headrace.errors import DecodeError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer

__all__ = ["read_npy", "write_npy"]

_MAGIC: Final = b"\x93NUMPY"
# Version to the bytes of the field that holds the header's length.
_LENGTH_BYTES: Final = {(1, 0): 2, (2, 0): 4, (3, 0): 4}
# NumPy's own limit; a shape of 64 extents takes a tenth of it.
_MAX_HEADER_BYTES: Final = 10_000
_ITEM: Final = re.compile(
    rb"""\s*(?P<quote>['"])(?P<key>descr|fortran_order|shape)(?P=quote)\s*:\s*
    (?: '(?P<single>[^'\\]*)' | "(?P<double>[^"\\]*)"
      | (?P<flag>True|False)
      | \( (?P<shape>[0-9L,\s]*) \) )
    \s*(?:,|(?=\}))""",
    re.VERBOSE,
)
_EXTENT: Final = re.compile(rb"\s*([0-9]{1,19})L?\s*")  # Python 2 wrote the L
_DESCR: Final = re.compile(r"([<>=|]?)([biufV])([0-9]{1,2})")
_KNOWN: Final = frozenset(
    ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "V2")
)


def read_npy(body: Buffer) -> NDArray[Any]:
    """The array in a ``.npy`` file; a view of its bytes, in the file's byte order and layout.

    bfloat16, which the format does not know, is written as ``V2`` by NumPy, and read so here.

    Raises:
        DecodeError: It is none, holds pickles, records or text, or is not whole.
    """
    view = memoryview(body)
    header, begin = _header(view)
    descr, fortran_order, shape = _items(header)
    dtype = _dtype(descr)
    expected, found = tensor_bytes(shape, dtype.itemsize), view.nbytes - begin
    if found != expected:
        raise DecodeError(
            f"shape {shape_text(shape)} of {dtype.name} takes {expected} bytes, "
            f"but {found} follow the header of the .npy array",
            offset=begin,
        )
    return np.ndarray(shape, dtype, view, begin, order="F" if fortran_order else "C")


def write_npy(array: NDArray[Any]) -> bytes:
    """The ``.npy`` file, of version 1.0, of an array of numbers in native byte order."""
    header = BytesIO()
    descr = "<V2" if array.dtype.name == "bfloat16" else array.dtype.str
    np.lib.format.write_array_header_1_0(
        header, {"descr": descr, "fortran_order": False, "shape": array.shape}
    )
    return b"".join((header.getvalue(), raw_bytes(array)))


def _header(view: memoryview) -> tuple[bytes, int]:
    """The source of the dict, and where the array's bytes begin."""
    start = bytes(view[:12])
    if not start.startswith(_MAGIC) or len(start) < 10:
        raise _bad("it does not begin as one")
    version = (start[6], start[7])
    size = _LENGTH_BYTES.get(version)
    if size is None:
        raise _bad(f"version {version[0]}.{version[1]} is not known; 1.0, 2.0 and 3.0 are")
    length = int.from_bytes(start[8 : 8 + size], "little")
    if length > _MAX_HEADER_BYTES:
        raise _bad(f"its header of {length} bytes is above the limit of {_MAX_HEADER_BYTES}")
    begin = 8 + size + length
    if begin > view.nbytes:
        raise _bad("it ends within its header")
    return bytes(view[8 + size : begin]), begin


def _items(header: bytes) -> tuple[str, bool, tuple[int, ...]]:
    text = header.strip()
    items: dict[bytes, re.Match[bytes]] = {}
    at = 1
    while text[:1] == b"{" and (match := _ITEM.match(text, at)) is not None:
        items[match["key"]] = match
        at = match.end()
    if len(items) != 3 or text[at:].strip() != b"}":
        raise _bad_header(header)
    descr = items[b"descr"]["single"] or items[b"descr"]["double"]
    flag, shape = items[b"fortran_order"]["flag"], items[b"shape"]["shape"]
    if descr is None or flag is None or shape is None:
        raise _bad_header(header)
    return descr.decode("latin-1"), flag == b"True", _extents(shape, header)


def _extents(text: bytes, header: bytes) -> tuple[int, ...]:
    parts = text.split(b",")
    if not parts[-1].strip():
        parts.pop()  # what follows the last comma
    matches = [_EXTENT.fullmatch(part) for part in parts]
    if not all(matches):
        raise _bad_header(header)
    return tuple(int(match[1]) for match in matches if match)


def _dtype(descr: str) -> np.dtype[Any]:
    match = _DESCR.fullmatch(descr)
    if match is None or match[2] + match[3] not in _KNOWN:
        raise DecodeError(
            f"a .npy array of dtype '{descr[:80]}' is not taken; bool, integers and floats are",
            code="unsupported_dtype",
        )
    order = ">" if match[1] == ">" else "<"
    return np.dtype(order + match[2] + match[3])


def _bad(why: str) -> DecodeError:
    return DecodeError(f"the body is no .npy array: {why}", code="syntax", offset=0)


def _bad_header(header: bytes) -> DecodeError:
    found = header[:256].decode("ascii", "backslashreplace").strip()[:256]
    return _bad(
        "expected a header such as "
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}}, found {found}"
    )
