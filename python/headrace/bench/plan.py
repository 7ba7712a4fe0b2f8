"""What a load generator is to do."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, replace

from headrace.bench.arrivals import Arrivals

__all__ = ["OpenLoop", "Plan", "Trust"]


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Arrivals at a rate, whatever the server does.

    Attributes:
        rate: Requests a second, of all processes together.
        arrivals: How they follow one another.
        seed: Of random arrivals.
    """

    rate: float
    arrivals: Arrivals
    seed: int


@dataclass(frozen=True, slots=True)
class Trust:
    """Whom to trust in HTTPS.

    Attributes:
        authorities: File of certificates in PEM; empty: those of the system.
        verify: False: any certificate is accepted.
    """

    authorities: str = ""
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        """For a client.

        Raises:
            OSError: The file cannot be read, or holds no certificate.
        """
        context = ssl.create_default_context(cafile=self.authorities or None)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. Can be pickled.

    Attributes:
        host: Where the server is.
        port: Likewise.
        tls: None: HTTP.
        messages: Whole requests as bytes, heads included, sent in turn.
        connections: Of all processes together; each has one request at a time.
        open_loop: None: each connection sends its next request when it has its answer.
        warmup_s: What is sent so early does not count.
        duration_s: How long requests are sent after that; None: until `requests` are sent.
        requests: At most so many that count; None: as many as there is time for.
        timeout_s: Longest wait for an answer, from when its request was due.
        processes: How many share the work.
    """

    host: str
    port: int
    tls: Trust | None
    messages: tuple[bytes, ...]
    connections: int
    open_loop: OpenLoop | None
    warmup_s: float
    duration_s: float | None
    requests: int | None
    timeout_s: float
    processes: int

    def part(self, number: int) -> Plan:
        """What process `number`, from 0 on, has to do: its connections and requests.

        Arrivals stay those of all processes: each takes its own from them.
        """
        requests = self.requests
        if requests is not None:
            requests = _part(requests, number, self.processes)
        return replace(
            self,
            connections=_part(self.connections, number, self.processes),
            requests=requests,
        )


def _part(total: int, number: int, parts: int) -> int:
    return total // parts + (number < total % parts)
