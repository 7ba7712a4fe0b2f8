"""``headrace docs``: the pages that are shipped with the package."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import headrace
from headrace.config.nearest import did_you_mean

__all__ = ["pages", "run"]


def pages() -> dict[str, Path]:
    """Topic to page, by name."""
    # A wheel is always unpacked, since the core is a shared library: its pages are plain files.
    directory = Path(headrace.__file__).parent / "docs"
    return {page.stem: page for page in sorted(directory.glob("*.md"))}


def run(arguments: Sequence[str]) -> int:
    """Print a page, or the list of topics.

    Raises:
        SystemExit: Status 2: no such topic.
    """
    parser = argparse.ArgumentParser(
        prog="headrace docs", description="Print a page of the documentation, or their list."
    )
    parser.add_argument("topic", metavar="TOPIC", nargs="?", help="a page's name")
    topic = parser.parse_args(arguments).topic
    found = pages()
    if topic is None:
        width = max(map(len, found)) + 2
        for name, page in found.items():
            title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
            print(f"{name:{width}}{title}")
        return 0
    if topic not in found:
        parser.error(f"no page {topic!r}{did_you_mean(topic, found)} (pages: {', '.join(found)})")
    print(found[topic].read_text(encoding="utf-8"), end="")
    return 0
