"""What a misspelt name was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["did_you_mean"]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` with the nearest known name, or nothing where none is near."""
    # Imported here: it is needed after a mistake only, and takes a while to load.
    from difflib import get_close_matches

    matches = get_close_matches(name, list(known), n=1, cutoff=0.7)
    return f"; did you mean {matches[0]!r}?" if matches else ""
