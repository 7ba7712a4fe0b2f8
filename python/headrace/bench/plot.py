"""Latency by percentile, as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["FORMATS", "plot_percentiles"]

FORMATS = (".png", ".svg")

_TICKS = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999)


def plot_percentiles(
    file: Path, title: str, curves: Mapping[str, Sequence[tuple[float, float]]]
) -> None:
    """Draw curves of latency, the last percents stretched, since they are what one looks for.

    Args:
        file: Its suffix, one of `FORMATS`, says which kind.
        title: Above the picture.
        curves: By name, percentiles from 0 to 100 with latencies in microseconds.

    Raises:
        ImportError: matplotlib is missing.
        OSError: The file cannot be written.
    """
    # Not pyplot, which looks for a display and keeps figures.
    figure_module = import_module("matplotlib.figure")
    ticker = import_module("matplotlib.ticker")
    figure: Any = figure_module.Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    farthest = 1.0
    for name, points in curves.items():
        inner = [(100 / (100 - p), us / 1e3) for p, us in points if p < 100]
        axes.plot(*zip(*inner, strict=True), label=name)
        farthest = max(farthest, inner[-1][0])
    ticks = [t for t in _TICKS if 100 / (100 - t) <= farthest * 1.01]
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(ticker.FixedLocator([100 / (100 - t) for t in ticks]))
    axes.xaxis.set_major_formatter(ticker.FixedFormatter([f"{t:g}%" for t in ticks]))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.set(title=title, xlabel="percentile", ylabel="latency, ms", ylim=(0, None))
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(file)
