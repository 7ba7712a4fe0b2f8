from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.serve_flags import Given
from headrace.config import (
    Address,
    HttpConfig,
    LifecycleConfig,
    ModelConfig,
    RequestConfig,
    SecurityConfig,
    ServerConfig,
    WorkerConfig,
    server_config,
)
from headrace.config.base_path import parse_base_path
from headrace.errors import SpecError
from headrace.serving.versions import All
from headrace.workers.batching import BatchSettings

HALF = {"model_name": "half", "model_base_path": "/models/half"}
MODELS = (ModelConfig("half", Path("/models/half")),)


def configure(flags: dict[str, object], file: tuple[ModelConfig, ...] | None = None) -> object:
    return server_config(Given(flags).values(), file)


def test_without_other_flags_every_part_has_its_default() -> None:
    assert configure(HALF) == ServerConfig(MODELS)


def test_every_flag_reaches_its_part() -> None:
    flags = {
        "listen": Address("::1", 0),
        "max_connections": 1,
        "max_body_bytes": 2,
        "max_total_body_bytes": 3,
        "max_header_bytes": 4,
        "idle_timeout": 5.0,
        "header_timeout": 6.0,
        "body_timeout": 7.0,
        "rest_api_timeout_in_ms": 1500,
        "rest_api_enable_cors_support": True,
        "max_json_depth": 8,
        "max_in_flight_rows": 9,
        "max_in_flight_bytes": 10,
        "pretty": True,
        "non_finite": "null",
        "int64": "string",
        "invalid_utf8": "b64",
        "in_process": True,
        "device": "cpu",
        "saved_model_tags": "serve,tpu",
        "tensorflow_intra_op_parallelism": 2,
        "tensorflow_session_parallelism": 3,
        "run_timeout": 11.0,
        "max_batch_rows": 12,
        "num_batch_threads": 4,
        "request_ring_bytes": 13,
        "reply_ring_bytes": 14,
        "max_reply_bytes": 15,
        "file_system_poll_wait_seconds": 16,
        "max_num_load_retries": 17,
        "load_retry_interval_micros": 250_000,
        "drain_timeout": 18.0,
        "model_config_file_poll_wait_seconds": 19,
        "tls_cert": "/cert.pem",
        "tls_key": "/key.pem",
        "auth_token_file": "/tokens",
        "auth_health": True,
    }
    assert configure({**HALF, **flags}) == ServerConfig(
        MODELS,
        HttpConfig(Address("::1", 0), 1, 2, 3, 4, 5.0, 6.0, 7.0),
        RequestConfig(1.5, True, 8, 9, 10, True, "null", "string", "b64"),
        WorkerConfig(True, "cpu", ("serve", "tpu"), 2, 3, 11.0, BatchSettings(12), 4, 13, 14, 15),
        LifecycleConfig(16.0, 17, 0.25, 18.0, 19.0),
        SecurityConfig(Path("/cert.pem"), Path("/key.pem"), Path("/tokens"), True),
    )


@pytest.mark.parametrize(
    ("flags", "address"),
    [
        ({}, Address("127.0.0.1", 8501)),
        ({"rest_api_port": 0}, Address("127.0.0.1", 8501)),
        ({"rest_api_port": 9000}, Address("", 9000)),
        ({"listen": Address("::1", 0)}, Address("::1", 0)),
        ({"listen": Address("127.0.0.1", 0), "rest_api_port": 9000}, Address("127.0.0.1", 0)),
    ],
)
def test_listen_says_exactly_where_and_the_rest_port_is_on_every_interface(
    flags: dict[str, object], address: Address
) -> None:
    config = configure({**HALF, **flags})
    assert isinstance(config, ServerConfig)
    assert config.http.address == address


@pytest.mark.parametrize(("value", "timeout_s"), [(1, 0.001), (0, None), (-5, None)])
def test_zero_or_less_is_no_limit_as_in_tensorflow_serving(
    value: int, timeout_s: float | None
) -> None:
    config = configure({**HALF, "rest_api_timeout_in_ms": value})
    assert isinstance(config, ServerConfig)
    assert config.requests.timeout_s == timeout_s


def test_a_file_takes_the_place_of_the_single_model() -> None:
    listed = (ModelConfig("other", Path("/other"), All()),)
    config = configure(HALF, listed)
    assert isinstance(config, ServerConfig)
    assert config.models == listed


@pytest.mark.parametrize(
    ("flags", "file", "message"),
    [
        ({}, None, "nothing to serve: give --model_base_path=DIR"),
        ({"model_base_path": "/m", "model_name": ""}, None, "--model_name must not be empty"),
        ({}, (), "the configuration lists no model"),
        ({**HALF, "tls_cert": "/cert.pem"}, None, "go together: one is missing"),
        ({**HALF, "tls_key": "/key.pem"}, None, "go together: one is missing"),
        (
            {
                **HALF,
                "tensorflow_session_parallelism": 1,
                "tensorflow_intra_op_parallelism": 1,
                "tensorflow_inter_op_parallelism": 1,
            },
            None,
            "all three exclude each other",
        ),
    ],
)
def test_flags_that_make_no_sense(
    flags: dict[str, object], file: tuple[ModelConfig, ...] | None, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        configure(flags, file)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/models/half", "/models/half"),
        ("/models/half/", "/models/half"),
        ("file:///models/half", "/models/half"),
        ("FILE:///models/half", "/models/half"),
        ("models/half", "HERE/models/half"),
        (".", "HERE"),
        ("a:/b", "HERE/a:/b"),
    ],
)
def test_base_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_base_path(text) == Path(path.replace("HERE", str(tmp_path)))


@pytest.mark.parametrize("text", ["", "\0", "s3://bucket/m", "gs://b/m", "file://host/m"])
def test_base_paths_that_are_no_directory_of_this_machine(text: str) -> None:
    with pytest.raises(SpecError, match="base path"):
        parse_base_path(text)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (Address(), "127.0.0.1:8501"),
        (Address("", 80), "*:80"),
        (Address("::1", 0), "[::1]:0"),
    ],
)
def test_address_reads_as_it_is_typed(address: Address, text: str) -> None:
    assert str(address) == text
