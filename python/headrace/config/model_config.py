"""TensorFlow Serving's ModelServerConfig: which models, where, which versions, which labels. Pure.

Spec: tfserving-rest section 16.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.config.base_path import parse_base_path
from headrace.config.nearest import did_you_mean
from headrace.config.parts import ModelConfig
from headrace.config.text_format import Field, Message, Place, Scalar, parse_text
from headrace.errors import SpecError
from headrace.serving.versions import MAX_VERSION, All, Latest, Policy, Specific

__all__ = ["parse_model_config"]


def parse_model_config(text: str) -> tuple[ModelConfig, ...]:
    """The models of a ``--model_config_file``, in its order.

    ``logging_config`` is read over: TensorFlow Serving does not log REST requests either.

    Raises:
        SpecError: The text breaks the format or the schema, or two models have one name; the
            message has line and column.
    """
    root = _Reader(parse_text(text), "the file", ("model_config_list", "custom_model_config"))
    if custom := root.find("custom_model_config"):
        raise custom.place.error("custom_model_config is not supported; use model_config_list")
    models: dict[str, ModelConfig] = {}
    for field in root.messages("model_config_list"):
        configs = _Reader(field, "model_config_list", ("config",))
        for config in configs.messages("config"):
            model = _model(config)
            if model.name in models:
                raise config.place.error(f"a second model is called {model.name!r}")
            models[model.name] = model
    return tuple(models.values())


def _model(config: Message) -> ModelConfig:
    reader = _Reader(
        config,
        "config",
        (
            "name",
            "base_path",
            "model_type",
            "model_platform",
            "model_version_policy",
            "version_labels",
            "logging_config",
        ),
    )
    _check_platform(reader)
    base_path = reader.text("base_path")
    try:
        path = parse_base_path(base_path)
    except SpecError as error:
        raise reader.place("base_path").error(str(error)) from None
    return ModelConfig(
        name=reader.text("name"),
        base_path=path,
        policy=_policy(reader),
        labels=dict(_label(message) for message in reader.messages("version_labels")),
    )


def _check_platform(reader: _Reader) -> None:
    """What a directory holds decides what runs it; the field is checked and not needed."""
    platform, old = reader.find("model_platform"), reader.find("model_type")
    if platform and old:
        raise old.place.error("model_type and model_platform exclude each other")
    if platform and (found := _text(platform)) not in {"", "tensorflow"}:
        raise platform.place.error(f"model_platform: expected 'tensorflow', found {found!r}")
    if old and (found := _scalar(old).text) not in {"TENSORFLOW", "1"}:
        raise old.place.error(f"model_type: expected TENSORFLOW, found {found}")


def _policy(reader: _Reader) -> Policy:
    field = reader.find("model_version_policy")
    if field is None:
        return Latest()
    choices = _Reader(_message(field), field.name, ("latest", "all", "specific"))
    names = choices.names()
    if len(names) > 1:
        raise field.place.error(f"{field.name}: {' and '.join(names)} exclude each other")
    for choice in choices.messages("latest"):
        latest = _Reader(choice, "latest", ("num_versions",))
        return Latest(latest.integer("num_versions", default=1) or 1)
    for choice in choices.messages("all"):
        _Reader(choice, "all", ())
        return All()
    for choice in choices.messages("specific"):
        specific = _Reader(choice, "specific", ("versions",))
        versions = specific.integers("versions")
        if not versions:
            raise choice.place.error("specific: expected at least one 'versions'")
        return Specific(versions)
    return Latest()


def _label(entry: Message) -> tuple[str, int]:
    reader = _Reader(entry, "version_labels", ("key", "value"))
    return reader.text("key"), reader.integer("value")


class _Reader:
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
        field = self.find(name)
        return field.place if field else self._message.place

    def text(self, name: str) -> str:
        """A string that must be there and not be empty."""
        field = self.find(name)
        if field is None:
            raise self._message.place.error(f"{self._what}: {name!r} is missing")
        if not (text := _text(field)):
            raise field.place.error(f"{name} must not be empty")
        return text

    def integer(self, name: str, default: int | None = None) -> int:
        """A version-like number."""
        field = self.find(name)
        if field is not None:
            return _integer(field)
        if default is None:
            raise self._message.place.error(f"{self._what}: {name!r} is missing")
        return default

    def integers(self, name: str) -> tuple[int, ...]:
        return tuple(_integer(field) for field in self._all(name))

    def messages(self, name: str) -> Iterator[Message]:
        return (_message(field) for field in self._all(name))

    def _all(self, name: str) -> Iterator[Field]:
        return (field for field in self._message.fields if field.name == name)


def _message(field: Field) -> Message:
    if isinstance(field.value, Message):
        return field.value
    raise field.value.place.error(f"{field.name}: expected {{ ... }}, found {field.value.text!r}")


def _scalar(field: Field) -> Scalar:
    if isinstance(field.value, Scalar):
        return field.value
    raise field.value.place.error(f"{field.name}: expected a single value, found a message")


def _text(field: Field) -> str:
    value = _scalar(field)
    if value.kind != "string":
        raise value.place.error(f"{field.name}: expected a string in quotes, found {value.text}")
    return value.text


def _integer(field: Field) -> int:
    value = _scalar(field)
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
