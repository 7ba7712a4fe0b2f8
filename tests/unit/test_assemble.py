from __future__ import annotations

from pathlib import Path

from headrace.config import Address, MetricsConfig, ModelConfig, ServerConfig
from headrace.server.assemble import front_end_options
from headrace.server.front_end import FrontEndOptions
from headrace.server.models import ModelSource
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
