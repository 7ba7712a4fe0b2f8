"""Workers that run TensorFlow: forked from the warm parent, or started afresh."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import model_builders
from headrace.errors import LoadFailed
from headrace.workers.control import MessageReader, send_message
from headrace.workers.supervisor import Ready, SupervisorOptions
from worker_client import Session, children, descriptors, gather, run_with

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def tf1_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_builders.half_plus_three_tf1(tmp_path_factory.mktemp("tf1") / "1")


@pytest.fixture(scope="module")
def tf2_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_builders.module_tf2(tmp_path_factory.mktemp("tf2") / "1")


@pytest.fixture(scope="module")
def warm() -> Iterator[Session]:
    """One warm parent for all tests that do it no harm; importing takes seconds."""
    session = Session()
    yield session
    session.close()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def test_saved_model_answers_from_a_forked_worker(tf1_path: Path, warm: Session) -> None:
    async def body(session: Session) -> None:
        client = await session.load(tf1_path)
        assert parent_of(client.worker.pid) != os.getpid()
        assert await client.ask(1.0, 2.0, 5.0) == [3.5, 4.0, 5.5]
        assert await client.ask("yes", "what", signature="lookup") == [1, 2]

    warm.run(body)


def test_saved_model_answers_from_a_worker_started_afresh(tf1_path: Path) -> None:
    async def body(session: Session) -> None:
        client = await session.load(tf1_path)
        assert parent_of(client.worker.pid) == os.getpid()
        assert await client.ask(1.0, 2.0, 5.0) == [3.5, 4.0, 5.5]

    run_with(body, SupervisorOptions(fork=False))


def test_one_request_is_bit_equal_to_tensorflow_on_the_same_batch(
    tf2_path: Path, warm: Session
) -> None:
    import tensorflow as tf

    rng = np.random.default_rng(5)
    a, b = rng.random((33, 4), np.float32), rng.random((33, 3), np.float32)
    expected = tf.saved_model.load(str(tf2_path)).signatures["affine"](
        a=tf.constant(a), b=tf.constant(b)
    )

    async def body(session: Session) -> Any:
        client = await session.load(tf2_path)
        return await client.ask_columns({"a": a.tolist(), "b": b.tolist()}, "affine")

    outputs = warm.run(body)
    assert outputs.keys() == expected.keys()
    for name, value in outputs.items():
        np.testing.assert_array_equal(np.array(value, np.float32), expected[name].numpy())


def test_stacked_requests_get_their_own_rows(tf2_path: Path, warm: Session) -> None:
    async def body(session: Session) -> list[Any]:
        client = await session.load(tf2_path)
        answers = [
            client.ask(
                *[{"a": [n, 0, 0, row], "b": [n, row, 0]} for row in range(n % 4 + 1)],
                signature="affine",
            )
            for n in range(60)
        ]
        return await gather(answers)

    for n, answer in enumerate(warm.run(body)):
        norms = [np.hypot(n, row) for row in range(n % 4 + 1)]
        np.testing.assert_allclose([row["norm"] for row in answer], norms, rtol=1e-5)


def test_bad_row_is_blamed_and_its_batch_is_not(tf2_path: Path, warm: Session) -> None:
    def row(value: float) -> dict[str, list[float]]:
        return {"a": [value] * 4, "b": [0] * 3}

    async def body(session: Session) -> list[Any]:
        client = await session.load(tf2_path)
        values = [1, -1, 2, 3]
        return await gather(client.ask(row(value), signature="affine") for value in values)

    answers = warm.run(body)
    bad = answers.pop(1)
    assert bad.code == "invalid_argument"
    assert "a must not be negative" in str(bad)
    assert [round(answer[0]["norm"]) for answer in answers] == [2, 4, 6]


def test_strings_unknown_rank_and_state(tf2_path: Path, warm: Session) -> None:
    async def body(session: Session) -> None:
        client = await session.load(tf2_path)
        texts = await gather(client.ask(f"t{n}", signature="shout") for n in range(20))
        assert texts == [[{"loud": f"t{n}!", "size": len(f"t{n}")}] for n in range(20)]
        total = await client.ask_columns([[1.0, 2.0], [3.0, 4.0]], "total_of")
        assert total["sum"] == 10.0
        for n in (1, 2, 3):
            assert await client.ask_columns(5, "count") == 5 * n

    warm.run(body)


def test_state_starts_anew_in_a_successor(tf2_path: Path, warm: Session) -> None:
    async def body(session: Session) -> None:
        client = await session.load(tf2_path)
        assert await client.ask_columns(5, "count") == 5
        os.kill(client.worker.pid, signal.SIGKILL)
        await client.until(Ready)
        assert await client.ask_columns(5, "count") == 5

    warm.run(body)


def test_damaged_model_fails_to_load_and_leaves_nothing(tmp_path: Path, warm: Session) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"not a proto")

    async def body(session: Session) -> None:
        with pytest.raises(LoadFailed, match=str(tmp_path)):
            await session.load(tmp_path)
        before = descriptors()
        with pytest.raises(LoadFailed, match=str(tmp_path)):
            await session.load(tmp_path)
        assert descriptors() == before

    warm.run(body)


def test_hang_after_the_fork_falls_back_to_a_fresh_start(
    tf1_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(session: Session) -> None:
        for _ in range(2):
            client = await session.load(tf1_path)
            assert parent_of(client.worker.pid) == os.getpid()
            assert await client.ask(2.0) == [4.0]

    run_with(body, SupervisorOptions(first_answer_s=0.0))
    assert caplog.text.count("no operation was run within 0 s of the fork") == 1


def test_warm_parent_that_died_is_replaced_and_its_workers_live_on(tf1_path: Path) -> None:
    async def body(session: Session) -> None:
        first = await session.load(tf1_path)
        warm = parent_of(first.worker.pid)
        assert len(os.listdir(f"/proc/{warm}/task")) == 1
        os.kill(warm, signal.SIGKILL)
        while warm in children():
            await asyncio.sleep(0.01)
        second = await session.load(tf1_path)
        assert parent_of(second.worker.pid) not in (warm, os.getpid())
        assert await first.ask(2.0) == [4.0]
        assert await second.ask(2.0) == [4.0]
        os.kill(first.worker.pid, signal.SIGKILL)  # whose end nobody reports now
        await first.until(Ready)
        assert await first.ask(2.0) == [4.0]

    before = children()
    run_with(body)
    assert children() == before


def test_warm_parent_refuses_to_fork_once_tensorflow_has_threads() -> None:
    code = """
