from __future__ import annotations

from pathlib import Path

from headrace.config import (
    Address,
    LifecycleConfig,
    MetricsConfig,
    ModelConfig,
    RequestConfig,
    SecurityConfig,
    ServerConfig,
)
from headrace.dialects.tfserving.wishes import Wishes
from headrace.server.assemble import front_end_options
from headrace.server.front_end import FrontEndOptions, SecurityOptions
from headrace.server.models import ModelSource
from headrace.server.tfserving_api import TensorFlowServingOptions
from headrace.serving.versions import All

BASE = Path("/models/half")


def test_default_configuration_is_every_part_at_its_own_default() -> None:
    assert front_end_options(ServerConfig((ModelConfig("half", BASE),))) == FrontEndOptions(
        models=[ModelSource("half", BASE)], listen=[("127.0.0.1", Address().port)]
    )


def test_model_keeps_its_policy_and_labels() -> None:
    model = ModelConfig("half", BASE, All(), {"stable": 5})
    (source,) = front_end_options(ServerConfig((model,))).models
    assert source == ModelSource("half", BASE, All(), {"stable": 5})


def test_path_of_tensorflow_servings_metrics_is_passed_on() -> None:
    config = ServerConfig((ModelConfig("half", BASE),), metrics=MetricsConfig("/page"))
    assert front_end_options(config).tfserving_metrics_path == "/page"


def test_form_of_answers_is_passed_on() -> None:
    requests = RequestConfig(
        cors=True, pretty=True, non_finite="null", int64="string", invalid_utf8="b64"
    )
    security = SecurityConfig(auth_token_file=Path("/tokens"))
    config = ServerConfig((), requests=requests, security=security)
    assert front_end_options(config).tfserving == TensorFlowServingOptions(
        cors=True,
        asks_token=True,
        wishes=Wishes(non_finite="null", int64_as_string=True, pretty=True),
        invalid_utf8_as_b64=True,
    )


def test_files_of_security_reach_the_front_end() -> None:
    cert, key, tokens = Path("/cert.pem"), Path("/key.pem"), Path("/tokens")
    config = ServerConfig((), security=SecurityConfig(cert, key, tokens, True))
    assert front_end_options(config).security == SecurityOptions(cert, key, tokens, True)


def test_models_read_anew_are_as_the_first_ones() -> None:
    model = ModelConfig("half", BASE, All(), {"stable": 5})
    config = ServerConfig((), lifecycle=LifecycleConfig(poll_s=None, read_models_s=7.0))
    options = front_end_options(config, lambda: [model])
    assert options.read_models is not None
    assert options.read_models() == [ModelSource("half", BASE, All(), {"stable": 5}, poll_s=None)]
    assert options.read_models_every_s == 7.0
