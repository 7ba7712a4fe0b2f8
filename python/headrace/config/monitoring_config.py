"""TensorFlow Serving's MonitoringConfig: whether there is a page of metrics, and where. Pure.

Spec: tfserving-rest section 20.
"""

from __future__ import annotations

from typing import Final

from headrace.config.fields import Reader
from headrace.config.text_format import parse_text

__all__ = ["parse_monitoring_config"]

_DEFAULT_PATH: Final = "/monitoring/prometheus/metrics"


def parse_monitoring_config(text: str) -> str | None:
    """The path that a ``--monitoring_config_file`` gives the page; None: no page is wanted.

    Raises:
        SpecError: The text breaks the format or the schema; the message has line and column.
    """
    root = Reader(parse_text(text), "the file", ("prometheus_config",))
    field = root.find("prometheus_config")
    if field is None:
        return None
    (message,) = root.messages("prometheus_config")
    config = Reader(message, "prometheus_config", ("enable", "path"))
    path = config.text("path") if config.find("path") else _DEFAULT_PATH
    if not path.startswith("/") or "?" in path:
        raise config.place("path").error(f"path: expected /..., without a query, found {path!r}")
    return path if config.flag("enable") else None
