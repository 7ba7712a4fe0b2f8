"""Protocol Buffers' text format, read into a tree without a schema. Pure.

TensorFlow Serving's configuration files are written in it. What a field means is the business of
whoever reads the tree; every field and value knows its place, so that it can say where it is wrong.

Spec: the text format language specification of protobuf.dev. Extensions and ``Any`` (names in
brackets) are refused, since no file that we read has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace.errors import SpecError

__all__ = ["Field", "Message", "Place", "Scalar", "parse_text"]

# Deeper than any real file by far; it keeps a hostile one from exhausting the stack.
_MAX_DEPTH = 64


class Place(NamedTuple):
    """A place in the text, both counted from 1."""

    line: int
    column: int

    def error(self, message: str) -> SpecError:
        """An error that starts with this place."""
        return SpecError(f"line {self.line}, column {self.column}: {message}")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value that is not a message.

    Attributes:
        kind: ``string`` (adjacent literals joined, escapes resolved), or ``number`` or ``name``
            (an enum's member, true, false, inf, nan), each as written, with a leading ``-`` kept.
        text: The value.
        place: Where it begins.
    """

    kind: Literal["string", "number", "name"]
    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class Field:
    """A field with one value; a list in brackets becomes one field per item."""

    name: str
    value: Scalar | Message
    place: Place


@dataclass(frozen=True, slots=True)
class Message:
    """Fields in the order of the text, repeated ones repeated.

    Attributes:
        fields: The fields.
        place: Where the message begins.
    """

    fields: tuple[Field, ...]
    place: Place


def parse_text(text: str) -> Message:
    """The tree of a text-format document.

    Raises:
        SpecError: Not text format; the message has the place, what was expected and what was found.
    """
    return _Parser(text).document()


class _Token(NamedTuple):
    kind: str
    text: str
    place: Place


_TOKEN = re.compile(
    r"""
      (?P<blank>   [ \t\r\n\f\v\ufeff]+ | \#[^\n]* )
    | (?P<string>  "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
    | (?P<name>    [A-Za-z_][A-Za-z0-9_]* )
    | (?P<number>  0[xX][0-9a-fA-F]+ | (?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]? )
    | (?P<mark>    [{}<>\[\]:,;-] )
    """,
    re.VERBOSE,
)

_ESCAPE = re.compile(
    r"\\(?:([abfnrtv?\\'\"])|([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})"
    r"|U([0-9a-fA-F]{8})|.)"
)
_SIMPLE = dict(zip("abfnrtv?\\'\"", "\a\b\f\n\r\t\v?\\'\"", strict=True))


def _tokens(text: str) -> Iterator[_Token]:
    position, line, line_start = 0, 1, 0
    while position < len(text):
        place = Place(line, position - line_start + 1)
        match = _TOKEN.match(text, position)
        if match is None:
            found = text[position]
            if found in "\"'":
                raise place.error("a string that does not end on its line")
            raise place.error(f"expected a field, found {found!r}")
        kind = match.lastgroup or ""
        if kind != "blank":
            yield _Token(kind, match.group(), place)
        elif newlines := match.group().count("\n"):
            line += newlines
            line_start = match.start() + match.group().rindex("\n") + 1
        position = match.end()
    yield _Token("end", "", Place(line, position - line_start + 1))


class _Parser:
    """Recursive descent over the tokens, one token ahead."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = next(self._tokens)

    def document(self) -> Message:
        return Message(tuple(self._fields(end="", depth=0)), Place(1, 1))

    def _fields(self, end: str, depth: int) -> Iterator[Field]:
        """Fields up to the closing mark, taken too; an empty one stands for the text's end."""
        while not (self._next.kind == "end" and not end):
            if end and self._take_mark(end):
                return
            name = self._next
            if name.kind != "name":
                expected = f"a field's name or {end!r}" if end else "a field's name"
                raise self._unexpected(expected)
            self._advance()
            yield from self._values(name, depth)
            if not self._take_mark(","):
                self._take_mark(";")

    def _values(self, name: _Token, depth: int) -> Iterator[Field]:
        colon = self._take_mark(":")
        if self._next.text == "[" and self._next.kind == "mark":
            yield from (Field(name.text, value, name.place) for value in self._list(colon, depth))
        else:
            yield Field(name.text, self._value(colon, depth), name.place)

    def _list(self, colon: bool, depth: int) -> Iterator[Scalar | Message]:
        self._advance()
        if self._take_mark("]"):
            return
        while True:
            yield self._value(colon, depth)
            if self._take_mark("]"):
                return
            if not self._take_mark(","):
                raise self._unexpected("',' or ']'")

    def _value(self, colon: bool, depth: int) -> Scalar | Message:
        place = self._next.place
        for start, end in (("{", "}"), ("<", ">")):
            if self._take_mark(start):
                if depth == _MAX_DEPTH:
                    raise place.error(f"messages nested deeper than {_MAX_DEPTH}")
                return Message(tuple(self._fields(end, depth + 1)), place)
        if not colon:
            raise self._unexpected("':' or '{'")
        return self._scalar()

    def _scalar(self) -> Scalar:
        place = self._next.place
        if self._next.kind == "string":
            return Scalar("string", "".join(self._strings()), place)
        sign = "-" if self._take_mark("-") else ""
        token = self._next
        if token.kind == "number":
            self._advance()
            if self._next.kind in {"name", "number"} and _touches(token, self._next):
                raise place.error(f"not a number: {token.text + self._next.text!r}")
            return Scalar("number", sign + token.text, place)
        if token.kind == "name":
            self._advance()
            return Scalar("name", sign + token.text, place)
        raise self._unexpected("a value")

    def _strings(self) -> Iterator[str]:
        while self._next.kind == "string":
            yield _unescape(self._next)
            self._advance()

    def _take_mark(self, mark: str) -> bool:
        found = self._next.kind == "mark" and self._next.text == mark
        if found:
            self._advance()
        return found

    def _advance(self) -> None:
        self._next = next(self._tokens)

    def _unexpected(self, expected: str) -> SpecError:
        found = repr(self._next.text) if self._next.text else "the end of the text"
        return self._next.place.error(f"expected {expected}, found {found}")


def _touches(left: _Token, right: _Token) -> bool:
    return right.place == (left.place.line, left.place.column + len(left.text))


def _unescape(token: _Token) -> str:
    """A string literal's text. Byte escapes give bytes, which together must be UTF-8."""

    def replace(match: re.Match[str]) -> str:
        simple, octal, hexadecimal, short, long = match.groups()
        if simple:
            return _SIMPLE[simple]
        if octal or hexadecimal:
            byte = int(octal, 8) if octal else int(hexadecimal, 16)
            if byte > 0xFF:
                raise token.place.error(f"escape {match.group()} is beyond a byte")
            return chr(byte) if byte < 0x80 else chr(0xDC00 + byte)
        if short or long:
            code = int(short or long, 16)
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                raise token.place.error(f"escape {match.group()} is not a character")
            return chr(code)
        raise token.place.error(f"unknown escape {match.group()} in a string")

    text = _ESCAPE.sub(replace, token.text[1:-1])
    try:
        # Bytes from escapes stand as lone surrogates until here.
        return text.encode(errors="surrogateescape").decode()
    except UnicodeError:
        raise token.place.error("a string that is not UTF-8") from None
