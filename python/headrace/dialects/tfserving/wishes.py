"""What a client may ask of the answer's form, beyond TensorFlow Serving: in the query or headers.

``outputs=a,b`` (only these outputs), ``non_finite=token|null|string|error``,
``int64=number|string`` and ``pretty=true|false``; as headers ``X-Headrace-Outputs`` and so on. The
query wins. Unknown keys are ignored, since clients put their own into the query.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, cast
from urllib.parse import unquote_to_bytes

from headrace.dialects.tfserving.errors import Failure

__all__ = ["Wishes", "parse_wishes", "wish_values"]

NonFinite = Literal["token", "null", "string", "error"]

_HEADER_PREFIX = b"x-headrace-"
_CHOICES = {
    "non_finite": ("token", "null", "string", "error"),
    "int64": ("number", "string"),
    "pretty": ("true", "false"),
}


@dataclass(frozen=True, slots=True)
class Wishes:
    """The form of an answer.

    Attributes:
        outputs: The outputs wanted; empty: all.
        non_finite: What becomes of NaN and the infinities.
        int64_as_string: Whether 64-bit integers are written between quotes.
        pretty: Whether the layout is TensorFlow Serving's.
    """

    outputs: tuple[str, ...] = ()
    non_finite: NonFinite = "token"
    int64_as_string: bool = False
    pretty: bool = False


def parse_wishes(
    target: str, headers: Iterable[tuple[bytes, bytes]], defaults: Wishes
) -> Wishes | Failure:
    """The wishes of one request head.

    Args:
        target: Request target, bytes mapped one to one (Latin-1).
        headers: Name in lower case and value.
        defaults: The server's own settings.

    Returns:
        The wishes, or the failure to answer with where one makes no sense.
    """
    wishes = defaults
    for key, value in wish_values(target, headers).items():
        if key == "outputs":
            names = tuple(name for name in value.split(",") if name)
            wishes = replace(wishes, outputs=names)
        elif key in _CHOICES:
            if value not in _CHOICES[key]:
                choices = ", ".join(_CHOICES[key])
                return Failure.invalid(f"{key}={value[:80]!r} is none of: {choices}")
            wishes = _with_choice(wishes, key, value)
    return wishes


def wish_values(target: str, headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """What query and headers say, by the keys of the query."""
    named = {
        name.removeprefix(_HEADER_PREFIX).decode("latin-1").replace("-", "_"): value
        for name, value in headers
        if name.startswith(_HEADER_PREFIX)
    }
    query = target.partition("?")[2].partition("#")[0]
    pairs = (field.partition("=") for field in query.split("&"))
    given = named | {key: unquote_to_bytes(value.encode("latin-1")) for key, _, value in pairs}
    return {key: value.decode("utf-8", "backslashreplace") for key, value in given.items()}


def _with_choice(wishes: Wishes, key: str, value: str) -> Wishes:
    if key == "non_finite":
        return replace(wishes, non_finite=cast(NonFinite, value))
    if key == "int64":
        return replace(wishes, int64_as_string=value == "string")
    return replace(wishes, pretty=value == "true")
