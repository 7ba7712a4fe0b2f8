"""`kill -9` of the worker under load: requests that fail, wrong answers, and the gaps.

    python benchmarks/crash.py [--quick] [--json FILE] [--kills N] [--connections N]

Headrace serves half_plus_three to clients that each wait for their answer and hold it against their
own request. Each kill waits until the successor of the last one has answered. A gap is the time
between two answers in a row, over all connections together.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

import harness
import models
from client import CheckingClient, connect, finish
from contenders import Running, start_headrace
from harness import Spread
from processes import ServerFailed, exit_on_sigterm

RING = "memfd:headrace-ring"
"""The mapping that tells workers from the other descendants of the server."""
RECOVERY_TIMEOUT_S = 60
SETTLE_S = 0.5
"""Load between a recovery and the next kill."""


class Answers:
    """When answers came: counts them and keeps the longest gap since `reset`."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.count, self.longest_gap_s, self._last = 0, 0.0, time.monotonic()

    def note(self) -> None:
        """Called on each answer."""
        now = time.monotonic()
        self.longest_gap_s = max(self.longest_gap_s, now - self._last)
        self._last = now
        self.count += 1


@dataclass(frozen=True)
class Outcome:
    """What the clients saw over the whole run."""

    kills: int
    right: int
    wrong: int
    bad_status: int
    lost: int
    calm_gap_ms: float
    """The longest gap while nothing was killed, over as long as the machine was watched for it."""
    gaps_ms: list[float]
    """The longest gap of each kill."""


async def crash(running: Running, model: models.Model, connections: int, kills: int) -> Outcome:
    """Kills the worker `kills` times under load from `connections` clients."""
    answers = Answers()
    samples = [(model.body(i), model.predictions[i]) for i in range(len(model.instances))]
    clients = [
        CheckingClient(running.url, samples, first, answers.note) for first in range(connections)
    ]
    await connect(clients)
    await asyncio.sleep(1)
    answers.reset()
    await asyncio.sleep(2)
    calm_gap_ms = answers.longest_gap_s * 1000
    gaps_ms = [await _kill_once(running, answers, connections) for _ in range(kills)]
    await finish(clients)
    return Outcome(
        kills=kills,
        right=sum(client.right for client in clients),
        wrong=sum(len(client.wrong) for client in clients),
        bad_status=sum(client.bad_status for client in clients),
        lost=sum(client.lost for client in clients),
        calm_gap_ms=calm_gap_ms,
        gaps_ms=gaps_ms,
    )


async def _kill_once(running: Running, answers: Answers, connections: int) -> float:
    """Kills the worker, waits for its successor's answers; the longest gap meanwhile in ms."""
    (victim,) = workers(running)
    answers.reset()
    os.kill(victim, signal.SIGKILL)
    await _until(running, lambda: workers(running) not in ([], [victim]), "a successor")
    # At most `connections` answers of the dead worker can still be on their way.
    goal = answers.count + 2 * connections + 1
    await _until(running, lambda: answers.count >= goal, "the successor's answers")
    await asyncio.sleep(SETTLE_S)
    return answers.longest_gap_s * 1000


async def _until(running: Running, condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + RECOVERY_TIMEOUT_S
    while not condition():
        running.server.check_running()
        if time.monotonic() > deadline:
            raise ServerFailed(f"waited {RECOVERY_TIMEOUT_S} s for {what}")
        await asyncio.sleep(0.005)


def workers(running: Running) -> list[int]:
    """The worker processes: descendants of the server that have a ring mapped."""
    return [pid for pid in running.server.pids() if pid != running.server.pid and _has_ring(pid)]


def _has_ring(pid: int) -> bool:
    try:
        return RING in Path(f"/proc/{pid}/maps").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def report(outcome: Outcome) -> str:
    """One line of a table."""
    gaps = Spread(outcome.gaps_ms)
    return harness.markdown_table(
        ("kills", "right", "wrong", "failed", "lost", "gap ms, median [low-high]", "gap without"),
        [
            (
                *(str(n) for n in (outcome.kills, outcome.right, outcome.wrong)),
                *(str(n) for n in (outcome.bad_status, outcome.lost)),
                gaps.text("{:.0f}"),
                f"{outcome.calm_gap_ms:.0f}",
            )
        ],
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    harness.add_common_arguments(parser)
    parser.add_argument("--kills", type=int, help="default 20, quick 3")
    parser.add_argument("--connections", type=int, default=32)
    arguments = parser.parse_args()
    arguments.kills = arguments.kills or (3 if arguments.quick else 20)
    return arguments


def main() -> None:
    """Runs the kills and prints the report; exit status 1 if a request failed or went wrong."""
    arguments = _arguments()
    exit_on_sigterm()
    facts, software = harness.machine(), harness.versions(["headrace", "tensorflow-cpu", "numpy"])
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
        scratch = Path(directory)
        model = models.build(scratch / "models")["half_plus_three"]
        running = start_headrace(model, scratch / "headrace.log")
        with running.server:
            work = crash(running, model, arguments.connections, arguments.kills)
            outcome = uvloop.run(work)
    print(harness.describe(facts, software) + "\n")
    print(f"{arguments.connections} connections\n\n{report(outcome)}")
    if arguments.json:
        result: dict[str, Any] = {"machine": facts, "versions": software, "outcome": vars(outcome)}
        harness.write_json(arguments.json, result)
    if outcome.wrong or outcome.bad_status or outcome.lost:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
