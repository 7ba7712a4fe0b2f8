"""Times in a histogram of high dynamic range, which can be sent to another process and added up."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import Any

__all__ = ["HIGHEST_S", "Latencies"]

HIGHEST_S = 3600.0
"""Longer times count as this one."""

_LOWEST_US = 1
_DIGITS = 3
_US = 1e6
# So many are gathered before they go into the histogram: most of them are the same few values.
_GATHERED = 8192


class Latencies:
    """Times from 1 µs to an hour, each kept within a thousandth. Memory does not grow."""

    __slots__ = ("_gathered", "_histogram")

    def __init__(self) -> None:
        # Imported late: without the extra there is still the command's help.
        histogram = import_module("hdrh.histogram").HdrHistogram
        self._histogram: Any = histogram(_LOWEST_US, int(HIGHEST_S * _US), _DIGITS)
        self._gathered: list[int] = []

    def record(self, seconds: float) -> None:
        """Count one time."""
        self._gathered.append(int(seconds * _US + 0.5))
        if len(self._gathered) >= _GATHERED:
            self._flush()

    def add(self, encoded: bytes) -> None:
        """Count all of another process's, as `encode` gave them."""
        if encoded:
            self._histogram.decode_and_add(encoded)

    def encode(self) -> bytes:
        """Compressed and in base64, as HdrHistogram's other implementations read it too.

        Empty where there are none, since the library would take the least of them for 0.
        """
        encoded: bytes = self._histogram.encode() if self.count else b""
        return encoded

    @property
    def count(self) -> int:
        """How many were recorded."""
        self._flush()
        return int(self._histogram.get_total_count())

    @property
    def mean_s(self) -> float:
        """0 where there are none, as for the others below."""
        return float(self._histogram.get_mean_value()) / _US if self.count else 0.0

    @property
    def min_s(self) -> float:
        """The shortest."""
        return float(self._histogram.get_min_value()) / _US if self.count else 0.0

    @property
    def max_s(self) -> float:
        """The longest."""
        return float(self._histogram.get_max_value()) / _US if self.count else 0.0

    def percentile_s(self, percentile: float) -> float:
        """The least time that so many percent do not exceed."""
        if not self.count:
            return 0.0
        return float(self._histogram.get_value_at_percentile(percentile)) / _US

    def _flush(self) -> None:
        for value, times in Counter(self._gathered).items():
            bounded = min(max(value, _LOWEST_US), int(HIGHEST_S * _US))
            self._histogram.record_value(bounded, times)
        self._gathered.clear()
