"""How requests are put together for a run: what can be set for one model version. Pure."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BatchSettings"]


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """What is configured of the batches of one model version.

    Attributes:
        max_rows: Rows stacked into one run at most; a single request may have more.
    """

    max_rows: int = 1024
