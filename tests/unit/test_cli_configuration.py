"""The configuration file: what it may say, who wins, and that it can be printed and read back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from headrace.cli import main
from headrace.cli.configuration import Configuration, parse_config_file
from headrace.cli.flag_table import HEADRACE_FLAGS, TF_SERVING_FLAGS
from headrace.cli.flags import Flag
from headrace.cli.serve_flags import make_parser, parse_arguments
from headrace.config import Address, ModelConfig, ServerConfig
from headrace.errors import SpecError
from headrace.serving.versions import All

MODEL = '[[model]]\nname = "half"\nbase_path = "/models/half"\n'
HALF = ModelConfig("half", Path("/models/half"))

# A value of each kind in TOML, and what it comes to.
VALUES: dict[str, tuple[str, Any]] = {
    "NUMBER": ("3", 3),
    "COUNT": ("3", 3),
    "PORT": ("3", 3),
    "SECONDS": ("0.25", 0.25),
    "BYTES": ('"3k"', 3072),
    "TEXT": ('"text"', "text"),
    "true|false": ("true", True),
    "HOST:PORT": ('"[::1]:0"', Address("::1", 0)),
    "debug|info|warning|error": ('"debug"', "debug"),
    "token|null|string|error": ('"null"', "null"),
    "number|string": ('"String"', "string"),
    "error|b64": ('"b64"', "b64"),
}


def configuration(*arguments: str) -> Configuration:
    return Configuration(parse_arguments(make_parser(), arguments))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "headrace.toml"


def with_file(file: Path, text: str, *arguments: str) -> ServerConfig:
    file.write_text(text)
    return configuration(f"--config={file}", *arguments).read()


@pytest.mark.parametrize("flag", [*HEADRACE_FLAGS, *TF_SERVING_FLAGS], ids=lambda flag: flag.name)
def test_every_flag_can_be_said_in_the_file(flag: Flag) -> None:
    if flag.name == "config":
        return
    text, value = VALUES[flag.kind.word]
    assert parse_config_file(f"[server]\n{flag.name} = {text}").flags == {flag.name: value}


@pytest.mark.parametrize("flag", [*HEADRACE_FLAGS, *TF_SERVING_FLAGS], ids=lambda flag: flag.name)
def test_default_of_every_flag_can_be_said_in_the_file(flag: Flag) -> None:
    default = flag.default
    if flag.name == "config" or default is None:
        return
    text = str(default).lower() if isinstance(default, bool) else repr(default).replace("'", '"')
    assert parse_config_file(f"[server]\n{flag.name} = {text}").flags == {flag.name: default}


def test_file_alone_says_everything(file: Path) -> None:
    config = with_file(file, f'[server]\nlisten = "127.0.0.1:0"\nmax_batch_rows = 7\n{MODEL}')
    assert config.models == (HALF,)
    assert config.http.address == Address("127.0.0.1", 0)
    assert config.workers.batching.max_rows == 7


def test_file_may_lead_to_models_as_flags_do(file: Path) -> None:
    text = '[server]\nmodel_name = "half"\nmodel_base_path = "/models/half"\n'
    assert with_file(file, text).models == (HALF,)


@pytest.mark.parametrize(
    ("text", "arguments", "attribute", "value"),
    [
        ("max_batch_rows = 7", ["--max_batch_rows=8"], "workers.batching.max_rows", 8),
        ("in_process = true", ["--in_process=false"], "workers.in_process", False),
        ('listen = "127.0.0.1:1"', ["--listen=127.0.0.1:2"], "http.address.port", 2),
        ('listen = "127.0.0.1:1"', ["--rest_api_port=2"], "http.address", Address("", 2)),
        ("rest_api_port = 1", ["--listen=:2"], "http.address", Address("", 2)),
    ],
)
def test_flags_win_over_the_file(
    file: Path, text: str, arguments: list[str], attribute: str, value: object
) -> None:
    found: Any = with_file(file, f"[server]\n{text}\n{MODEL}", *arguments)
    for name in attribute.split("."):
        found = getattr(found, name)
    assert found == value


def test_settings_that_only_a_start_takes_are_named_once(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text(f"[server]\nmax_batch_rows = 7\n{MODEL}")
    read_models = configuration(f"--config={file}").read_models
    file.write_text(f'[server]\nmax_batch_rows = 8\nnon_finite = "null"\n{MODEL}')
    assert read_models() == (HALF,)
    assert caplog.messages == [
        "the server has to be started again for these settings: max_batch_rows, non_finite"
    ]
    read_models()
    assert len(caplog.messages) == 1


def test_models_of_the_command_line_win_over_those_of_the_file(file: Path, tmp_path: Path) -> None:
    flag = "--model_base_path=/models/other"
    (model,) = with_file(file, MODEL, flag).models
    assert (model.name, model.base_path) == ("default", Path("/models/other"))
    listed = tmp_path / "models.config"
    listed.write_text("model_config_list { config { name: 'a' base_path: '/a' } }")
    text = f'[server]\nmodel_config_file = "{listed}"\n'
    assert with_file(file, MODEL, f"--model_config_file={listed}").models[0].name == "a"
    assert with_file(file, text).models[0].name == "a"
    assert with_file(file, text, flag).models[0].name == "default"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = y", "Invalid value (at line 1, column 5)"),
        ("a = 1", "line 1: a: unknown table"),
        ("[[queue]]", "line 1: queue: unknown table"),
        ("[servr]", "line 1: servr: unknown table; did you mean 'server'?"),
        ("[[server]]", "line 1: server: expected a table that begins with [server]"),
        (
            "[server]\nmax_bodi_bytes = 1",
            "line 2: server.max_bodi_bytes: unknown key; did you mean 'max_body_bytes'?",
        ),
        ('[server]\nconfig = "x"', "line 2: server.config: unknown key"),
        ("[server]\nmodel_name.x = 1", "line 2: server.model_name: {'x': 1}: expected a string"),
        ("[server]\nstrict = 1", "line 2: server.strict: 1: expected true or false"),
        ('[server]\nstrict = "true"', "server.strict: 'true': expected true or false"),
        ("[server]\nport = true", "server.port: true: expected a whole number"),
        ("[server]\nport = 70000", "server.port: '70000': expected a port from 0 to 65535"),
        ("[server]\nmax_body_bytes = 1.5", "expected a whole number or a string"),
        ('[server]\nmax_body_bytes = "1T"', "'1T': expected bytes above 0"),
        ("[server]\nrun_timeout = inf", "expected seconds above 0"),
        ("[server]\nrun_timeout = nan", "expected seconds above 0"),
        ("[server]\nlisten = 8501", "8501: expected a string"),
        (
            f'{MODEL}[server]\nmodel_base_path = "/m"',
            "line 5: server.model_base_path: excludes [[model]] tables, which say the same",
        ),
        (f"{MODEL}verions = [1]", "line 4: model[0].verions: unknown key; did you mean 'versions'"),
    ],
)
def test_mistakes_are_named_with_their_place(file: Path, text: str, message: str) -> None:
    with pytest.raises(SpecError) as raised:
        with_file(file, text)
    assert str(raised.value).startswith(f"--config={file}: ")
    assert message in str(raised.value)


def test_file_that_cannot_be_read_is_a_usage_message(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for content, message in ((None, "No such file"), (b"\xff", "byte 0 is not UTF-8")):
        if content is not None:
            file.write_bytes(content)
        for command in ("serve", "config"):
            with pytest.raises(SystemExit) as raised:
                main([command, f"--config={file}"])
            assert raised.value.code == 2
            assert f"--config={file}: {message}" in capsys.readouterr().err


def test_models_are_read_anew_from_where_they_came(file: Path, tmp_path: Path) -> None:
    file.write_text(MODEL)
    read = configuration(f"--config={file}").read_models
    assert read() == (HALF,)
    file.write_text(f'{MODEL}versions = "all"')
    assert read() == (ModelConfig("half", Path("/models/half"), All()),)
    file.write_text("[[model]]")
    with pytest.raises(SpecError, match=r"line 1: model\[0\]: 'name' is missing"):
        read()
    listed = tmp_path / "models.config"
    listed.write_text("model_config_list { config { name: 'a' base_path: '/a' } }")
    read = configuration(f"--model_config_file={listed}").read_models
    assert [model.name for model in read()] == ["a"]
    listed.write_text("\nmodel_config_list { config { name: 'b' base_path: '/b' } } x")
    with pytest.raises(SpecError, match=r"models\.config: line 2, column 61"):
        read()
    listed.write_text("")
    with pytest.raises(SpecError, match="lists no model"):
        read()


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", ["--model_base_path=/models/half", "--rest_api_port=8501"]),
        (MODEL, ["--listen=:1", "--run_timeout=0.5", "--strict", "--tls_cert=c", "--tls_key=k"]),
        (
            '[server]\nsaved_model_tags = "a,b"\ndrain_timeout = 1e-3\n'
            f'{MODEL}labels = {{ "a b" = 1 }}\n'
            '[[model]]\nname = "\\u007f\\"\'"\nbase_path = "m"\nversions = [1, 2]\n',
            ["--model_config_file_poll_wait_seconds=5", "--auth_health", "--auth_token_file=t"],
        ),
    ],
)
def test_printed_configuration_reads_back_as_the_same(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, arguments: list[str]
) -> None:
    file.write_text(text)
    arguments = [f"--config={file}", *arguments]
    assert main(["config", *arguments]) == 0
    printed = capsys.readouterr().out
    again = tmp_path / "again.toml"
    again.write_text(printed)
    assert configuration(f"--config={again}").read() == configuration(*arguments).read()
    assert main(["config", f"--config={again}"]) == 0
    assert capsys.readouterr().out == printed


def test_config_warns_as_serve_does(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--model_base_path=/m", "--port=8500", "--model_nam=x"]
    assert main(["config", *arguments]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "headrace config: unknown flag --model_nam; did you mean 'model_name'?",
        "headrace config: --port has no effect: gRPC is not served",
    ]
    with pytest.raises(SystemExit) as raised:
        main(["config", "--strict", *arguments])
    assert raised.value.code == 2
    with pytest.raises(SystemExit):
        main(["config"])
    assert "usage: headrace config " in capsys.readouterr().err


def test_config_starts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    threads = len(os.listdir("/proc/self/task"))
    assert main(["config", "--model_base_path=/does/not/exist"]) == 0
    assert len(os.listdir("/proc/self/task")) == threads
