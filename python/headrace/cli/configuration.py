"""Flags, and the files that they name, become the configuration: what `serve` and `config` share.

[server]                     every flag under its name, without the dashes
max_body_bytes = "64MiB"

[[model]]                    see `headrace.config.model_tables`
"""

from __future__ import annotations

import logging
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from headrace.cli.flags import Flag
from headrace.cli.serve_flags import FLAGS, Given
from headrace.config import (
    ModelConfig,
    ServerConfig,
    parse_model_config,
    parse_monitoring_config,
    server_config,
)
from headrace.config.model_tables import models_from_tables, models_to_toml, toml_value
from headrace.config.nearest import did_you_mean
from headrace.config.toml_places import TomlMistake, line_of, parse_toml
from headrace.errors import SpecError

__all__ = ["ConfigFile", "Configuration", "config_file_to_toml", "parse_config_file"]

T = TypeVar("T")

_log = logging.getLogger(__name__)

_TABLES = ("server", "model")
_SERVER = {name: flag for name, flag in FLAGS.items() if name != "config"}

# Flags of one group say the same thing in different ways: of the command line's and the file's
# only the former count.
_GROUPS = (("listen", "rest_api_port"), ("model_base_path", "model_config_file"))

# These flags are told by the [[model]] tables instead.
_OF_MODELS = ("model_name", "model_base_path", "model_config_file")


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What a configuration file says.

    Attributes:
        flags: Those that it sets, with their values.
        models: What it lists; None: it lists none.
    """

    flags: Mapping[str, Any] = field(default_factory=dict)
    models: tuple[ModelConfig, ...] | None = None


class Configuration:
    """A command line together with the files that it names, which may be read again."""

    def __init__(self, given: Given) -> None:
        """Read the configuration file.

        Raises:
            SpecError: It cannot be used; the message has the place.
        """
        self._command_line = given
        self._file = _config_file(given)
        self.given = _merge(given, self._file)
        """The flags of both, as if all had been on the command line."""
        self._last_values = self.given.values()

    def read(self) -> ServerConfig:
        """The configuration, with the models as their file has them now.

        Raises:
            SpecError: It makes no sense; the message has the place.
        """
        values = self.given.values()
        metrics_path = _in_file(values, "monitoring_config_file", parse_monitoring_config)
        return server_config(values, self._models(self._file), metrics_path)

    def read_models(self) -> tuple[ModelConfig, ...]:
        """The models as their file has them now, be it the configuration file.

        Raises:
            SpecError: Likewise.
        """
        file = _config_file(self._command_line)
        given = _merge(self._command_line, file)
        models = server_config(given.values(), self._models(file)).models
        self._warn_of_changes(given.values())
        return models

    def _warn_of_changes(self, values: dict[str, Any]) -> None:
        """Only models are taken anew: whoever edits the rest should not wait for an effect."""
        before = self._last_values
        changed = [n for n in values if n not in _OF_MODELS and values[n] != before[n]]
        if changed:
            _log.warning(
                "the server has to be started again for these settings: %s", ", ".join(changed)
            )
        self._last_values = values

    def _models(self, file: ConfigFile) -> tuple[ModelConfig, ...] | None:
        flags = self._command_line.flags
        if file.models is not None and not any(flags.get(name) for name in _GROUPS[1]):
            return file.models
        values = _merge(self._command_line, file).values()
        return _in_file(values, "model_config_file", parse_model_config)


def parse_config_file(text: str) -> ConfigFile:
    """Read a configuration file.

    Raises:
        SpecError: It is no TOML, a key is unknown or a value is wrong; the message has the line.
    """
    document = parse_toml(text)
    try:
        return _config_file_of(document)
    except TomlMistake as mistake:
        raise SpecError(f"line {line_of(text, mistake.keys)}: {mistake}") from None


def config_file_to_toml(config: ServerConfig, values: Mapping[str, Any]) -> str:
    """A configuration file that says the same.

    Args:
        config: The configuration; its models are taken.
        values: Every flag that is honoured, with its value.

    Raises:
        SpecError: A text is not UTF-8.
    """
    lines = [
        f"{name} = {toml_value(value)}"
        for name, flag in _SERVER.items()
        if not flag.ignored and name not in _OF_MODELS and (value := values[name]) is not None
    ]
    return "\n".join(["[server]", *lines, "", models_to_toml(config.models)])


def _config_file(given: Given) -> ConfigFile:
    return _in_file(given.flags, "config", parse_config_file) or ConfigFile()


def _in_file(values: Mapping[str, Any], flag: str, parse: Callable[[str], T]) -> T | None:
    """What the file holds that a flag names; None where it names none."""
    if not (path := values.get(flag)):
        return None
    try:
        return parse(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SpecError(f"--{flag}={path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"--{flag}={path}: byte {error.start} is not UTF-8") from error
    except SpecError as error:
        raise SpecError(f"--{flag}={path}: {error}") from error


def _merge(given: Given, file: ConfigFile) -> Given:
    flags = dict(file.flags)
    for group in _GROUPS:
        if any(given.flags.get(name) for name in group):
            for name in group:
                flags.pop(name, None)
    return Given({**flags, **given.flags}, given.unknown)


def _config_file_of(document: Mapping[str, Any]) -> ConfigFile:
    for table in document:
        if table not in _TABLES:
            raise TomlMistake((table,), f"unknown table{did_you_mean(table, _TABLES)}")
    server = document.get("server", {})
    if not isinstance(server, dict):
        raise TomlMistake(("server",), "expected a table that begins with [server]")
    flags = {name: _flag_value(name, value) for name, value in server.items()}
    if "model" not in document:
        return ConfigFile(flags)
    for name in _OF_MODELS:
        if name in flags:
            raise TomlMistake(("server", name), "excludes [[model]] tables, which say the same")
    return ConfigFile(flags, models_from_tables(document["model"]))


def _flag_value(name: str, value: object) -> Any:
    flag: Flag | None = _SERVER.get(name)
    if flag is None:
        raise TomlMistake(("server", name), f"unknown key{did_you_mean(name, _SERVER)}")
    try:
        return flag.kind.from_toml(value)
    except ArgumentTypeError as error:
        raise TomlMistake(("server", name), str(error)) from None
