from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from headrace.cli import main, serve
from headrace.cli.flag_table import HEADRACE_FLAGS, TF_SERVING_FLAGS
from headrace.cli.flags import BOOLEAN, parse_address
from headrace.cli.serve_flags import Given, make_parser, parse_arguments
from headrace.config import Address, ServerConfig

# Section 15 of the REST specification, with the defaults that do not depend on the machine.
TF_SERVING_DEFAULTS = {
    "port": 8500,
    "grpc_socket_path": "",
    "rest_api_port": 0,
    "rest_api_num_threads": None,
    "rest_api_timeout_in_ms": 30000,
    "rest_api_enable_cors_support": False,
    "model_name": "default",
    "model_base_path": "",
    "model_config_file": "",
    "model_config_file_poll_wait_seconds": 0,
    "file_system_poll_wait_seconds": 1,
    "allow_version_labels_for_unavailable_models": False,
    "enable_batching": False,
    "batching_parameters_file": "",
    "enable_per_model_batching_parameters": False,
    "num_load_threads": 0,
    "num_unload_threads": 0,
    "max_num_load_retries": 5,
    "load_retry_interval_micros": 60000000,
    "flush_filesystem_caches": True,
    "enable_model_warmup": True,
    "num_request_iterations_for_warmup": 0,
    "monitoring_config_file": "",
    "ssl_config_file": "",
    "use_alts_credentials": False,
    "platform_config_file": "",
    "tensorflow_session_parallelism": 0,
    "tensorflow_intra_op_parallelism": 0,
    "tensorflow_inter_op_parallelism": 0,
    "tensorflow_session_config_file": "",
    "per_process_gpu_memory_fraction": 0.0,
    "saved_model_tags": "serve",
    "enable_signature_method_name_check": False,
    "remove_unused_fields_from_bundle_metagraph": True,
    "prefer_tflite_model": False,
    "num_tflite_pools": None,
    "num_tflite_interpreters_per_pool": 1,
    "xla_cpu_compilation_enabled": False,
    "xla_gpu_compilation_enabled": False,
    "mixed_precision": "",
    "enable_profiler": True,
    "grpc_max_threads": None,
    "grpc_channel_arguments": "",
    "enable_grpc_healthcheck_service": False,
    "thread_pool_factory_config_file": "",
    "skip_initialize_tpu": False,
    "enable_serialization_as_tensor_content": False,
}

VALUES = {
    "NUMBER": "3",
    "COUNT": "3",
    "PORT": "3",
    "SECONDS": "3",
    "BYTES": "3",
    "TEXT": "text",
    "true|false": "true",
    "HOST:PORT": "127.0.0.1:0",
    "debug|info|warning|error": "debug",
    "token|null|string|error": "null",
    "number|string": "string",
    "error|b64": "b64",
}


def parse(*arguments: str) -> Given:
    return parse_arguments(make_parser(), arguments)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServerConfig]:
    """What `serve` was asked to run, in place of running it."""
    configs: list[ServerConfig] = []

    def keep(config: ServerConfig, **_: object) -> int:
        configs.append(config)
        return 0

    monkeypatch.setattr(serve, "serve", keep)
    # The command sets up this process's log; what it sets is put back by the fixture of pytest.
    monkeypatch.setattr(serve, "set_up_logging", lambda level: None)
    return configs


def test_every_flag_of_tensorflow_serving_is_in_the_table() -> None:
    assert {flag.name: flag.default for flag in TF_SERVING_FLAGS} == TF_SERVING_DEFAULTS


def test_no_flag_is_there_twice() -> None:
    names = [flag.name for flag in (*HEADRACE_FLAGS, *TF_SERVING_FLAGS)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("flag", [*HEADRACE_FLAGS, *TF_SERVING_FLAGS], ids=lambda flag: flag.name)
def test_every_flag_parses_in_each_spelling(flag: Any) -> None:
    text = VALUES[flag.kind.word]
    value = flag.kind.parse(text)
    dashed = flag.name.replace("_", "-")
    for arguments in (
        [f"--{flag.name}={text}"],
        [f"--{flag.name}", text],
        [f"--{dashed}={text}"],
        [f"--{dashed}", text],
    ):
        assert parse(*arguments) == Given({flag.name: value})
    if flag.kind is BOOLEAN:
        assert parse(f"--{flag.name}") == Given({flag.name: True})
        assert parse(f"--{flag.name}=false") == Given({flag.name: False})
        assert parse(f"--{flag.name}", "--port=1").flags[flag.name] is True


@pytest.mark.parametrize("flag", TF_SERVING_FLAGS, ids=lambda flag: flag.name)
def test_flag_without_effect_warns_once_and_says_why(flag: Any) -> None:
    other = next(
        value
        for value in (VALUES[flag.kind.word], "false")
        if flag.kind.parse(value) not in flag.same
    )
    warnings = list(parse(f"--{flag.name}={other}").warnings())
    expected = [f"--{flag.name} has no effect: {flag.ignored}"] if flag.ignored else []
    assert warnings == expected
    for same in flag.same:
        assert not list(Given({flag.name: same}).warnings())


def test_of_a_flag_given_twice_the_last_counts() -> None:
    assert parse("--model_name=a", "--model-name=b").values()["model_name"] == "b"


def test_dashes_in_a_value_stay() -> None:
    assert parse("--model-name=half-plus-two").flags == {"model_name": "half-plus-two"}


def test_negative_numbers_may_stand_apart() -> None:
    assert parse("--file_system_poll_wait_seconds", "-1").flags == {
        "file_system_poll_wait_seconds": -1
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port=x"], "argument --port: 'x': expected a whole number"),
        (["--port=70000"], "expected a port from 0 to 65535"),
        (["--port=1_0"], "expected a whole number"),
        (["--port"], "expected one argument"),
        (["--in_process=yes"], "'yes': expected true or false"),
        (["--max_batch_rows=0"], "expected a whole number from 1 on"),
        (["--run_timeout=0"], "expected seconds above 0"),
        (["--run_timeout=inf"], "expected seconds above 0"),
        (["--max_body_bytes=1T"], "expected bytes above 0"),
        (["--max_body_bytes=-1"], "expected bytes above 0"),
        (["--per_process_gpu_memory_fraction=."], "expected a number"),
        (["--log_level=loud"], "expected debug, info, warning or error"),
        (["--listen=8501"], "expected HOST:PORT"),
        (["--listen=::1:8501"], "an IPv6 address stands in brackets"),
        (["--listen=localhost:http"], "expected a whole number"),
    ],
)
def test_bad_value_is_a_usage_message_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["serve", *arguments])
    assert raised.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("usage: headrace serve ")
    assert message in error


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8501", Address("127.0.0.1", 8501)),
        ("localhost:0", Address("localhost", 0)),
        ("[::1]:80", Address("::1", 80)),
        (":80", Address("", 80)),
        ("*:80", Address("", 80)),
        ("[::]:80", Address("::", 80)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("1k", 1024), ("2KiB", 2048), ("3M", 3 << 20), ("1gib", 1 << 30)],
)
def test_bytes_take_a_unit(text: str, value: int) -> None:
    assert parse(f"--max_body_bytes={text}").flags == {"max_body_bytes": value}


