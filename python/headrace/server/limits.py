"""How much of everything one HTTP server takes, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HttpLimits"]

_KIB = 1 << 10
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bounds of a listener. Each is refused with a status that says so, never by silence.

    Attributes:
        max_connections: Live connections; the next one is answered 503 and closed. An idle
            connection costs about 2 KiB here and its socket buffers in the kernel. The listener
            lowers it to what the process's limit of open files leaves.
        max_pipelined: Requests of one connection that wait for their answers; then it is not read
            further until one is answered. More than a client needs to hide a round trip.
        max_request_line_bytes: 414 beyond. RFC 9112 section 3 asks for at least 8,000.
        max_header_bytes: Request line and headers together, 431 beyond. Twice the largest default
            met in proxies (32 KiB), so that what a proxy lets through is not refused here.
        max_headers: Header lines, 431 beyond. Bounds the work per request, not only its bytes.
        max_body_bytes: A body as sent and as inflated, 413 beyond. TensorFlow Serving has no limit;
            reports of real use end near 50 MB, and five times that leaves room for base64 and for
            long decimals, while a wrong upload does not take the machine.
        max_total_body_bytes: All bodies being received or held until their answer, as inflated;
            503 beyond, before the body is read where its length is declared. Four of the largest.
            Bodies that come whole in one read (under 64 KiB) are not counted: connections bound
            them.
        max_inflation_ratio: Inflated bytes per byte received, 413 beyond. DEFLATE reaches 1,032.
            Applies above ``free_inflation_bytes``, for a small body of zeros is no attack.
        free_inflation_bytes: Inflated size below which no ratio is refused.
        gzip_min_bytes: Answers from this size are compressed for clients that accept gzip; None:
            never. At level 1 a megabyte costs some 10 ms of one core, so that on a fast network
            only large answers gain.
        idle_timeout_s: How long a connection may be silent between two requests. Longer than the
            600 s for which common load balancers keep a backend connection: the side that reuses
            connections must be the one that closes them, or it meets a closed one now and then.
        header_timeout_s: From the first byte of a request to the end of its headers, else 408.
        body_timeout_s: A body takes at most this long plus a second for each
            ``min_body_bytes_per_s`` received, else 408.
        min_body_bytes_per_s: See above. 16 KiB/s is a 128 kbit/s line.
        write_timeout_s: A client that has not taken a byte of its answer for so long is cut off.
        linger_timeout_s: After an early refusal the rest of the request is read and dropped for
            at most so long, since closing at once would reset the connection and destroy the
            answer on its way (RFC 9112 section 9.6). Also how long a close may take.
        retry_after_s: What a 503 of this layer says in ``Retry-After``.
    """

    max_connections: int = 10_000
    max_pipelined: int = 32
    max_request_line_bytes: int = 16 * _KIB
    max_header_bytes: int = 64 * _KIB
    max_headers: int = 128
    max_body_bytes: int = 256 * _MIB
    max_total_body_bytes: int = 1024 * _MIB
    max_inflation_ratio: int = 200
    free_inflation_bytes: int = 16 * _MIB
    gzip_min_bytes: int | None = 32 * _KIB
    idle_timeout_s: float = 650.0
    header_timeout_s: float = 30.0
    body_timeout_s: float = 30.0
    min_body_bytes_per_s: int = 16 * _KIB
    write_timeout_s: float = 60.0
    linger_timeout_s: float = 3.0
    retry_after_s: int = 1

    @property
    def tick_s(self) -> float:
        """Period of the sweep over all connections: fine enough for the shortest timeout."""
        shortest = min(
            self.idle_timeout_s,
            self.header_timeout_s,
            self.body_timeout_s,
            self.write_timeout_s,
            self.linger_timeout_s,
        )
        return max(0.01, min(1.0, shortest / 4))