import socket, sys
import tensorflow as tf
from headrace.workers.zygote import Zygote
tf.linalg.matmul(tf.ones([512, 512]), tf.ones([512, 512])).numpy()
Zygote(socket.socket(fileno=int(sys.argv[1]))).run()
"""
    ours, theirs = socket.socketpair()
    with ours, theirs, open(os.devnull) as null:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(theirs.fileno())], pass_fds=[theirs.fileno()]
        )
        theirs.close()
        send_message(ours, {"op": "fork", "id": 1}, [null.fileno()])
        message = MessageReader(ours).receive()
        assert message is not None
        assert message.body["op"] == "refused"
        assert "tf_" in message.body["reason"]
        ours.close()
        assert process.wait(60) == 0


def test_unloading_ends_the_process_and_leaves_nothing_over_20_loads(
    tf1_path: Path, warm: Session
) -> None:
    async def body(session: Session) -> None:
        levels = set()
        for _ in range(20):
            client = await session.load(tf1_path)
            parent = parent_of(client.worker.pid)
            assert await client.ask(2.0) == [4.0]
            await client.stop()
            grandchildren = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            levels.add((len(descriptors()), len(os.listdir(f"/proc/{parent}/fd")), *grandchildren))
        assert len(levels) == 1
        assert len(next(iter(levels))) == 2

    warm.run(body)
