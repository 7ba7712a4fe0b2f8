"""One loaded model version as the front end sees it: admission, submission, answers, re-push.

Single-owner: the front end's loop. No I/O: whoever owns the loop watches `doorbell` and the clock,
and calls `deliver` and `expire`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

from headrace.errors import (
    DeadlineExceeded,
    EncodeError,
    HeadraceError,
    ModelNotReady,
    OverloadError,
    RunFailed,
)
from headrace.serving.retry import decide_after_death

if TYPE_CHECKING:
    from headrace._core import DecodeOptions, Draft, EncodeOptions, FrontPort, Reply
    from headrace.tensors import GivenTensors, Signature

    Body = bytes | bytearray | memoryview

__all__ = ["Call", "Endpoint"]

# Ids go on counting across endpoints and worker generations: a late answer never meets a new call.
_ids = count(1)
_ANY_DEADLINE: Final = (1 << 64) - 1


class Call(Protocol):
    """Somebody who waits for an answer; gets exactly one of the three.

    Attributes:
        deadline_ns: On CLOCK_MONOTONIC; 0 for none.
    """

    deadline_ns: int

    def succeed(self, body: bytes) -> None:
        """The answer, encoded."""

    def succeed_large(self, reply: Reply) -> None:
        """An answer that is still to be encoded, off the loop."""

    def fail(self, error: HeadraceError) -> None:
        """No answer, and why."""


class Endpoint:
    """Calls on one side, the rings of one worker on the other."""

    def __init__(
        self,
        version: int,
        signatures: Mapping[str, Signature],
        port: FrontPort,
        *,
        max_in_flight_rows: int,
        max_in_flight_bytes: int,
    ) -> None:
        self.version = version
        self.signatures = signatures
        self.poisonous = 0
        """Requests given up because two workers died while running them."""
        self._port = port
        self._pending: dict[int, Call] = {}
        self._max_rows = max_in_flight_rows
        self._max_bytes = max_in_flight_bytes
        self._preparing = 0
        self.trouble = ""
        """Why nothing is answered at present; empty while all is well."""

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for an answer, or is about to submit what was prepared."""
        return bool(self._pending or self._preparing or self._port.carried_count)

    @property
    def doorbell(self) -> int:
        """File descriptor that becomes readable when answers wait."""
        return self._port.doorbell

    @property
    def port(self) -> FrontPort:
        """The rings of the present worker."""
        return self._port

    @property
    def max_in_flight(self) -> tuple[int, int]:
        """Rows and bytes at which nothing more is accepted."""
        return self._max_rows, self._max_bytes

    def __len__(self) -> int:
        return len(self._pending)

    def submit(
        self,
        call: Call,
        body: Body,
        decode: DecodeOptions,
        encode: EncodeOptions | None,
        *,
        api: int = 0,
        receive_ns: int = 0,
    ) -> int:
        """Decode a body into the ring.

        Args:
            call: Who waits.
            body: What was asked.
            decode: How to read it.
            encode: How to write the answer; None leaves that to the call.
            api: By whose number it is measured.
            receive_ns: How long the body took to come, to be measured with the rest.

        Returns:
            The id to cancel it by.

        Raises:
            DecodeError: The body is no request for this model.
            OverloadError: A bound is reached; nothing was accepted.
        """
        self._admit()
        request_id = next(_ids)
        self._port.submit(
            request_id,
            body,
            decode=decode,
            encode=encode,
            deadline_ns=call.deadline_ns,
            api=api,
            receive_ns=receive_ns,
        )
        self._pending[request_id] = call
        return request_id

    def submit_tensors(
        self,
        call: Call,
        given: GivenTensors,
        encode: EncodeOptions | None,
        *,
        api: int = 0,
        receive_ns: int = 0,
    ) -> int:
        """As `submit`, of tensors in the place of a body."""
        self._admit()
        request_id = next(_ids)
        self._port.submit_tensors(
            request_id,
            given.signature,
            given.tensors,
            encode=encode,
            deadline_ns=call.deadline_ns,
            format=given.format,
            api=api,
            receive_ns=receive_ns,
        )
        self._pending[request_id] = call
        return request_id

    def hold(self) -> None:
        """Something is about to be prepared for this endpoint: it counts as busy."""
        self._preparing += 1

    def release(self) -> None:
        """It has been prepared, and is submitted now or never."""
        self._preparing -= 1

    def prepare(self, body: Body, decode: DecodeOptions) -> Draft:
        """The first half of `submit` for a large body; callable from any thread.

        Between `hold` and `release`, so that the version is not unloaded meanwhile.
        """
        return self._port.prepare(body, decode=decode)

    def prepare_tensors(self, given: GivenTensors) -> Draft:
        """As `prepare`, of tensors in the place of a body."""
        return self._port.prepare_tensors(given.signature, given.tensors, format=given.format)

    def submit_draft(
        self,
        call: Call,
        draft: Draft,
        encode: EncodeOptions | None,
        *,
        api: int = 0,
        receive_ns: int = 0,
    ) -> int:
        """The second half, on the loop.

        Raises:
            DecodeError: The outputs cannot be answered by rows.
            OverloadError: A bound is reached; nothing was accepted.
        """
        self._admit()
        request_id = next(_ids)
        self._port.submit_draft(
            request_id,
            draft,
            encode=encode,
            deadline_ns=call.deadline_ns,
            api=api,
            receive_ns=receive_ns,
        )
        self._pending[request_id] = call
        return request_id

    def adopt(self, call: Call, request_id: int) -> None:
        """Wait for the answer to a request that the fast path has submitted."""
        self._pending[request_id] = call

    def cancel(self, request_id: int) -> None:
        """Nobody waits for this call any more; what has not begun will not run."""
        if self._pending.pop(request_id, None) is not None:
            self._port.cancel(request_id)

    def deliver(self) -> None:
        """Hand over the answers that wait. Bounded; the doorbell rings again where more is left."""
        self._deliver_from(self._port)

    def expire(self, now_ns: int) -> None:
        """Fail the calls whose deadline has passed."""
        self._unfold(self._port, now_ns)
        expired = [
            request_id
            for request_id, call in self._pending.items()
            if 0 < call.deadline_ns <= now_ns
        ]
        for request_id in expired:
            call = self._pending.pop(request_id)
            self._port.cancel(request_id)
            call.fail(DeadlineExceeded("the deadline passed before the model answered"))

    def replace(self, port: FrontPort) -> None:
        """The worker died: take what it still answered, and push the rest to its successor.

        What was running goes again once and alone, since it may be what killed the worker; what
        only waited goes as it was. What was running at two deaths is given up.
        """
        dead, self._port = self._port, port
        port.continue_metrics(dead)
        self._unfold(dead)
        while self._deliver_from(dead):
            pass
        decision = decide_after_death(dead.unanswered())
        for request_id, alone in decision.again:
            if request_id in self._pending:
                self._push_again(dead, request_id, alone=alone)
        for request_id in decision.give_up:
            self.poisonous += 1
            self._fail(request_id, RunFailed("the model's process died twice while running this"))

    def suspend(self, reason: str) -> None:
        """No worker can be started now: fail what waits, and what comes, until `resume`."""
        self.trouble = reason
        self._unfold(self._port)
        for request_id in list(self._pending):
            self._port.cancel(request_id)
            self._fail(request_id, ModelNotReady(reason))

    def resume(self) -> None:
        """A worker answers again."""
        self.trouble = ""

    def close(self, reason: str) -> None:
        """Fail what is still waiting; accept nothing more."""
        self.suspend(reason)

    def _unfold(self, port: FrontPort, deadline_ns: int = _ANY_DEADLINE) -> None:
        """Have requests of the fast path, whose deadline is no later, wait here like all others."""
        for connection in port.carried(deadline_ns):
            connection.unfold()

    def _admit(self) -> None:
        if self.trouble:
            raise ModelNotReady(self.trouble)
        port = self._port
        if port.in_flight_rows >= self._max_rows or port.in_flight_bytes >= self._max_bytes:
            raise OverloadError(
                f"too much is waiting: {port.in_flight_rows} rows of {self._max_rows}, "
                f"{port.in_flight_bytes} bytes of {self._max_bytes}"
            )

    def _deliver_from(self, port: FrontPort) -> int:
        replies = port.take_replies()
        pop = self._pending.pop
        for request_id, kind, payload in replies:
            call = pop(request_id, None)
            if call is None:
                continue
            if kind == 0:
                call.succeed(payload)
            elif kind == 1:
                call.succeed_large(payload)
            else:
                call.fail(_error_of(*payload))
        return len(replies)

    def _push_again(self, dead: FrontPort, request_id: int, *, alone: bool) -> None:
        try:
            self._port.push_again(dead, request_id, alone=alone)
        except OverloadError as error:
            self._fail(request_id, error)

    def _fail(self, request_id: int, error: HeadraceError) -> None:
        call = self._pending.pop(request_id, None)
        if call is not None:
            call.fail(error)


# Codes of the core's own encoder; all others are the worker's, in absl's words.
_ENCODER_CODES = frozenset(
    (
        "batch_size",
        "invalid_utf8",
        "non_finite",
        "shape",
        "structure",
        "too_large",
        "unknown_output",
        "unsupported_dtype",
    )
)


def _error_of(code: str, path: str, message: str) -> HeadraceError:
    """An error reply in the terms of `headrace.errors`."""
    if code == "deadline_exceeded":
        return DeadlineExceeded(message)
    if code == "unavailable":
        return ModelNotReady(message)
    if code in _ENCODER_CODES:
        return EncodeError(message, code=code, path=path)
    return RunFailed(message, kind=code)
