"""What came of the requests: in one process, and of all processes together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from headrace.bench.latencies import Latencies

__all__ = ["LOST", "NO_CONNECTION", "TIMEOUT", "Packed", "Record"]

TIMEOUT = "no answer in time"
LOST = "connection lost"
NO_CONNECTION = "no connection"

_SAMPLE_BYTES = 500
_SAMPLED_STATUSES = 16


@dataclass(frozen=True, slots=True)
class Packed:
    """A `Record` on its way to another process."""

    latency: bytes
    service: bytes
    lateness: bytes
    statuses: Counter[int]
    failures: Counter[str]
    samples: dict[int, bytes]
    last_at: float


@dataclass(slots=True)
class Record:
    """Counts and times of a stretch of a run.

    Attributes:
        latency: From when a request was due to its answer; answers of status 2xx, and requests that
            timed out, with the time that they waited: leaving them out would flatter the server.
        service: Of the same answers, from when the request was sent.
        lateness: How late the generator itself was to notice that a request was due.
        statuses: Of the answers.
        failures: Requests without an answer, by `TIMEOUT`, `LOST` or `NO_CONNECTION`.
        samples: The beginning of the first answer of each status that is not 2xx.
        last_at: Monotonic time of the last answer or failure; 0: there was none.
    """

    latency: Latencies = field(default_factory=Latencies)
    service: Latencies = field(default_factory=Latencies)
    lateness: Latencies = field(default_factory=Latencies)
    statuses: Counter[int] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    samples: dict[int, bytes] = field(default_factory=dict)
    last_at: float = 0.0

    def answered(
        self, status: int, body: bytes, *, due_at: float, sent_at: float, now: float
    ) -> None:
        """Count an answer; its body is needed only where the status is not 2xx."""
        self.last_at = now
        self.statuses[status] += 1
        if 200 <= status < 300:
            self.latency.record(now - due_at)
            self.service.record(now - sent_at)
        else:
            self._sample(status, body)

    def failed(self, failure: str, *, due_at: float, now: float) -> None:
        """Count a request that got no answer."""
        self.last_at = now
        self.failures[failure] += 1
        if failure == TIMEOUT:
            self.latency.record(now - due_at)

    @property
    def requests(self) -> int:
        """All that were answered or failed."""
        return self.statuses.total() + self.failures.total()

    @property
    def successes(self) -> int:
        """Answers of status 2xx."""
        return sum(n for status, n in self.statuses.items() if 200 <= status < 300)

    def pack(self) -> Packed:
        """For `add` in another process."""
        return Packed(
            self.latency.encode(),
            self.service.encode(),
            self.lateness.encode(),
            self.statuses,
            self.failures,
            self.samples,
            self.last_at,
        )

    def add(self, packed: Packed) -> None:
        """Count what another record holds."""
        self.latency.add(packed.latency)
        self.service.add(packed.service)
        self.lateness.add(packed.lateness)
        self.statuses += packed.statuses
        self.failures += packed.failures
        for status, body in packed.samples.items():
            self._sample(status, body)
        self.last_at = max(self.last_at, packed.last_at)

    def _sample(self, status: int, body: bytes) -> None:
        if status not in self.samples and len(self.samples) < _SAMPLED_STATUSES:
            self.samples[status] = body[:_SAMPLE_BYTES]
