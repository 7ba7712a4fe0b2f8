"""Where something stands in a TOML text. The parser does not say, so it is asked again and again.

Only after a mistake, and configuration files are short: what it costs does not matter.
"""

from __future__ import annotations

import sys
from typing import Any

from headrace.errors import SpecError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Keys", "TomlMistake", "line_of", "parse_toml", "shown"]

Keys = tuple[str | int, ...]
"""The way from the top to a value: names of tables and keys, and numbers of items from 0."""


class TomlMistake(SpecError):
    """Something in a TOML document that makes no sense.

    Attributes:
        keys: Where.
        message: What was expected, and what was found.
    """

    def __init__(self, keys: Keys, message: str) -> None:
        super().__init__(f"{shown(keys)}: {message}")
        self.keys = keys
        self.message = message


def parse_toml(text: str) -> dict[str, Any]:
    """The document.

    Raises:
        SpecError: It is no TOML; the message has line and column.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(str(error)) from error


def line_of(text: str, keys: Keys) -> int:
    """The line, from 1, on which the key or table begins that ``keys`` leads to.

    It is the one after the longest beginning of the text that is TOML and does not have it.
    """
    before = 0
    lines = text.splitlines(keepends=True)
    for number in range(1, len(lines)):
        try:
            document = tomllib.loads("".join(lines[:number]))
        except tomllib.TOMLDecodeError:
            continue
        if _has(document, keys):
            break
        before = number
    return before + 1


def shown(keys: Keys) -> str:
    """``model[1].labels.stable``."""
    parts = [f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys]
    return "".join(parts).removeprefix(".")


def _has(value: Any, keys: Keys) -> bool:
    for key in keys:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return False
    return True