def test_unknown_flags_are_told_with_the_nearest_match_and_the_server_starts(
    served: list[ServerConfig], caplog: pytest.LogCaptureFixture
) -> None:
    arguments = ["--model_base_path=/m", "--model_nam=x", "--zzzzzz", "stray", "--port=0"]
    with caplog.at_level(logging.WARNING):
        assert main(["serve", *arguments]) == 0
    assert [record.getMessage() for record in caplog.records] == [
        "unknown flag --model_nam; did you mean 'model_name'?",
        "unknown flag --zzzzzz",
        "unexpected argument 'stray'; flags look like --name=value",
    ]
    assert [config.models[0].name for config in served] == ["default"]


def test_strict_refuses_unknown_flags(
    served: list[ServerConfig], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["serve", "--model_base_path=/m", "--strict", "--model_nam=x"])
    assert raised.value.code == 2
    assert "unknown flag --model_nam; did you mean 'model_name'?" in capsys.readouterr().err
    assert served == []


def test_docker_entry_point_of_tensorflow_serving_works_as_it_is(
    served: list[ServerConfig], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        main(
            [
                "serve",
                *["--port=8500", "--rest_api_port=8501", "--model_name=m"],
                "--model_base_path=/models/m",
            ]
        )
    assert [record.getMessage() for record in caplog.records] == [
        "--port has no effect: gRPC is not served"
    ]
    (config,) = served
    assert config.http.address == Address("", 8501)
    assert [(model.name, model.base_path) for model in config.models] == [("m", Path("/models/m"))]


def test_listen_beside_the_rest_port_warns() -> None:
    warnings = list(parse("--listen=127.0.0.1:0", "--rest_api_port=8501").warnings())
    assert warnings == ["--rest_api_port has no effect: --listen says where to listen"]


def test_nothing_to_serve_is_a_usage_message(
    capsys: pytest.CaptureFixture[str], served: list[ServerConfig]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["serve"])
    assert raised.value.code == 2
    assert "nothing to serve: give --model_base_path=DIR" in capsys.readouterr().err


def test_model_config_file_is_read(served: list[ServerConfig], tmp_path: Path) -> None:
    file = tmp_path / "models.config"
    file.write_text("model_config_list { config { name: 'half' base_path: '/models/half' } }")
    assert main(["serve", f"--model_config_file={file}", "--model_name=unused"]) == 0
    assert [model.name for model in served[0].models] == ["half"]


def test_monitoring_config_file_is_read(served: list[ServerConfig], tmp_path: Path) -> None:
    file = tmp_path / "monitoring.config"
    file.write_text('prometheus_config { enable: true path: "/page" }')
    arguments = ["serve", "--model_base_path=/m"]
    assert main([*arguments, f"--monitoring_config_file={file}"]) == 0
    assert main(arguments) == 0
    assert [config.metrics.tfserving_path for config in served] == ["/page", None]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, ": No such file or directory"),
        (b"\xff", ": byte 0 is not UTF-8"),
        (b"nonsense {}", ": line 1, column 1: the file has no field 'nonsense'"),
    ],
)
@pytest.mark.parametrize("flag", ["model_config_file", "monitoring_config_file"])
def test_config_file_that_cannot_be_used(
    served: list[ServerConfig],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    flag: str,
    content: bytes | None,
    message: str,
) -> None:
    file = tmp_path / "file.config"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SystemExit) as raised:
        main(["serve", "--model_base_path=/m", f"--{flag}={file}"])
    assert raised.value.code == 2
    assert f"--{flag}={file}{message}" in capsys.readouterr().err


def test_help_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["serve", "--help"])
    assert raised.value.code == 0
    shown = set(re.findall(r"^  --(\w+)", capsys.readouterr().out, re.MULTILINE))
    assert shown >= {flag.name for flag in (*HEADRACE_FLAGS, *TF_SERVING_FLAGS)}
