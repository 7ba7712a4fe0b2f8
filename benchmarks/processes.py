"""Server processes of a benchmark: started, watched and stopped by process id, with all they start.

Linux only: parents, processor time and memory maps are read from /proc.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType

_TICKS = os.sysconf("SC_CLK_TCK")


class ServerFailed(Exception):
    """A server did not start, or ended on its own; the message ends with the tail of its log."""


def free_port() -> int:
    """A port of 127.0.0.1 that the kernel chose, for servers that cannot ask for port 0 themselves.

    Another process could take it before the server does; the server then fails to start.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One server with its descendants, in a session of its own; use as a context manager."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, cwd: Path | None = None
    ) -> None:
        self.name = name
        self.log = log
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONUNBUFFERED": "1"}
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def check_running(self) -> None:
        """Raises `ServerFailed` if the server has ended."""
        if self._process.poll() is not None:
            tail = self.log.read_text(errors="replace")[-2000:]
            raise ServerFailed(f"{self.name} ended with {self._process.returncode}:\n{tail}")

    def wait_for_line(self, pattern: str, timeout_s: float) -> str:
        """The first group of `pattern` in the server's output, once it is there."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if match := re.search(pattern, self.log.read_text(errors="replace")):
                return match[1]
            self.check_running()
            time.sleep(0.05)
        tail = self.log.read_text(errors="replace")[-2000:]
        raise ServerFailed(f"{self.name} did not print {pattern!r} in {timeout_s:g} s:\n{tail}")

    def pids(self) -> list[int]:
        """The server and all it started: its descendants, and who else is in its session."""
        parents, sessions = _parents_and_sessions()
        found = {self.pid, *(pid for pid, session in sessions.items() if session == self.pid)}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return sorted(found & parents.keys())

    def cpu_seconds(self) -> float:
        """Processor time of the living processes and of those that they have waited for."""
        return sum(_cpu_seconds(pid) for pid in self.pids())

    def pause(self) -> None:
        """SIGSTOP to all of it, for a server that would poll while others are measured."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Ends `pause`."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self, grace_s: float = 15) -> None:
        """SIGTERM to the server alone, as an init system does it; SIGKILL to what is left."""
        self.resume()
        members = [handle for pid in self.pids() if (handle := _open_pid(pid)) is not None]
        if self._process.poll() is None:
            self._process.terminate()
        deadline = time.monotonic() + grace_s
        for handle in members:
            if not _wait_ended(handle, deadline - time.monotonic()):
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
        self._process.wait(timeout=grace_s)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _open_pid(pid: int) -> int | None:
    """A handle that, unlike the number, never comes to mean another process."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _wait_ended(handle: int, timeout_s: float) -> bool:
    """Whether the process ends within `timeout_s`; its handle is readable from then on."""
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    return bool(poller.poll(max(0.0, timeout_s) * 1000))


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, `state` first; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _parents_and_sessions() -> tuple[dict[int, int], dict[int, int]]:
    parents, sessions = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))) and fields[0] != "Z":
            parents[int(entry)], sessions[int(entry)] = int(fields[1]), int(fields[3])
    return parents, sessions


def _cpu_seconds(pid: int) -> float:
    fields = _stat(pid)
    return sum(int(ticks) for ticks in fields[11:15]) / _TICKS


def busy_cpu_seconds() -> float:
    """Processor time that the machine has spent on anything but idling, stolen time included."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / _TICKS


def children_cpu_seconds() -> float:
    """Processor time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def exit_on_sigterm() -> None:
    """Makes SIGTERM unwind like Ctrl-C, so that servers are stopped on the way out."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
