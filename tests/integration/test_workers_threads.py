"""Workers in which several batches run at once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from headrace.workers.supervisor import Ready, SupervisorOptions
from model_builders import python_model
from worker_client import Failed, Session, gather, run_with


def model(path: Path, on_batch: str = "pass") -> Path:
    """y = 2x of any width; requests of different widths never share a batch."""
    return python_model(
        path,
        f"""
    import os, threading, time
    class Model:
        thread_safe = True
        signatures = {{
            "serving_default": {{
                "inputs": {{"x": ("float32", (None, None))}},
                "outputs": {{"y": ("float32", (None, None))}},
            }}
        }}
        together = threading.Barrier(3)
        def predict(self, inputs):
            x = inputs["x"].tolist()
            {on_batch}
            return {{"y": inputs["x"] * 2}}
    """,
    )


@pytest.mark.parametrize("in_process", [False, True])
def test_three_batches_are_in_the_model_at_once(tmp_path: Path, in_process: bool) -> None:
    path = model(tmp_path, "self.together.wait(60)")

    async def body(session: Session) -> list[Any]:
        client = await session.load(path, num_batch_threads=3, in_process=in_process)
        return await gather(client.ask([1.0] * width) for width in (1, 2, 3))

    assert run_with(body) == [[[2.0] * width] for width in (1, 2, 3)]


@pytest.mark.parametrize("in_process", [False, True])
def test_answers_of_batches_that_overtake_each_other_are_not_mixed(
    tmp_path: Path, in_process: bool
) -> None:
    path = model(tmp_path, "time.sleep(len(x[0]) * 0.0005)")
    dice = random.Random(7)
    rows = [[float(number)] * dice.randint(1, 4) for number in range(400)]

    async def body(session: Session) -> list[Any]:
        client = await session.load(path, num_batch_threads=4, in_process=in_process)
        return await gather(client.ask(row) for row in rows)

    assert run_with(body) == [[[2 * value for value in row]] for row in rows]


def test_of_batches_that_ran_when_the_worker_died_only_the_culprit_is_given_up(
    tmp_path: Path,
) -> None:
    # The first time, all three are in the model when one of them kills the process. The second
    # time, those that are innocent take long: beside the culprit they would be taken for it.
    path = model(
        tmp_path,
        """
            seen = os.path.exists(__file__ + ".seen")
            if not seen:
                self.together.wait(60)
                open(__file__ + ".seen", "a").close()
            if x[0][0] == 666:
                os._exit(1)
            if seen:
                time.sleep(0.3)
        """,
    )

    async def body(session: Session) -> list[Any]:
        client = await session.load(path, num_batch_threads=3)
        answers = await gather(client.ask(row) for row in ([1.0], [666.0, 0.0], [3.0] * 3))
        await client.until(Ready, 2)
        assert client.worker.restarts == 2
        return answers

    first, culprit, third = run_with(body, SupervisorOptions(backoff_s=0.01, backoff_limit_s=0.05))
    assert isinstance(culprit, Failed)
    assert [first, third] == [[[2.0]], [[6.0] * 3]]


def test_hung_batch_is_ended_while_others_run_on(tmp_path: Path) -> None:
    path = model(tmp_path, "if x[0][0] == 666: time.sleep(3600)")

    async def body(session: Session) -> None:
        client = await session.load(path, num_batch_threads=2, run_timeout_s=1.0)
        hung = client.ask([666.0])
        for number in range(50):
            assert await client.ask([float(number)] * 2) == [[2.0 * number] * 2]
        with pytest.raises(Failed):
            await hung
        assert await client.ask([1.0]) == [[2.0]]

    run_with(body, SupervisorOptions(backoff_s=0.01, backoff_limit_s=0.05))
