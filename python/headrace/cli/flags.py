"""What a flag of ``headrace serve`` is, and how its value is read."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.config import Address

__all__ = [
    "ADDRESS",
    "BOOLEAN",
    "BYTES",
    "COUNT",
    "FRACTION",
    "INTEGER",
    "LEVEL",
    "PORT",
    "SECONDS",
    "TEXT",
    "Flag",
    "Kind",
    "choice",
    "parse_address",
]


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of value.

    Attributes:
        word: What usage messages call it.
        parse: From the text on the command line; raises ArgumentTypeError, which argparse shows.
        types: TOML's types that it can be written in.
    """

    word: str
    parse: Callable[[str], Any]
    types: tuple[type, ...] = (str,)

    def from_toml(self, value: object) -> Any:
        """From a value of a configuration file.

        Raises:
            ArgumentTypeError: It has the wrong type, or `parse` refuses it.
        """
        if type(value) not in self.types:
            expected = " or ".join(_TYPE_NAMES[kind] for kind in self.types)
            raise ArgumentTypeError(f"{_shown(value)}: expected {expected}")
        return self.parse(str(value).lower() if isinstance(value, bool) else str(value))


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag.

    Attributes:
        name: With underscores; dashes are accepted too.
        kind: Type of its value.
        default: What holds when it is absent.
        meaning: What it does, for people.
        ignored: Why Headrace does not honour it; empty: it does.
        same: Values of an ignored flag that ask for what Headrace does anyway: no warning.
    """

    name: str
    kind: Kind
    default: Any
    meaning: str
    ignored: str = ""
    same: tuple[Any, ...] = ()

    @property
    def shown_default(self) -> str:
        """The default as one would type it; empty where there is none."""
        if isinstance(self.default, bool):
            return str(self.default).lower()
        return "" if self.default is None else str(self.default)


_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}


def _shown(value: object) -> str:
    """A value as an error message quotes it."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def parse_address(text: str) -> Address:
    """``HOST:PORT``, ``[IPV6]:PORT``, or ``:PORT`` for every interface."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ArgumentTypeError(f"{text!r}: an IPv6 address stands in brackets, as in [::1]:8501")
    if not colon:
        raise ArgumentTypeError(f"{text!r}: expected HOST:PORT, such as 127.0.0.1:8501")
    return Address("" if host == "*" else host, _parse_port(port))


def _parse_boolean(text: str) -> bool:
    if (lower := text.lower()) in {"true", "false"}:
        return lower == "true"
    raise ArgumentTypeError(f"{text!r}: expected true or false")


def _parse_integer(text: str) -> int:
    # int() alone would take 1_000, other scripts' digits and blanks.
    if re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        return int(text)
    raise ArgumentTypeError(f"{text!r}: expected a whole number")


def _parse_count(text: str) -> int:
    if (value := _parse_integer(text)) >= 1:
        return value
    raise ArgumentTypeError(f"{text!r}: expected a whole number from 1 on")


def _parse_port(text: str) -> int:
    if 0 <= (value := _parse_integer(text)) <= 0xFFFF:
        return value
    raise ArgumentTypeError(f"{text!r}: expected a port from 0 to 65535")


def _parse_fraction(text: str) -> float:
    if re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,2})?", text):
        return float(text)
    raise ArgumentTypeError(f"{text!r}: expected a number such as 0.5")


def _parse_seconds(text: str) -> float:
    try:
        value = _parse_fraction(text)
    except ArgumentTypeError:
        value = 0.0
    if value > 0:
        return value
    raise ArgumentTypeError(f"{text!r}: expected seconds above 0, such as 30 or 0.5")


_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _parse_bytes(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,15})(?:([kmg])(?:ib)?)?", text, re.IGNORECASE)
    if match and (value := int(match[1]) * _UNITS[(match[2] or "").lower()]) > 0:
        return value
    raise ArgumentTypeError(f"{text!r}: expected bytes above 0, such as 1048576 or 64MiB")


def choice(*values: str) -> Kind:
    """One of these words, in whatever case."""

    def parse(text: str) -> str:
        if (lower := text.lower()) in values:
            return lower
        raise ArgumentTypeError(f"{text!r}: expected {', '.join(values[:-1])} or {values[-1]}")

    return Kind("|".join(values), parse)


ADDRESS = Kind("HOST:PORT", parse_address)
BOOLEAN = Kind("true|false", _parse_boolean, (bool,))
BYTES = Kind("BYTES", _parse_bytes, (int, str))
COUNT = Kind("COUNT", _parse_count, (int,))
FRACTION = Kind("NUMBER", _parse_fraction, (int, float))
INTEGER = Kind("NUMBER", _parse_integer, (int,))
LEVEL = choice("debug", "info", "warning", "error")
PORT = Kind("PORT", _parse_port, (int,))
SECONDS = Kind("SECONDS", _parse_seconds, (int, float))
TEXT = Kind("TEXT", str)
