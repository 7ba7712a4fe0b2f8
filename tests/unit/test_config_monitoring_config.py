from __future__ import annotations

import pytest

from headrace.config import parse_monitoring_config
from headrace.errors import SpecError


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('prometheus_config { enable: true path: "/metrics" }', "/metrics"),
        ("prometheus_config: <enable: t>", "/monitoring/prometheus/metrics"),
        ('prometheus_config { path: "/x" }', None),
        ("prometheus_config { enable: false }", None),
        ("prometheus_config { enable: 1 }", "/monitoring/prometheus/metrics"),
        ("prometheus_config {}", None),
        ("# nothing", None),
    ],
)
def test_path_is_where_the_page_is_wanted(text: str, path: str | None) -> None:
    assert parse_monitoring_config(text) == path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prometheus { }", "line 1, column 1: the file has no field 'prometheus'; did you mean"),
        ("prometheus_config { on: true }", "line 1, column 21: prometheus_config has no field"),
        ("prometheus_config { enable: yes }", "expected true or false, found 'yes'"),
        ("prometheus_config { enable: 'true' }", "expected true or false"),
        ("prometheus_config { enable: true path: 'm' }", "column 34: path: expected /..."),
        ("prometheus_config { enable: true path: '/m?x' }", "without a query"),
        ("prometheus_config { enable: true enable: true }", "enable is given twice"),
        ("prometheus_config { path: {} }", "expected a single value"),
    ],
)
def test_mistakes_are_told_with_their_place(text: str, message: str) -> None:
    with pytest.raises(SpecError) as raised:
        parse_monitoring_config(text)
    assert message in str(raised.value)
