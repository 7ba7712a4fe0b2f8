"""What can be configured, and how flags and files become it; read by `cli` and the application."""

from headrace.config.from_flags import server_config
from headrace.config.model_config import parse_model_config
from headrace.config.monitoring_config import parse_monitoring_config
from headrace.config.parts import (
    Address,
    HttpConfig,
    LifecycleConfig,
    MetricsConfig,
    ModelConfig,
    RequestConfig,
    SecurityConfig,
    ServerConfig,
    WorkerConfig,
)

__all__ = [
    "Address",
    "HttpConfig",
    "LifecycleConfig",
    "MetricsConfig",
    "ModelConfig",
    "RequestConfig",
    "SecurityConfig",
    "ServerConfig",
    "WorkerConfig",
    "parse_model_config",
    "parse_monitoring_config",
    "server_config",
]
