"""Workers that do what they should: loading, answering, unloading."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.errors import LoadFailed
from headrace.workers.supervisor import SupervisorOptions
from model_builders import python_model
from worker_client import Session, children, descriptors, gather, run_with

DOUBLE = """
    class Model:
        signatures = {
            "serving_default": {
                "inputs": {"x": ("float32", (None,))},
                "outputs": {"y": ("float32", (None,))},
            }
        }

        def predict(self, inputs):
            return {"y": inputs["x"] * 2}
"""


@pytest.fixture
def double(tmp_path: Path) -> Path:
    return python_model(tmp_path / "double", DOUBLE)


@pytest.mark.parametrize("in_process", [False, True])
def test_worker_loads_answers_and_ends(double: Path, in_process: bool) -> None:
    async def body(session: Session) -> None:
        client = await session.load(double, in_process=in_process)
        assert list(client.worker.signatures) == ["serving_default"]
        assert (client.worker.pid == os.getpid()) is in_process
        assert await client.ask(1, 2) == [2, 4]
        answers = await gather(client.ask(i) for i in range(100))
        assert answers == [[2 * i] for i in range(100)]
        await client.stop()
        assert client.worker.is_ready is False
        assert children() == before

    before = children()
    run_with(body)


@pytest.mark.parametrize("in_process", [False, True])
def test_exception_costs_its_own_request_only(tmp_path: Path, in_process: bool) -> None:
    code = DOUBLE.replace(
        "return", "assert not (inputs['x'] == 13).any(), 'thirteen'\n            return"
    )
    path = python_model(tmp_path, code)

    async def body(session: Session) -> list[Any]:
        client = await session.load(path, in_process=in_process)
        return await gather(client.ask(i) for i in range(30))

    answers = run_with(body)
    assert [str(answer) for answer in answers if isinstance(answer, Exception)] == [
        "AssertionError: thirteen"
    ]
    del answers[13]
    assert answers == [[2 * i] for i in range(30) if i != 13]


def test_several_workers_live_side_by_side(tmp_path: Path) -> None:
    paths = [python_model(tmp_path / str(n), DOUBLE.replace("* 2", f"* {n}")) for n in range(1, 4)]

    async def body(session: Session) -> list[Any]:
        clients = await asyncio.gather(*(session.load(path) for path in paths))
        assert len({client.worker.pid for client in clients}) == 3
        await clients[0].stop()
        return await gather(client.ask(10) for client in clients[1:])

    assert run_with(body) == [[20], [30]]


@pytest.mark.parametrize("in_process", [False, True])
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise OSError('weights are missing')", "OSError: weights are missing"),
        (
            "import os; os._exit(3)",
            "its process ended with status 3",
        ),
        (
            "import os; os.kill(os.getpid(), 9)",
            "its process was killed by",
        ),
    ],
)
def test_load_failure_says_why_and_leaves_nothing(
    tmp_path: Path, code: str, reason: str, in_process: bool
) -> None:
    if in_process and "process" in reason:
        pytest.skip("it would take the tests along")
    path = python_model(tmp_path, code)

    async def body(session: Session) -> None:
        before = descriptors(), children()
        with pytest.raises(LoadFailed, match=reason):
            await session.load(path, in_process=in_process)
        assert (descriptors(), children()) == before
        python_model(path, DOUBLE)  # repaired: it may be tried again
        client = await session.load(path, in_process=in_process)
        assert await client.ask(4) == [8]

    run_with(body)


def test_directory_without_a_model_fails_before_a_process_is_started(tmp_path: Path) -> None:
    async def body(session: Session) -> None:
        with pytest.raises(LoadFailed, match=r"expected one of saved_model.pb"):
            await session.load(tmp_path)

    run_with(body)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise ImportError('not there')", "TensorFlow cannot be imported.*there.*pip install"),
        ("raise RuntimeError('built for another machine')", "RuntimeError: built for another"),
    ],
)
def test_framework_that_cannot_be_imported_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    (tmp_path / "tensorflow.py").write_text(code)
    (tmp_path / "saved_model.pb").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    async def body(session: Session) -> None:
        with pytest.raises(LoadFailed, match=reason):
            await session.load(tmp_path)

    before = children()
    run_with(body)
    assert children() == before


def test_cancelled_load_leaves_nothing(tmp_path: Path) -> None:
    path = python_model(tmp_path, "import time; time.sleep(600)")

    async def body(session: Session) -> None:
        before = descriptors(), children()
        loading = asyncio.create_task(session.load(path))
        while not children() - before[1]:
            await asyncio.sleep(0.01)
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
        while children() != before[1]:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        assert descriptors() == before[0]

    run_with(body)


def test_descriptors_and_memory_stay_level_over_20_loads(double: Path) -> None:
    def resident_kb() -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    async def body(session: Session) -> None:
        levels = []
        for _ in range(20):
            client = await session.load(double)
            assert await client.ask(1) == [2]
            await client.stop()
            levels.append((len(descriptors()), len(children()), resident_kb()))
        files, processes, memory = zip(*levels, strict=True)
        assert len(set(files)) == 1
        assert set(processes) == {len(before)}
        assert memory[-1] - memory[4] < 4096

    before = children()
    run_with(body)


def test_signals_to_the_group_do_not_end_a_worker(double: Path) -> None:
    async def body(session: Session) -> None:
        client = await session.load(double)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(client.worker.pid, number)
            assert await client.ask(1) == [2]
        assert client.events == []

    run_with(body)


def test_worker_that_does_not_leave_is_killed(tmp_path: Path) -> None:
    code = DOUBLE.replace("return", "import time; time.sleep(600)\n            return")
    path = python_model(tmp_path, code)

    async def body(session: Session) -> None:
        client = await session.load(path)
        client.ask(1)
        while not client.worker.port.running_since_ns:
            await asyncio.sleep(0.01)
        await client.stop()
        assert children() == before

    before = children()
    run_with(body, SupervisorOptions(stop_grace_s=0.1))


ORPHAN = """
import asyncio, pathlib, sys
from headrace import _core
from headrace.workers.supervisor import Supervisor, WorkerSpec

