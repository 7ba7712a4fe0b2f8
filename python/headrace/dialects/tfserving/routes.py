"""Which model, version or label and which verb a request target names.

TensorFlow Serving matches the raw target against two regular expressions; so do we, after taking
off the query, which it mistakes for a part of the path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from headrace.dialects.tfserving.errors import Failure

__all__ = ["Route", "is_rest", "parse_target"]

_INT64_MAX = 2**63 - 1

# A version or a label may follow the name, never both. The fixed words take any letter case.
_WHICH = r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_POST = re.compile(
    rf"/v1/models/(?P<model>[^/:]+){_WHICH}:(?P<verb>classify|regress|predict)", re.IGNORECASE
)
_GET = re.compile(
    rf"/v1/models(?:/(?P<model>[^/:]+))?{_WHICH}(?:/(?P<verb>metadata))?", re.IGNORECASE
)
_EXPECTED = (
    " (expected POST /v1/models/NAME[/versions/N|/labels/L]:predict, :classify or :regress, "
    "or GET /v1/models/NAME[/versions/N|/labels/L][/metadata])"
)


@dataclass(frozen=True, slots=True)
class Route:
    """What a target asks for.

    Attributes:
        verb: ``predict``, ``classify``, ``regress``, ``status`` or ``metadata``.
        model: The model's name, percent-decoded.
        version: The version asked for, or None.
        label: The label asked for, percent-decoded, or None. Never set together with a version.
    """

    verb: str
    model: str
    version: int | None = None
    label: str | None = None


def is_rest(target: str) -> bool:
    """Whether the target lies under ``/v1/``, where every answer is JSON."""
    return target[:4].lower() == "/v1/"


def parse_target(method: str, target: str) -> Route | Failure:
    """Read a request target below ``/v1/``.

    Args:
        method: Request method; HEAD reads as GET.
        target: Request target as it stood in the request line, bytes mapped one to one (Latin-1).

    Returns:
        The route, or the failure to answer with.
    """
    path = target.partition("?")[0].partition("#")[0]
    pattern = {"POST": _POST, "GET": _GET, "HEAD": _GET}.get(method)
    match = pattern.fullmatch(path) if pattern else None
    if match is None:
        return Failure.invalid(f"Malformed request: {method} {_printable(target)}{_EXPECTED}")
    verb = match["verb"]
    if pattern is _POST and verb != verb.lower():
        return Failure.invalid(
            f"Malformed request: {method} {_printable(target)} (the verb is ':{verb.lower()}')"
        )
    if match["model"] is None:
        return Failure.invalid("Missing model name in request.")
    version = None if match["version"] is None else _int64(match["version"])
    if version is None and match["version"] is not None:
        return Failure.invalid(f"Failed to convert version: {match['version'][:80]} to numeric.")
    model = _decode(match["model"])
    label = None if match["label"] is None else _decode(match["label"])
    return Route(verb=verb.lower() if verb else "status", model=model, version=version, label=label)


def _int64(digits: str) -> int | None:
    significant = digits.lstrip("0") or "0"
    if len(significant) > len(str(_INT64_MAX)) or int(significant) > _INT64_MAX:
        return None
    return int(significant)


def _decode(part: str) -> str:
    # A name that is not UTF-8 is merely one that no model has.
    return unquote_to_bytes(part.encode("latin-1")).decode("utf-8", "surrogateescape")


def _printable(target: str) -> str:
    """The target as the client meant it, cut so that an answer cannot be made large."""
    text = target.encode("latin-1", "replace").decode("utf-8", "backslashreplace")
    return text if len(text) <= 1024 else text[:1024] + "..."
