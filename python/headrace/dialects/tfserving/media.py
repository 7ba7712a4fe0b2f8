"""Media types of requests and answers: which one a body has, and which one a client wants."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["JSON", "NPY", "OCTET_STREAM", "content_type", "preferred"]

JSON: Final = b"application/json"
NPY: Final = b"application/x-npy"
OCTET_STREAM: Final = b"application/octet-stream"

_QUALITY: Final = re.compile(rb"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")
# A browser sends eight; more are not looked at.
_MOST_RANGES: Final = 64

Headers = Iterable[tuple[bytes, bytes]]


def content_type(headers: Headers) -> bytes:
    """The body's media type in lower case, without parameters; empty where none is given.

    Args:
        headers: Name in lower case and value.
    """
    value = next((value for name, value in headers if name == b"content-type"), b"")
    return value.partition(b";")[0].strip().lower()


def preferred(headers: Headers, offers: Sequence[bytes]) -> bytes:
    """The offer that a client likes best.

    Of equal quality counts what is named most exactly, then what is named first, then the order of
    the offers. The first offer is what one gets who names none of them.

    Args:
        headers: Name in lower case and value.
        offers: Media types in lower case.

    Spec: RFC 9110 sections 12.4.2, 12.5.1. A range whose quality is no number is passed over.
    """
    lines = [value for name, value in headers if name == b"accept"]
    items = b",".join(lines).split(b",", _MOST_RANGES)[:_MOST_RANGES]
    ranges = [known for item in items if (known := _range(item))]
    best, best_rank = offers[0], (0.0, 0, 0)
    for offer in offers:
        matching = [
            (exactness, -place, quality)
            for place, (name, quality) in enumerate(ranges)
            if (exactness := _exactness(name, offer))
        ]
        if not matching:
            continue
        exactness, place, quality = max(matching)  # the most exact one decides of the quality
        rank = (quality, exactness, place)
        if quality and rank > best_rank:
            best, best_rank = offer, rank
    return best


def _range(item: bytes) -> tuple[bytes, float] | None:
    name, *parameters = (part.strip().lower() for part in item.split(b";"))
    for parameter in parameters:
        key, _, value = parameter.partition(b"=")
        if key.strip() == b"q":
            quality = _QUALITY.fullmatch(value.strip())
            return (name, float(quality[0])) if quality else None
    return name, 1.0


def _exactness(name: bytes, offer: bytes) -> int:
    """3: it is the offer, 2: its kind, 1: anything, 0: something else."""
    if name == offer:
        return 3
    if name in (b"*/*", b"*"):  # the latter by Java's URLConnection
        return 1
    return 2 if name.endswith(b"/*") and offer.startswith(name[:-1]) else 0
