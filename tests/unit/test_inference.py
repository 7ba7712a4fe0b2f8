"""A large body is decoded off the loop, and its endpoint is kept meanwhile."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.errors import DecodeError, EncodeError
from headrace.server.inference import Inference, InferenceOptions


class Endpoint:
    """Notes what it is told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.log: list[str] = []
        self._error = error

    def hold(self) -> None:
        self.log.append("hold")

    def release(self) -> None:
        self.log.append("release")

    def prepare(self, body: bytes, *args: Any, **options: Any) -> str:
        self.log.append("prepare")
        if self._error is not None:
            raise self._error
        return "draft"

    def submit_draft(self, call: object, draft: str, *args: Any, **options: Any) -> int:
        self.log.append(f"submit {draft}")
        return 1

    def cancel(self, request_id: int) -> None:
        self.log.append("cancel")


@pytest.mark.parametrize(
    ("error", "closed", "end"),
    [
        (None, False, ["submit draft"]),
        (None, True, []),
        (DecodeError("bad"), False, ["bad"]),
        (DecodeError("bad"), True, []),
    ],
)
def test_endpoint_is_held_from_before_the_decoding_until_the_submission(
    error: Exception | None, closed: bool, end: list[str]
) -> None:
    endpoint = Endpoint(error)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as executor:
            inference = Inference(
                InferenceOptions(large_body_bytes=1), loop=loop, executor=executor
            )
            exchange = SimpleNamespace(
                request=SimpleNamespace(body=b"x", head=SimpleNamespace(meter=None)),
                began_ns=0,
                receive_ns=0,
                closed=closed,
                release_body=lambda: None,
                on_disconnect=None,
            )
            answerer = SimpleNamespace(fail=lambda _, error: endpoint.log.append(str(error)))
            inference.submit(
                endpoint,  # type: ignore[arg-type]
                exchange,  # type: ignore[arg-type]
                answerer,  # type: ignore[arg-type]
                decode=None,  # type: ignore[arg-type]
                encode=None,
            )
            assert endpoint.log[0] == "hold"
            # What the thread has left on the loop comes before what follows the next wait for it.
            await loop.run_in_executor(executor, lambda: None)
            await asyncio.sleep(0)

    asyncio.run(main())
    assert endpoint.log == ["hold", "prepare", "release", *end]


@pytest.mark.parametrize("nbytes", [64 << 10, (64 << 10) + 1])
@pytest.mark.parametrize("error", [None, EncodeError("no form"), RuntimeError("a bug")])
def test_answer_is_encoded_on_the_loop_unless_it_is_large(
    nbytes: int, error: Exception | None
) -> None:
    loops, told = [], []

    def encode(reply: object) -> str:
        loops.append(threading.current_thread() is threading.main_thread())
        if error is not None:
            raise error
        return "answer"

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as executor:
            inference = Inference(InferenceOptions(), loop=loop, executor=executor)
            answerer = SimpleNamespace(
                encode=encode,
                succeed=lambda _, answer: told.append(answer),
                fail=lambda _, error: told.append(str(error)),
            )
            inference.encode(None, SimpleNamespace(nbytes=nbytes), answerer)  # type: ignore[arg-type]
            await loop.run_in_executor(executor, lambda: None)
            await asyncio.sleep(0)

    asyncio.run(main())
    assert loops == [nbytes == 64 << 10]
    # What was not raised on purpose is logged, and the client told nothing of it.
    assert told == [{EncodeError: "no form", RuntimeError: ""}.get(type(error), "answer")]
