"""A text-format message's fields read by name, with errors that say where. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headrace.config.nearest import did_you_mean
from headrace.config.text_format import Field, Message, Place, Scalar
from headrace.serving.versions import MAX_VERSION

__all__ = ["Reader", "integer_of", "message_of", "scalar_of", "text_of"]

_TRUE: Final = ("true", "True", "t", "1")
_FALSE: Final = ("false", "False", "f", "0")


class Reader:
    """One message's fields by name; those that the schema lacks are refused at once."""

    def __init__(self, message: Message, what: str, known: tuple[str, ...]) -> None:
        self._message = message
        self._what = what
        for field in message.fields:
            if field.name not in known:
                raise field.place.error(
                    f"{what} has no field {field.name!r}{did_you_mean(field.name, known)}"
                )

    def names(self) -> list[str]:
        """Names of the fields that are there."""
        return list(dict.fromkeys(field.name for field in self._message.fields))

    def find(self, name: str) -> Field | None:
        """The field of that name, which must not be repeated."""
        fields = list(self._all(name))
        if len(fields) > 1:
            raise fields[1].place.error(f"{name} is given twice")
        return fields[0] if fields else None

    def place(self, name: str) -> Place:
        """Where a field is, or would be."""
        field = self.find(name)
        return field.place if field else self._message.place

    def text(self, name: str) -> str:
        """A string that must be there and not be empty."""
        field = self.find(name)
        if field is None:
            raise self._message.place.error(f"{self._what}: {name!r} is missing")
        if not (text := text_of(field)):
            raise field.place.error(f"{name} must not be empty")
        return text

    def flag(self, name: str) -> bool:
        """A boolean; false where it is left out."""
        field = self.find(name)
        return field is not None and _boolean(field)

    def integer(self, name: str, default: int | None = None) -> int:
        """A version-like number."""
        field = self.find(name)
        if field is not None:
            return integer_of(field)
        if default is None:
            raise self._message.place.error(f"{self._what}: {name!r} is missing")
        return default

    def integers(self, name: str) -> tuple[int, ...]:
        """The values of a repeated version-like number."""
        return tuple(integer_of(field) for field in self._all(name))

    def messages(self, name: str) -> Iterator[Message]:
        """The values of a repeated message."""
        return (message_of(field) for field in self._all(name))

    def _all(self, name: str) -> Iterator[Field]:
        return (field for field in self._message.fields if field.name == name)


def message_of(field: Field) -> Message:
    """The field's value, which must be a message."""
    if isinstance(field.value, Message):
        return field.value
    raise field.value.place.error(f"{field.name}: expected {{ ... }}, found {field.value.text!r}")


def scalar_of(field: Field) -> Scalar:
    """The field's value, which must not be a message."""
    if isinstance(field.value, Scalar):
        return field.value
    raise field.value.place.error(f"{field.name}: expected a single value, found a message")


def text_of(field: Field) -> str:
    """The field's value, which must be a string."""
    value = scalar_of(field)
    if value.kind != "string":
        raise value.place.error(f"{field.name}: expected a string in quotes, found {value.text}")
    return value.text


def _boolean(field: Field) -> bool:
    """Spec: the text format's literals of a bool."""
    value = scalar_of(field)
    if value.text in _TRUE and value.kind != "string":
        return True
    if value.text in _FALSE and value.kind != "string":
        return False
    raise value.place.error(f"{field.name}: expected true or false, found {value.text!r}")


def integer_of(field: Field) -> int:
    """The field's value, which must be version-like."""
    value = scalar_of(field)
    number = _parse_integer(value.text) if value.kind == "number" else None
    if number is None or not 0 <= number <= MAX_VERSION:
        found = repr(value.text) if value.kind == "string" else value.text
        raise value.place.error(
            f"{field.name}: expected a whole number from 0 to {MAX_VERSION}, found {found}"
        )
    return number


def _parse_integer(text: str) -> int | None:
    """An integer as text format writes it: decimal, 0x hexadecimal or 0 octal."""
    octal = text.startswith("0") and text.isdigit()
    try:
        return int(text, 8) if octal else int(text, 0)
    except ValueError:
        return None