async def main():
    supervisor = Supervisor()
    worker = await supervisor.load(WorkerSpec("m", 1, pathlib.Path(sys.argv[1])), print)
    worker.port.submit(
        1, b'{"instances": [1]}', decode=_core.DecodeOptions(), encode=None, deadline_ns=0
    )
    while not worker.port.running_since_ns:
        await asyncio.sleep(0.01)
    print(worker.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_supervisors_death_takes_along_a_worker_that_holds_the_gil(tmp_path: Path) -> None:
    # A pattern that backtracks for ever, in one call that never lets go of the GIL.
    hang = "import re; re.match('(a+)+$', 'a' * 60 + 'b')\n            return"
    path = python_model(tmp_path, DOUBLE.replace("return", hang))
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(path)], stdout=subprocess.PIPE, text=True
    ) as supervisor:
        assert supervisor.stdout is not None
        worker = os.pidfd_open(int(supervisor.stdout.readline()))
        supervisor.kill()
        wait_for_end(worker)


def wait_for_end(pidfd: int) -> None:
    import select

    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    ended = poller.poll(60_000)
    os.close(pidfd)
    assert ended, "the process is still there"


def test_front_end_imports_no_framework() -> None:
    code = (
        "import sys, headrace.workers.supervisor, headrace.runtimes;"
        "assert not {'tensorflow', 'torch', 'jax'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_large_tensors_travel_both_ways(tmp_path: Path) -> None:
    code = DOUBLE.replace("(None,)", "(None, None)")
    path = python_model(tmp_path, code)
    values = np.arange(300_000, dtype=np.float32).reshape(3, -1)

    async def body(session: Session) -> Any:
        client = await session.load(path, request_bytes=1 << 16, reply_bytes=1 << 16)
        return await client.ask(*values.tolist())

    assert np.array_equal(np.array(run_with(body), np.float32), values * 2)
