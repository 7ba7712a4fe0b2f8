"""Arbitrary and nearly right requests on every route of a live server, for as long as you like.

    PYTHONPATH=tests python -m storm --seconds=120

No status but the specified ones, no crash, every JSON answer strict (the server's policy for
numbers that are not finite is `null`), and memory that stays as it is: of the front end and of the
workers, the last third of the time is held against the third before. Ends with status 1 where one
of these does not hold. With `--seconds=3600` it is the soak.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from server_process import ServerProcess, served
from storm.answers import Misbehaviour, converse
from storm.models import FLAGS, write_models
from storm.requests import conversation

_CONNECTIONS = 4
# Below this a third of the time says more of the start than of a leak.
_LEAST_S = 60
# Allocators keep what they once needed, and how much that is depends on chance.
_SLACK_KB = 4 << 10
_SLACK = 0.02


class Storm:
    """Clients on threads, until they are told to stop or one finds something."""

    def __init__(self, port: int, seed: int) -> None:
        self._port = port
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(f"{seed}/{number}"),))
            for number in range(_CONNECTIONS)
        ]
        self.statuses: Counter[int] = Counter()
        self.found: list[BaseException] = []

    def __enter__(self) -> Storm:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, source: random.Random) -> None:
        try:
            while not self._over.is_set():
                self.statuses.update(converse(self._port, conversation(source)))
        except (Misbehaviour, OSError) as error:
            self.found.append(error)
            self._over.set()

    def wait(self, seconds: float) -> bool:
        """False: something was found."""
        return not self._over.wait(seconds)


def memory_kb(server: ServerProcess) -> dict[str, int]:
    """Resident memory of the front end, and of the processes below it together."""
    children = _children(server.pid)
    return {"front end": _resident_kb(server.pid), "workers": sum(map(_resident_kb, children))}


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *_children(child)]
    return found


def _resident_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def growth(samples: list[int]) -> tuple[int, bool]:
    """From the second third of the samples to the last, and whether that is too much."""
    third = len(samples) // 3
    before, after = (statistics.median(part) for part in (samples[third:-third], samples[-third:]))
    return round(after - before), after - before > max(_SLACK_KB, _SLACK * before)


def report(curves: dict[str, list[int]]) -> bool:
    """Print the curves in twelve points, and whether they are flat."""
    flat = True
    for name, samples in curves.items():
        points = samples[:: max(1, len(samples) // 12)]
        print(f"{name}, MiB: {' '.join(f'{kb / 1024:.1f}' for kb in points)}")
        if len(samples) >= _LEAST_S:
            more, too_much = growth(samples)
            print(f"{name}: {more:+d} KiB from the second third to the last")
            flat = flat and not too_much
    return flat


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m storm", description=__doc__)
    parser.add_argument("--seconds", type=int, default=120, metavar="S")
    parser.add_argument("--seed", type=int, default=time.time_ns(), help="for one more of the same")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        models = write_models(Path(folder))
        with served(f"--model_config_file={models}", *FLAGS) as server:
            with Storm(server.port, arguments.seed) as storm:
                curves: dict[str, list[int]] = {"front end": [], "workers": []}
                end = time.monotonic() + arguments.seconds
                while time.monotonic() < end and storm.wait(1):
                    for name, kb in memory_kb(server).items():
                        curves[name].append(kb)
            for error in storm.found:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
            total = sum(storm.statuses.values())
            print(f"{total} answers: {dict(sorted(storm.statuses.items()))}")
            flat = report(curves)
            deaths = server.count("died")
            status, answer, _ = server.ask("/v1/models/numbers:predict", {"instances": [1.0]})
    well = status == 200 and answer == {"predictions": [2.0]} and not deaths
    return 0 if well and flat and total and not storm.found else 1


if __name__ == "__main__":
    sys.exit(main())
