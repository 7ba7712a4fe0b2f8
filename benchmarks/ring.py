"""A tensor to another process and back: the ring in shared memory against queues, pipes, ZeroMQ.

    python benchmarks/ring.py [--quick] [--json FILE] [--plot FILE]

The other process sends back what it gets. Everything is measured from Python, as the server uses
it, with arrays at both ends: Headrace's worker takes what waits as one batch and answers each
message of it, the others' workers take one message at a time, which is what they offer. `queue` and
`pipe` are multiprocessing's: `Queue` pickles the array, the pipe carries its bytes alone. `zeromq`
is a PAIR over a Unix socket, and is left out where pyzmq is not installed. With one message in
flight the figure is the time of a round trip, with more it is the time between two answers.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import select
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import numpy as np

import harness
import plots
from harness import Spread
from headrace import _core
from headrace.tensors import Signature, TensorSpec, compile_signatures

Array = np.ndarray[Any, Any]

SOFTWARE = ("headrace", "numpy", "pyzmq")
CASES = ((3, 1), (3, 64), (784, 1), (784, 16), (150_528, 1))
"""Floats in a message, messages in flight: no more than a pipe holds, or both its ends wait."""
# Forked: descriptors and names are there already, and nothing here has threads by then.
FORK = multiprocessing.get_context("fork")


class Ring:
    """Headrace's channel, as the front end and a worker have it."""

    def __init__(self, _: Path) -> None:
        spec = TensorSpec("float32", (None, None))
        self._signatures = compile_signatures(
            {"serving_default": Signature(inputs={"x": spec}, outputs={"y": spec})}
        )
        self._bytes = 64 << 20
        self._channel = _core.Channel()  # as large as the server's are by default
        self._ids = 0

    def work(self) -> None:
        port = _core.WorkerPort(
            self._channel.worker_fds(), self._signatures, max_reply_bytes=self._bytes
        )
        collector = _core.Collector([port])
        while True:
            batch = collector.collect()
            batch.reply({"y": batch.inputs["x"]})

    def open(self) -> None:
        self._port = _core.FrontPort(
            self._channel,
            self._signatures,
            max_payload_bytes=self._bytes,
            max_reply_bytes=self._bytes,
        )
        self._poll = select.poll()
        self._poll.register(self._port.doorbell, select.POLLIN)

    def send(self, array: Array) -> None:
        self._ids += 1
        self._port.submit_tensors(
            self._ids, "serving_default", {"x": array[None]}, encode=None, deadline_ns=0
        )

    def receive(self) -> list[Array]:
        self._poll.poll()
        return [reply.tensors()["y"][0] for _, _, reply in self._port.take_replies()]


class Queue:
    def __init__(self, _: Path) -> None:
        self._there, self._back = FORK.Queue(), FORK.Queue()

    def work(self) -> None:
        while True:
            self._back.put(self._there.get())

    def open(self) -> None:
        pass

    def send(self, array: Array) -> None:
        self._there.put(array)

    def receive(self) -> list[Array]:
        return [self._back.get()]


class Pipe:
    def __init__(self, _: Path) -> None:
        self._near, self._far = FORK.Pipe()

    def work(self) -> None:
        while True:
            array = np.frombuffer(self._far.recv_bytes(), np.float32)
            self._far.send_bytes(array.data)

    def open(self) -> None:
        pass

    def send(self, array: Array) -> None:
        self._near.send_bytes(array.data)

    def receive(self) -> list[Array]:
        return [np.frombuffer(self._near.recv_bytes(), np.float32)]


class ZeroMQ:
    def __init__(self, folder: Path) -> None:
        self._address = f"ipc://{folder / 'socket'}"

    def work(self) -> None:
        import zmq

        socket = zmq.Context().socket(zmq.PAIR)
        socket.connect(self._address)
        while True:
            array = np.frombuffer(socket.recv(copy=False), np.float32)
            socket.send(array, copy=False)

    def open(self) -> None:
        import zmq

        self._socket = zmq.Context().socket(zmq.PAIR)
        self._socket.bind(self._address)

    def send(self, array: Array) -> None:
        self._socket.send(array, copy=False)

    def receive(self) -> list[Array]:
        return [np.frombuffer(self._socket.recv(copy=False), np.float32)]


