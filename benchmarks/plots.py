"""Pictures of the figures, for those who ask for them: matplotlib loads only then."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness import Spread


def add_plot_argument(parser: argparse.ArgumentParser) -> None:
    """The option of every benchmark that can draw."""
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw there: .svg or .png")


def bars(
    file: Path,
    title: str,
    unit: str,
    rows: Mapping[str, Mapping[str, Spread]],
    *,
    even: float | None = None,
) -> None:
    """A bar for each alternative in each row, with a line from its lowest to its highest figure.

    Args:
        file: Its suffix says which kind of picture.
        title: Above it.
        unit: Below the axis of figures, which begins at 0.
        rows: By row and alternative; an alternative may be missing in a row.
        even: Where a line marks that both are the same, as 1 does for ratios.
    """
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    height = 0.8 / len(names)
    figure = Figure(figsize=(8, 1.2 + 0.25 * len(rows) * max(1, len(names))), layout="constrained")
    axes = figure.subplots()
    for position, name in enumerate(names):
        found = [(number, row[name]) for number, row in enumerate(rows.values()) if name in row]
        axes.barh(
            [number + (position - (len(names) - 1) / 2) * height for number, _ in found],
            [spread.median for _, spread in found],
            height,
            xerr=_whiskers([spread for _, spread in found]),
            label=name,
            error_kw={"elinewidth": 0.8},
        )
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.set(title=title, xlabel=unit)
    axes.grid(visible=True, axis="x", alpha=0.3)
    if even is not None:
        axes.axvline(even, color="black", linewidth=1)
    if len(names) > 1:
        axes.legend()
    _save(figure, file)


def curves(
    file: Path, title: str, labels: tuple[str, str], lines: Mapping[str, Mapping[float, Spread]]
) -> None:
    """A line for each alternative over the values of something, both axes logarithmic.

    Args:
        file: Its suffix says which kind of picture.
        title: Above it.
        labels: Of the horizontal and the vertical axis.
        lines: By alternative, the figure at each value.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, points in lines.items():
        spreads = list(points.values())
        medians = [spread.median for spread in spreads]
        axes.errorbar(list(points), medians, _whiskers(spreads), label=name, marker="o", capsize=2)
    axes.set(title=title, xlabel=labels[0], ylabel=labels[1], xscale="log", yscale="log")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    _save(figure, file)


def _whiskers(spreads: Sequence[Spread]) -> list[list[float]]:
    return [[s.median - s.low for s in spreads], [s.high - s.median for s in spreads]]


def _save(figure: object, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)
