"""Workers that die, hang or cannot come back."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import uvloop

from headrace.workers.supervisor import Gone, Ready, Replaced, SupervisorOptions
from model_builders import python_model
from worker_client import Client, Failed, Session, children, gather, run_with

QUICK = SupervisorOptions(backoff_s=0.01, backoff_limit_s=0.05)


def model(path: Path, on_batch: str, on_load: str = "pass") -> Path:
    """y = 2x, after doing something with the batch ``x``; waits for the file ``go`` first."""
    return python_model(
        path,
        f"""
    import os, re, time
    class Model:
        signatures = {{
            "serving_default": {{
                "inputs": {{"x": ("float32", (None,))}},
                "outputs": {{"y": ("float32", (None,))}},
            }}
        }}
        def load(self, path):
            self.path = path
            {on_load}
        def predict(self, inputs):
            while not (self.path / "go").exists():
                time.sleep(0.002)
            x = inputs["x"].tolist()
            {on_batch}
            return {{"y": inputs["x"] * 2}}
    """,
    )


async def ask_together(client: Client, path: Path, values: list[float]) -> list[Any]:
    """Answers to values that stand in one batch, bar the first, which holds the worker up."""
    first = client.ask(0)
    while not client.worker.port.running_since_ns:
        await asyncio.sleep(0.005)
    answers = [client.ask(value) for value in values]
    (path / "go").touch()
    return await gather([first, *answers])


@pytest.mark.parametrize(
    "death",
    [
        "os._exit(1)",
        "os.kill(os.getpid(), 9)",
        "os.kill(os.getpid(), 11)",
        "os._exit(0)",
    ],
)
def test_request_that_kills_its_worker_is_given_up_and_no_other(tmp_path: Path, death: str) -> None:
    path = model(tmp_path, f"if 666 in x: {death}")

    async def body(session: Session) -> list[Any]:
        client = await session.load(path)
        answers = await ask_together(client, path, [1, 666, 2, 3])
        assert await client.ask(4) == [8]
        assert client.worker.restarts == 2
        return answers

    answers = run_with(body, QUICK)
    assert isinstance(answers.pop(2), Failed)
    assert answers == [[0], [2], [4], [6]]


def test_two_requests_that_kill_are_both_given_up(tmp_path: Path) -> None:
    path = model(tmp_path, "if 666 in x: os._exit(1)")

    async def body(session: Session) -> list[Any]:
        client = await session.load(path)
        return await ask_together(client, path, [666, 1, 666, 2])

    answers = run_with(body, QUICK)
    assert [isinstance(answer, Failed) for answer in answers] == [False, True, False, True, False]
    assert [answers[i] for i in (0, 2, 4)] == [[0], [2], [4]]


def test_run_that_takes_too_long_is_ended_even_if_it_holds_the_gil(tmp_path: Path) -> None:
    path = model(tmp_path, "666 in x and re.match('(a+)+$', 'a' * 60 + 'b')")
    (path / "go").touch()

    async def body(session: Session) -> None:
        client = await session.load(path, run_timeout_s=1.0)
        hung, *others = [client.ask(value) for value in (666, 1, 2)]
        assert await gather(others) == [[2], [4]]
        with pytest.raises(Failed):
            await hung
        reasons = {event.reason for event in client.events if isinstance(event, Replaced)}
        assert reasons == {"one run took longer than 1 s"}

    run_with(body, QUICK)


def test_silence_is_not_death(tmp_path: Path) -> None:
    path = model(tmp_path, "time.sleep(0.5)")
    (path / "go").touch()

    async def body(session: Session) -> None:
        client = await session.load(path, run_timeout_s=60.0)
        assert await client.ask(1) == [2]
        assert client.events == []

    run_with(body)


def test_20_kills_fail_no_request_and_mix_no_answers(tmp_path: Path) -> None:
    path = model(tmp_path, "pass")
    (path / "go").touch()
    wrong: list[object] = []
    asked = 0

    async def keep_asking(client: Client, start: int, stop: asyncio.Event) -> None:
        nonlocal asked
        value = start
        while not stop.is_set():
            asked += 1
            answer = await client.ask(value, value + 0.5)
            if answer != [2 * value, 2 * value + 1]:
                wrong.append((value, answer))
            value = (value + 16) % 100_000

    async def body(session: Session) -> None:
        client = await session.load(path)
        stop = asyncio.Event()
        clients = [asyncio.create_task(keep_asking(client, n, stop)) for n in range(16)]
        for kills in range(1, 21):
            os.kill(client.worker.pid, signal.SIGKILL)
            await client.until(Ready, kills)
            assert await client.ask(7) == [14]  # the successor has answered
        stop.set()
        await asyncio.gather(*clients)
        assert client.worker.restarts == 20

    run_with(body, QUICK)
    assert not wrong
    assert asked > 20


def test_death_is_noticed_and_reaped_under_uvloop(tmp_path: Path) -> None:
    path = model(tmp_path, "pass")
    (path / "go").touch()

    async def body(session: Session) -> None:
        client = await session.load(path)
        for kills in range(1, 4):
            assert await client.ask(7) == [14]
            os.kill(client.worker.pid, signal.SIGKILL)
            await client.until(Ready, kills)
        assert await client.ask(7) == [14]

    before = children()
    session = Session(QUICK, uvloop.new_event_loop())
    session.run(body)
    session.close()
    assert children() == before


def test_successor_that_cannot_load_is_tried_until_it_can(tmp_path: Path) -> None:
    path = model(tmp_path, "pass", "assert not (path / 'broken').exists(), 'broken'")
    (path / "go").touch()

    async def body(session: Session) -> None:
        client = await session.load(path)
        (path / "broken").touch()
        os.kill(client.worker.pid, signal.SIGKILL)
        await client.until(Gone, 3)
        assert not client.worker.is_ready
        waiting = client.ask(3)
        (path / "broken").unlink()
        assert await waiting == [6]
        assert [type(event) for event in client.events][:2] == [Replaced, Gone]
        gone = [event for event in client.events if isinstance(event, Gone)]
        assert "AssertionError: broken" in gone[0].reason
        assert [event.retry_s for event in gone][:3] == [0.01, 0.02, 0.04]
        await client.until(Ready)
        assert client.worker.is_ready

    run_with(body, QUICK)


def test_successor_with_other_signatures_is_refused(tmp_path: Path) -> None:
    path = model(tmp_path, "pass")

    async def body(session: Session) -> None:
        client = await session.load(path)
        code = (path / "model.py").read_text()
        (path / "model.py").write_text(code.replace("float32", "float64"))
        os.kill(client.worker.pid, signal.SIGKILL)
        await client.until(Gone)
        gone = next(event for event in client.events if isinstance(event, Gone))
        assert "signatures have changed" in gone.reason

    run_with(body, QUICK)


def test_stop_while_the_successor_loads_leaves_nothing(tmp_path: Path) -> None:
    path = model(tmp_path, "pass", "(path / 'slow').exists() and time.sleep(600)")

    async def body(session: Session) -> None:
        client = await session.load(path)
        (path / "slow").touch()
        os.kill(client.worker.pid, signal.SIGKILL)
        await client.until(Replaced)
        await client.stop()

    run_with(body)


def test_handler_that_raises_does_not_stop_supervision(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = model(tmp_path, "pass")
    (path / "go").touch()

    class Faulty(Client):
        def on_change(self, event: Any) -> None:
            super().on_change(event)
            raise RuntimeError("handler")

    async def body(session: Session) -> None:
        client = await session.load(path, Faulty())
        for kills in (1, 2):
            os.kill(client.worker.pid, signal.SIGKILL)
            await client.until(Ready, kills)
            assert await client.ask(1) == [2]

    run_with(body, QUICK)
    assert "RuntimeError: handler" in caplog.text


def test_thread_that_hangs_is_reported_and_abandoned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = model(tmp_path, "pass")

    async def body(session: Session) -> None:
        client = await session.load(path, in_process=True, run_timeout_s=0.05)
        client.ask(1)
        while "one run took longer" not in caplog.text:
            await asyncio.sleep(0.01)
        await client.stop()
        (path / "go").touch()  # lets the thread end

    run_with(body, SupervisorOptions(stop_grace_s=0.05))
    assert "cannot be stopped, it runs as a thread" in caplog.text
