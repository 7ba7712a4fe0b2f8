"""``headrace serve`` as a process, for tests that need its signals, its log or its exit."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0

# Answers with the number of its version for each row.
NUMBERED = """
    import numpy as np

    class Model:
        signatures = {
            "serving_default": {
                "inputs": {"x": ("float32", (None,))},
                "outputs": {"version": ("int64", (None,))},
            }
        }

        def load(self, path):
            self.version = int(path.name)

        def predict(self, inputs):
            return {"version": np.full(len(inputs["x"]), self.version)}
"""


class ServerProcess:
    """Started by `served`."""

    def __init__(self, arguments: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "serve", "--listen=127.0.0.1:0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._changed = threading.Condition()
        self._lines: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=(stream,))
            for stream in (self._process.stdout, self._process.stderr)
        ]
        for reader in self._readers:
            reader.start()
        self.url = self.wait_for(r"headrace: listening on (\S+)")[1]
        self.port = int(self.url.rpartition(":")[2])

    def wait_for(self, pattern: str, *, times: int = 1) -> re.Match[str]:
        """Wait until so many lines, of either output, have the pattern; the last of them."""

        def find() -> list[re.Match[str]]:
            return [match for line in self._lines if (match := re.search(pattern, line))]

        with self._changed:
            enough = self._changed.wait_for(lambda: len(find()) >= times, PATIENCE_S)
            assert enough, "\n".join(self._lines)
            return find()[times - 1]

    def count(self, pattern: str) -> int:
        with self._changed:
            return sum(re.search(pattern, line) is not None for line in self._lines)

    @property
    def pid(self) -> int:
        return self._process.pid

    def hang_up(self) -> None:
        self._process.send_signal(signal.SIGHUP)

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            for reader in self._readers:
                reader.join()

    def ask(
        self,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> tuple[int, Any, Mapping[str, str]]:
        """Status, answer and headers; the answer is read as JSON where it is."""
        connection = (
            http.client.HTTPSConnection("127.0.0.1", self.port, context=tls, timeout=PATIENCE_S)
            if tls
            else http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        )
        with contextlib.closing(connection):
            text = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, text, dict(headers or {}))
            response = connection.getresponse()
            answer = response.read()
            is_json = response.headers["Content-Type"] == "application/json"
            return response.status, json.loads(answer) if is_json else answer, response.headers

    def _read(self, stream: Any) -> None:
        with stream:
            for line in stream:
                with self._changed:
                    self._lines.append(line.rstrip("\n"))
                    self._changed.notify_all()


@contextlib.contextmanager
def served(*arguments: str) -> Iterator[ServerProcess]:
    """A running server; it must end with status 0."""
    server = ServerProcess(list(arguments))
    try:
        yield server
    finally:
        status = server.stop()
    assert status == 0


def replace_file(file: Path, text: str) -> None:
    """Write a file so that nobody ever reads a part of it."""
    new = file.with_suffix(".new")
    new.write_text(text)
    os.replace(new, file)
