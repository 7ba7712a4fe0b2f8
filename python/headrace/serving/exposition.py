"""Prometheus' text exposition format, version 0.0.4. Pure.

Every sample has braces, with or without labels in them, as TensorFlow Serving writes them; lines of
HELP stand only where there is something to say, so the same writer serves both.

Spec: "Exposition formats" of the Prometheus documentation, text-based format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from headrace.serving.distribution import Distribution, Scale

__all__ = ["Family", "Metric", "write"]

Labels = Sequence[str]
Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as the page and its documentation describe it.

    Attributes:
        name: Valid as it stands.
        kind: Its type.
        labels: Their names, in order.
        meaning: One line; shown as HELP if ``help`` says so.
        scale: Of a histogram.
        help: Whether HELP is written.
    """

    name: str
    kind: Kind
    labels: Labels
    meaning: str
    scale: Scale | None = None
    help: bool = True


Family = tuple[Metric, Mapping[tuple[str, ...], int | float | Distribution]]
"""A metric and its values, by values of the labels."""


def write(families: Iterable[Family]) -> bytes:
    """The page. A lone surrogate in a label, as of a name that is not UTF-8, becomes ``?``."""
    lines: list[str] = []
    for metric, samples in families:
        if metric.help:
            lines.append(f"# HELP {metric.name} {_escape_help(metric.meaning)}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        for values, value in samples.items():
            labels = ",".join(
                f'{name}="{_escape(text)}"'
                for name, text in zip(metric.labels, values, strict=True)
            )
            if isinstance(value, Distribution):
                lines += _histogram(metric, labels, value)
            else:
                lines.append(f"{metric.name}{{{labels}}} {_number(value)}")
    lines.append("")
    return "\n".join(lines).encode("utf-8", "replace")


def _histogram(metric: Metric, labels: str, value: Distribution) -> Iterator[str]:
    scale = metric.scale
    assert scale is not None, f"{metric.name} has no scale"
    counts = scale.cumulative(value)
    start = f"{metric.name}_bucket{{{labels}," if labels else f"{metric.name}_bucket{{"
    for bound, count in zip(scale.labels, counts, strict=True):
        yield f'{start}le="{bound}"}} {count}'
    yield f"{metric.name}_sum{{{labels}}} {_number(value.total / scale.unit)}"
    yield f"{metric.name}_count{{{labels}}} {counts[-1]}"


def _number(value: float) -> str:
    """The shortest text that reads back to the same number; whole numbers without a fraction."""
    text = repr(value)
    return text.removesuffix(".0")


_SPECIAL = re.compile(r'[\\"\n]')
_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}


def _escape(text: str) -> str:
    return _SPECIAL.sub(lambda match: _ESCAPED[match.group()], text)


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
