"""What the general path concludes for a head that comes again: a route of the fast path.

The fast path (``_core.FastPath``) repeats conclusions and draws none. A route says what the general
path has done with a request and would do with the next one that has the same head, as long as
nothing changes; `ListenerState.forget_routes` is called when something does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace._core import FastRoute

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace._core import DecodeOptions, EncodeOptions
    from headrace.server.head import Head
    from headrace.server.messages import Exchange
    from headrace.serving.endpoint import Endpoint

__all__ = ["FastAnswers", "learn_route"]

# Larger bodies are decoded without the GIL, and so by the general path.
_MAX_BODY_BYTES: Final = 32 << 10


@dataclass(frozen=True, slots=True)
class FastAnswers:
    """How a dialect answers, where its good answers are plain.

    Attributes:
        encode: How the core writes the body, which is JSON; the status is 200.
        headers: Header lines of each answer, with their line ends.
    """

    encode: EncodeOptions
    headers: bytes = b""


def learn_route(
    exchange: Exchange,
    endpoint: Endpoint,
    decode: DecodeOptions,
    answers: FastAnswers,
    *,
    timeout_ns: int,
    adopt: Callable[[Exchange, int], None],
) -> None:
    """Note how a request went that was just submitted, if others like it may go the fast path.

    Args:
        exchange: The request.
        endpoint: Where it went.
        decode: How its body was read.
        answers: How it will be answered.
        timeout_ns: From its arrival to its answer; 0: no limit.
        adopt: Called with an exchange and an id, makes that request wait for its answer in the
            general way.
    """
    head, fast = exchange.request.head, exchange.fast
    if fast is None or head.meter is None or not _is_plain(head):
        return
    route = FastRoute(
        head=head,
        adopt=adopt,
        port=endpoint.port,
        decode=decode,
        encode=answers.encode,
        latencies=head.meter.latencies,
        headers=answers.headers,
        timeout_ns=timeout_ns,
        max_in_flight=endpoint.max_in_flight,
        body_bytes=head.plain_length,
        max_answer_bytes=exchange.max_plain_answer_bytes,
        api=head.meter.number,
    )
    fast.add(head.raw, route)


def _is_plain(head: Head) -> bool:
    return (
        head.plain
        and head.is_cached
        and 0 < head.plain_length < _MAX_BODY_BYTES
        and not head.expects_continue
    )
