"""Keeps one model in step with its configuration and its base path: scans, loads, retries, unloads.

What to do is `next_actions`'s to say. One load at a time is under way; unloads are in the
background. A scan, a load that ends and a retry that falls due each lead to `_step`, which does
whatever may be done then:

    base path ──scan──► aspired ──┐
    load ends, retry is due ──────┴─► _step ──► load one ──► serve it, or note why not
                                          └───► retire ────► drain, stop
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from headrace.errors import LoadFailed
from headrace.server.reminder import Reminder
from headrace.server.version_loader import Loaded, VersionLoader
from headrace.serving.endpoint import Endpoint
from headrace.serving.lifecycle import State, next_actions
from headrace.serving.registry import Model, Version
from headrace.serving.versions import (
    Found,
    Latest,
    Policy,
    aspired_versions,
    fingerprint,
    missing_versions,
    scan,
)

__all__ = ["ModelSource", "ModelWatch"]

_log = logging.getLogger(__name__)

# Versions that are gone stay in the status answer; of a model trained daily, for about this long.
_MAX_ENDED = 100


@dataclass(frozen=True, slots=True)
class ModelSource:
    """One configured model.

    Attributes:
        name: As in the URL.
        base_path: Directory of numbered versions, or a model itself.
        policy: Which of the versions found to serve.
        labels: Label to version number.
        poll_s: Seconds between scans; None: one scan.
        max_retries: Loads tried again after the first failure of a version.
        retry_s: Seconds between them.
        drain_s: Seconds that a version being unloaded has to finish what it runs.
    """

    name: str
    base_path: Path
    policy: Policy = field(default_factory=Latest)
    labels: Mapping[str, int] = field(default_factory=dict)
    poll_s: float | None = 1.0
    max_retries: int = 5
    retry_s: float = 60.0
    drain_s: float = 30.0


@dataclass(slots=True)
class _Record:
    """What is remembered of one version.

    Attributes:
        path: The directory that was tried last.
        loaded: What answers for it.
        failures: Loads that failed since it changed or was loaded.
        is_due: It has failed, and may be tried again now.
        content: The directory as it was when the load that failed began.
        seen: The directory as the last scan saw it.
    """

    path: Path
    loaded: Loaded | None = None
    failures: int = 0
    is_due: bool = False
    content: int = 0
    seen: int = 0


class ModelWatch:
    """One model's versions. Single-owner: the front end's loop."""

    def __init__(
        self,
        source: ModelSource,
        model: Model[Endpoint],
        loader: VersionLoader,
        publish: Callable[[], None],
    ) -> None:
        """Prepare; nothing happens before `start`.

        Args:
            source: What is configured.
            model: The registry's entry, kept up to date here.
            loader: Starts and ends versions.
            publish: Makes a change of the entry what lookups see.
        """
        self.source = source
        self.settled = asyncio.Event()
        """Each version has been tried: there is nothing to load but what failed."""
        self._model = model
        self._loader = loader
        self._publish = publish
        self._reminder = Reminder()
        self._aspired: set[int] = set()
        self._paths: dict[int, Path] = {}
        self._records: dict[int, _Record] = {}
        self._loading: int | None = None
        self._load_task: asyncio.Task[Loaded] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._scanned: ModelSource | None = None
        self._timers: set[asyncio.TimerHandle] = set()
        self._unloads: set[asyncio.Task[None]] = set()
        self._closing = False
        model.labels = source.labels
        model.is_starting = True

    def start(self) -> None:
        """Begin to watch, in the background."""
        self._watching = asyncio.create_task(self._watch(), name=f"watch {self.source.name}")
        self._watching.add_done_callback(_log_failure)

    def change(self, source: ModelSource) -> None:
        """Go by another configuration of the same model from now on."""
        self.source = source
        self._model.labels = source.labels
        self.settled.clear()
        self._changed.set()

    async def close(self) -> None:
        """Unload everything, once it has finished what it runs: the model has been removed."""
        await self._stop_watching()
        for version in self._model.versions.values():
            if version.state is State.AVAILABLE:
                self._retire(version)
        if self._unloads:
            await asyncio.wait(self._unloads)

    async def abandon(self) -> None:
        """Stop watching; workers stay, and are the supervisor's to end."""
        await self._stop_watching()
        await _cancel(*self._unloads)

    async def _stop_watching(self) -> None:
        self._closing = True
        self.settled.set()
        for timer in self._timers:
            timer.cancel()
        await _cancel(self._watching, self._load_task)

    # --- looking -----------------------------------------------------------------------------

    async def _watch(self) -> None:
        while not self._closing:
            self._changed.clear()
            source = self.source
            suspects = {n: r.path for n, r in self._records.items() if r.failures}
            found, seen = await asyncio.to_thread(_look, source.base_path, suspects)
            if source is not self.source:
                continue
            self._note(found)
            if found.versions:
                self._paths = dict(found.versions)
                self._aspired = aspired_versions(found.versions, source.policy)
            self._revive_changed(seen)
            self._scanned = source
            self._step()
            await self._pause(source.poll_s)

    async def _pause(self, poll_s: float | None) -> None:
        try:
            await asyncio.wait_for(self._changed.wait(), poll_s)
        except asyncio.TimeoutError:
            return

    def _note(self, found: Found) -> None:
        """Say what is wrong with the base path, and with what the configuration expects of it."""
        source = self.source
        self._model.absence = found.explanation
        notes = [note for note in (found.explanation, found.warning) if note]
        missing = missing_versions(found.versions, source.policy)
        if found.versions and missing:
            notes.append(f"{_versions(missing)} of its policy: not in {source.base_path}")
        aspired = aspired_versions(found.versions, source.policy)
        for label, number in sorted(source.labels.items()):
            if found.versions and number not in aspired:
                notes.append(
                    f"the label {label!r} stands for version {number}, which is not served"
                )
        text = "; ".join(notes)
        if self._reminder.is_due(text, asyncio.get_running_loop().time()):
            _log.warning("model %s: %s", source.name, text)

    def _revive_changed(self, seen: Mapping[int, int]) -> None:
        """A version that failed and was changed since, and not since the last scan, is new."""
        for number, content in seen.items():
            record = self._records.get(number)
            if record is None:
                continue
            if record.failures and content not in (0, record.content) and content == record.seen:
                record.failures, record.is_due = 0, True
            record.seen = content

    # --- doing -------------------------------------------------------------------------------

    def _step(self) -> None:
        """Do what may be done now."""
        if self._closing:
            return
        if self._loading is not None and self._aspired and self._loading not in self._aspired:
            assert self._load_task is not None
            self._load_task.cancel()  # `_end_load` comes back here
            return
        states = {n: v.state for n, v in self._model.versions.items() if not self._is_free(v)}
        actions = next_actions(self._aspired, states)
        for action in actions:
            if action.verb == "unload":
                self._retire(self._model.versions[action.version])
        loads = [action.version for action in actions if action.verb == "load"]
        loads += self._moved()
        if self._loading is None and loads:
            self._begin(loads[0])
        if self._loading is None and self._scanned is self.source:
            self._model.is_starting = False
            self.settled.set()
        self._forget_history()

    def _is_free(self, version: Version[Endpoint]) -> bool:
        """Whether a version counts as new: it was unloaded, or it failed and may be tried again."""
        if version.state is not State.END or version.number == self._loading:
            return False
        return self._may_try(version.number)

    def _may_try(self, number: int) -> bool:
        record = self._records[number]
        elsewhere = record.path != self._paths.get(number)
        return not record.failures or record.is_due or elsewhere

    def _moved(self) -> list[int]:
        """Versions that serve from another directory than the one that now has their number."""
        return [
            number
            for number in sorted(self._aspired, reverse=True)
            if (record := self._records.get(number)) is not None
            and record.loaded is not None
            and record.loaded.path != self._paths[number]
            and self._may_try(number)
        ]

    def _begin(self, number: int) -> None:
        path = self._paths[number]
        version = self._model.versions.setdefault(number, Version(number, State.LOADING))
        record = self._records.setdefault(number, _Record(path))
        record.path, record.is_due = path, False
        if record.loaded is None:
            version.state = State.LOADING
        self._loading = number
        self._load_task = asyncio.create_task(
            self._load(number, record), name=f"load {self.source.name}/{number}"
        )
        # In a callback, since a task that is cancelled before it has begun runs nothing of its own.
        self._load_task.add_done_callback(partial(self._end_load, version, record))

    async def _load(self, number: int, record: _Record) -> Loaded:
        record.content = await asyncio.to_thread(fingerprint, record.path)
        return await self._loader.load(self.source.name, number, record.path)

    def _end_load(
        self, version: Version[Endpoint], record: _Record, task: asyncio.Task[Loaded]
    ) -> None:
        self._loading = None
        if task.cancelled():
            self._give_up(version, record)
        elif (error := task.exception()) is not None:
            self._fail(version, record, error)
        else:
            self._serve(version, record, task.result())
        self._publish()
        self._step()

    def _serve(self, version: Version[Endpoint], record: _Record, loaded: Loaded) -> None:
        replaced, record.loaded = record.loaded, loaded
        record.failures = 0
        version.state, version.failure, version.endpoint = State.AVAILABLE, "", loaded.endpoint
        if replaced is not None:
            self._background(self._loader.unload(replaced, drain_s=self.source.drain_s))
        _log.info("model %s: version %d is available", self.source.name, version.number)

    def _fail(self, version: Version[Endpoint], record: _Record, error: BaseException) -> None:
        # What is no LoadFailed is a fault of ours, which must not end the watch over the model.
        expected = isinstance(error, LoadFailed)
        reason = str(error) if expected else f"{type(error).__name__}: {error}"
        _log.error(
            "model %s: version %d: %s",
            self.source.name,
            version.number,
            reason,
            exc_info=None if expected else error,
        )
        record.failures += 1
        if record.loaded is None:
            version.state, version.failure = State.END, reason
        if record.failures <= self.source.max_retries:
            self._retry_later(version, record)

    def _give_up(self, version: Version[Endpoint], record: _Record) -> None:
        """The version is not wanted any more before it was loaded."""
        record.failures = 0
        if record.loaded is None:
            version.state, version.failure = State.END, ""

    def _retry_later(self, version: Version[Endpoint], record: _Record) -> None:
        failures, source = record.failures, self.source

        def retry() -> None:
            self._timers.discard(timer)
            if record.failures != failures or version.number == self._loading:
                return  # it was changed and tried in the meantime
            _log.info(
                "model %s: loading version %d again (retry %d of %d)",
                source.name,
                version.number,
                failures,
                source.max_retries,
            )
            record.is_due = True
            self._step()

        timer = asyncio.get_running_loop().call_later(source.retry_s, retry)
        self._timers.add(timer)

    def _retire(self, version: Version[Endpoint]) -> None:
        version.state = State.UNLOADING
        self._publish()
        self._background(self._unload(version))

    async def _unload(self, version: Version[Endpoint]) -> None:
        record = self._records[version.number]
        loaded, record.loaded = record.loaded, None
        assert loaded is not None
        await self._loader.unload(loaded, drain_s=self.source.drain_s)
        version.state, version.endpoint = State.END, None
        self._publish()
        _log.info("model %s: version %d is unloaded", self.source.name, version.number)
        self._step()

    def _forget_history(self) -> None:
        ended = sorted(
            n
            for n, v in self._model.versions.items()
            if v.state is State.END and n not in self._aspired
        )
        for number in ended[:-_MAX_ENDED]:
            del self._model.versions[number], self._records[number]

    def _background(self, coroutine: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._unloads.add(task)
        task.add_done_callback(self._unloads.discard)


def _look(base_path: Path, suspects: Mapping[int, Path]) -> tuple[Found, dict[int, int]]:
    """What lies there, and the content of some versions. Blocks on the file system."""
    return scan(base_path), {number: fingerprint(path) for number, path in suspects.items()}


def _versions(numbers: Collection[int]) -> str:
    plural = "s" if len(numbers) > 1 else ""
    return f"version{plural} {', '.join(map(str, sorted(numbers)))}"


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s has ended", task.get_name(), exc_info=error)


async def _cancel(*tasks: asyncio.Task[Any] | None) -> None:
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
