"""How long to wait before a worker is started again, as a pure decision."""

from __future__ import annotations

__all__ = ["Backoff"]


class Backoff:
    """How long to wait before a restart: not at all, unless the last one brought no answer."""

    def __init__(self, first_s: float, limit_s: float) -> None:
        self._first_s = first_s
        self._limit_s = limit_s
        self._fruitless = 0

    def next_s(self, *, answered: bool) -> float:
        """Seconds until the next start.

        Args:
            answered: Whether the worker that has ended had answered anything.
        """
        if answered:
            self._fruitless = 0
        wait_s = 0.0
        if self._fruitless:
            # The exponent is bounded too: 2**10000 is no float.
            wait_s = min(self._limit_s, self._first_s * 2.0 ** min(self._fruitless - 1, 60))
        self._fruitless += 1
        return wait_s
