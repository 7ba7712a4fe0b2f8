"""The ``[[model]]`` tables of a configuration file, read and written. Pure.

[[model]]
name = "half"
base_path = "/models/half"
versions = "latest"          # or "all", { latest = 2 }, [3, 5]
labels = { stable = 3 }
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.config.base_path import parse_base_path
from headrace.config.nearest import did_you_mean
from headrace.config.parts import ModelConfig
from headrace.config.toml_places import Keys, TomlMistake
from headrace.errors import SpecError
from headrace.serving.versions import MAX_VERSION, All, Latest, Policy, Specific

__all__ = ["models_from_tables", "models_to_toml", "toml_value"]

_KEYS = ("name", "base_path", "versions", "labels")
_VERSIONS = '"latest", "all", { latest = N } or a list of versions such as [3, 5]'


def models_from_tables(tables: object) -> tuple[ModelConfig, ...]:
    """The models that the value of the key ``model`` describes.

    Raises:
        TomlMistake: A table makes no sense, or two models have one name.
    """
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise TomlMistake(("model",), "expected tables that begin with [[model]]")
    models: dict[str, ModelConfig] = {}
    for index, table in enumerate(tables):
        model = _model(table, ("model", index))
        if model.name in models:
            raise TomlMistake(("model", index, "name"), f"a second model is called {model.name!r}")
        models[model.name] = model
    return tuple(models.values())


def models_to_toml(models: Iterable[ModelConfig]) -> str:
    """The tables that `models_from_tables` reads back as these models.

    Raises:
        SpecError: A name or a path is not UTF-8.
    """
    return "\n".join(_table(model) for model in models)


def toml_value(value: object) -> str:
    """A boolean, a number, a string, a list or a mapping, on one line.

    Raises:
        SpecError: A string is not UTF-8.
    """
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(map(toml_value, value))}]"
        case Mapping():
            pairs = (f"{_key(key)} = {toml_value(item)}" for key, item in value.items())
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
    return _string(str(value))


def _model(table: dict[str, Any], keys: Keys) -> ModelConfig:
    for key in table:
        if key not in _KEYS:
            raise TomlMistake((*keys, key), f"unknown key{did_you_mean(key, _KEYS)}")
    name, base_path = _text(table, keys, "name"), _text(table, keys, "base_path")
    try:
        path = parse_base_path(base_path)
    except SpecError as error:
        raise TomlMistake((*keys, "base_path"), str(error)) from None
    return ModelConfig(
        name=name,
        base_path=path,
        policy=_policy(table.get("versions", "latest"), (*keys, "versions")),
        labels=_labels(table.get("labels", {}), (*keys, "labels")),
    )


def _text(table: dict[str, Any], keys: Keys, key: str) -> str:
    if key not in table:
        raise TomlMistake(keys, f"{key!r} is missing")
    if not isinstance(value := table[key], str) or not value:
        raise TomlMistake((*keys, key), f"expected a string that is not empty, found {value!r}")
    return value


def _policy(value: object, keys: Keys) -> Policy:
    match value:
        case "latest":
            return Latest()
        case "all":
            return All()
        case {"latest": count, **rest} if not rest and _is_version(count) and count:
            return Latest(count)
        case list() if value and all(map(_is_version, value)):
            return Specific(tuple(value))
    raise TomlMistake(keys, f"expected {_VERSIONS}, found {value!r}")


def _labels(value: object, keys: Keys) -> dict[str, int]:
    if not isinstance(value, dict):
        raise TomlMistake(keys, f"expected a table such as {{ stable = 3 }}, found {value!r}")
    for label, version in value.items():
        if not _is_version(version):
            raise TomlMistake(
                (*keys, label),
                f"expected a whole number from 0 to {MAX_VERSION}, found {version!r}",
            )
    return dict(value)


def _is_version(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_VERSION


def _table(model: ModelConfig) -> str:
    lines = [
        "[[model]]",
        f"name = {_string(model.name)}",
        f"base_path = {_string(str(model.base_path))}",
        f"versions = {toml_value(_versions(model.policy))}",
    ]
    if model.labels:
        lines.append(f"labels = {toml_value(model.labels)}")
    return "\n".join(lines) + "\n"


def _versions(policy: Policy) -> object:
    match policy:
        case Specific(versions):
            return versions
        case All():
            return "all"
        case Latest(count) if count > 1:
            return {"latest": count}
    return "latest"


def _string(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SpecError(f"{text!r} is not UTF-8, and cannot stand in TOML") from error
    # JSON's strings are TOML's, but for DEL, which JSON lets stand.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _string(key)