Contender = Ring | Queue | Pipe | ZeroMQ
CONTENDERS: dict[str, Callable[[Path], Contender]] = {
    "headrace": Ring,
    "pipe": Pipe,
    "queue": Queue,
    "zeromq": ZeroMQ,
}


def start(names: list[str], folder: Path) -> tuple[dict[str, Contender], list[ForkProcess]]:
    """Each with its worker running."""
    contenders = {name: CONTENDERS[name](folder) for name in names}
    workers = [FORK.Process(target=c.work, daemon=True) for c in contenders.values()]
    for worker in workers:
        worker.start()
    for contender in contenders.values():
        contender.open()
    return contenders, workers


def messages(contender: Contender, arrays: list[Array], in_flight: int) -> list[Array]:
    """Sends them all, so many at a time; what came back."""
    back: list[Array] = []
    for array in arrays[:in_flight]:
        contender.send(array)
    sent = min(in_flight, len(arrays))
    while len(back) < len(arrays):
        back += contender.receive()
        while sent < len(arrays) and sent - len(back) < in_flight:
            contender.send(arrays[sent])
            sent += 1
    return back


def check(name: str, contender: Contender, arrays: list[Array], in_flight: int) -> None:
    back = messages(contender, arrays, in_flight)
    if not all(np.array_equal(a, b) for a, b in zip(arrays, back, strict=True)):
        raise AssertionError(f"{name} sends back something else")


def measure(
    contenders: dict[str, Contender], floats: int, in_flight: int, *, quick: bool
) -> dict[str, list[float]]:
    """Seconds a message, a figure a round."""
    random = np.random.default_rng(floats)
    arrays = list(random.random((2 * in_flight, floats), np.float32))
    counts = {}
    for name, contender in contenders.items():
        check(name, contender, arrays, in_flight)
        began = time.perf_counter()
        messages(contender, arrays, in_flight)
        each = (time.perf_counter() - began) / len(arrays)
        counts[name] = max(len(arrays), round((0.03 if quick else 0.2) / each))
    seconds: dict[str, list[float]] = defaultdict(list)
    for number in range(3 if quick else 11):
        for name in harness.shifted(list(contenders), number):
            batch = [arrays[index % len(arrays)] for index in range(counts[name])]
            began = time.perf_counter()
            messages(contenders[name], batch, in_flight)
            seconds[name].append((time.perf_counter() - began) / len(batch))
    return {name: seconds[name] for name in contenders}


def report(measured: dict[tuple[int, int], dict[str, list[float]]]) -> str:
    names = list(next(iter(measured.values())))
    header = ["floats", "in flight", *(f"{n} µs" for n in names)]
    header += [f"against {n}" for n in names[1:]]
    rows = []
    for (floats, in_flight), seconds in measured.items():
        figures = [Spread([s * 1e6 for s in seconds[n]]).text("{:,.1f}") for n in names]
        ratios = [
            harness.paired_ratio(seconds[n], seconds[names[0]]).text("{:.1f}x") for n in names[1:]
        ]
        rows.append([f"{floats:,}", str(in_flight), *figures, *ratios])
    return harness.markdown_table(header, rows)


def main() -> None:
    """Measures, prints the table, writes figures and picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    harness.add_common_arguments(parser)
    plots.add_plot_argument(parser)
    options = parser.parse_args()
    facts, software = harness.machine(), harness.versions(SOFTWARE)
    names = [n for n in CONTENDERS if n != "zeromq" or importlib.util.find_spec("zmq")]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        contenders, workers = start(names, Path(folder))
        try:
            measured = {
                (floats, in_flight): measure(contenders, floats, in_flight, quick=options.quick)
                for floats, in_flight in CASES
            }
        finally:
            for worker in workers:
                worker.kill()
                worker.join()
    print(harness.describe(facts, software) + "\n")
    print(report(measured))
    if options.json:
        cases = [
            {"floats": floats, "in_flight": in_flight, "seconds": seconds}
            for (floats, in_flight), seconds in measured.items()
        ]
        harness.write_json(
            options.json, {"machine": facts, "versions": software, "messages": cases}
        )
    if options.plot:
        rows = {
            f"{floats:,} floats, {in_flight} in flight": {
                n: harness.paired_ratio(seconds[n], seconds["headrace"]) for n in names[1:]
            }
            for (floats, in_flight), seconds in measured.items()
        }
        plots.bars(options.plot, "the others' time / the ring's", "times", rows, even=1)


if __name__ == "__main__":
    main()
