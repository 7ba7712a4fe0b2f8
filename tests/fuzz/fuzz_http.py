"""Fuzz the HTTP connection: any bytes in any pieces are answered, waited for or refused.

    python tests/fuzz/fuzz_http.py -max_total_time=30 -max_len=4096

Starts from the request vectors. The first byte of an input chooses how the rest is cut. Whatever
comes: no exception leaves the connection, every answer is a whole HTTP message with an expected
status, the pieces' sizes do not change what the handler sees, and nothing stays held at the end.
"""

from __future__ import annotations

import inspect
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import atheris

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS / "unit"))
from http_wire import Wire  # noqa: E402

from headrace.server import body, connection, head, messages, refusal, state  # noqa: E402
from headrace.server.limits import HttpLimits  # noqa: E402

LIMITS = HttpLimits(max_body_bytes=1 << 16, max_total_body_bytes=1 << 17, max_header_bytes=1 << 12)
EXPECTED = {200, 400, 413, 414, 415, 417, 431, 501, 503, 505}


def instrument(module: ModuleType) -> None:
    """Count coverage in a module's functions. Import hooks miss an editable install."""
    for holder in (module, *filter(inspect.isclass, vars(module).values())):
        for function in vars(holder).values():
            if inspect.isfunction(function) and function.__module__ == module.__name__:
                atheris.instrument_func(function)


def run(data: bytes, step: int) -> list[tuple[bytes, bytes, bytes]]:
    wire = Wire(LIMITS)
    wire.send(*(data[i : i + step] for i in range(0, len(data), step)))
    statuses = wire.statuses
    assert set(statuses) <= EXPECTED, statuses
    assert statuses.count(200) == len(wire.seen)
    seen = [(s.method, s.target, s.body) for s in wire.seen]
    wire.end_of_input()
    assert wire.lost
    assert wire.state.budget.used == 0
    return seen


def one_input(data: bytes) -> None:
    step = 1 + data[0] if data else 1
    assert run(data[1:], step) == run(data[1:], 1 << 16)


def main() -> None:
    for module in (body, connection, head, messages, refusal, state):
        instrument(module)
    with tempfile.TemporaryDirectory() as folder:
        lines = (TESTS / "vectors" / "http-requests.jsonl").read_text().splitlines()
        for number, line in enumerate(lines):
            raw = json.loads(line)["bytes"].encode("latin-1")
            (Path(folder) / f"{number:03}").write_bytes(bytes([number % 40]) + raw)
        atheris.Setup([*sys.argv, folder], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
