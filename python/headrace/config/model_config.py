"""TensorFlow Serving's ModelServerConfig: which models, where, which versions, which labels. Pure.

Spec: tfserving-rest section 16.
"""

from __future__ import annotations

from headrace.config.base_path import parse_base_path
from headrace.config.fields import Reader, message_of, scalar_of, text_of
from headrace.config.parts import ModelConfig
from headrace.config.text_format import Message, parse_text
from headrace.errors import SpecError
from headrace.serving.versions import All, Latest, Policy, Specific

__all__ = ["parse_model_config"]


def parse_model_config(text: str) -> tuple[ModelConfig, ...]:
    """The models of a ``--model_config_file``, in its order.

    ``logging_config`` is read over: TensorFlow Serving does not log REST requests either.

    Raises:
        SpecError: The text breaks the format or the schema, or two models have one name; the
            message has line and column.
    """
    root = Reader(parse_text(text), "the file", ("model_config_list", "custom_model_config"))
    if custom := root.find("custom_model_config"):
        raise custom.place.error("custom_model_config is not supported; use model_config_list")
    models: dict[str, ModelConfig] = {}
    for field in root.messages("model_config_list"):
        configs = Reader(field, "model_config_list", ("config",))
        for config in configs.messages("config"):
            model = _model(config)
            if model.name in models:
                raise config.place.error(f"a second model is called {model.name!r}")
            models[model.name] = model
    return tuple(models.values())


def _model(config: Message) -> ModelConfig:
    reader = Reader(
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


def _check_platform(reader: Reader) -> None:
    """What a directory holds decides what runs it; the field is checked and not needed."""
    platform, old = reader.find("model_platform"), reader.find("model_type")
    if platform and old:
        raise old.place.error("model_type and model_platform exclude each other")
    if platform and (found := text_of(platform)) not in {"", "tensorflow"}:
        raise platform.place.error(f"model_platform: expected 'tensorflow', found {found!r}")
    if old and (found := scalar_of(old).text) not in {"TENSORFLOW", "1"}:
        raise old.place.error(f"model_type: expected TENSORFLOW, found {found}")


def _policy(reader: Reader) -> Policy:
    field = reader.find("model_version_policy")
    if field is None:
        return Latest()
    choices = Reader(message_of(field), field.name, ("latest", "all", "specific"))
    names = choices.names()
    if len(names) > 1:
        raise field.place.error(f"{field.name}: {' and '.join(names)} exclude each other")
    for choice in choices.messages("latest"):
        latest = Reader(choice, "latest", ("num_versions",))
        return Latest(latest.integer("num_versions", default=1) or 1)
    for choice in choices.messages("all"):
        Reader(choice, "all", ())
        return All()
    for choice in choices.messages("specific"):
        specific = Reader(choice, "specific", ("versions",))
        versions = specific.integers("versions")
        if not versions:
            raise choice.place.error("specific: expected at least one 'versions'")
        return Specific(versions)
    return Latest()


def _label(entry: Message) -> tuple[str, int]:
    reader = Reader(entry, "version_labels", ("key", "value"))
    return reader.text("key"), reader.integer("value")
