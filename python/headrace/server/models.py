"""Keeps what is served in step with what is configured and with what lies on disk.

Each model is watched by itself, so a model that is slow to load or broken delays no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from headrace.server.model_watch import ModelSource, ModelWatch
from headrace.server.version_loader import VersionLoader
from headrace.serving.endpoint import Endpoint
from headrace.serving.registry import Registry

__all__ = ["ModelKeeper", "ModelSource"]

_log = logging.getLogger(__name__)


class ModelKeeper:
    """The watches of all configured models. Lives on the front end's loop."""

    def __init__(self, registry: Registry[Endpoint], loader: VersionLoader) -> None:
        self._registry = registry
        self._loader = loader
        self._watches: dict[str, ModelWatch] = {}
        self._removals: set[asyncio.Task[None]] = set()

    def reconfigure(self, sources: Sequence[ModelSource]) -> None:
        """Serve these models from now on, each under its name, and no others.

        Lookups see the new set of models at once. Models are loaded, changed and unloaded in the
        background; what runs is finished.
        """
        wanted = {source.name: source for source in sources}
        removed = [self._watches.pop(name) for name in self._watches.keys() - wanted.keys()]
        self._registry.configure(wanted)
        added = []
        for name, source in wanted.items():
            watch = self._watches.get(name)
            if watch is None:
                added.append(self._watch(source))
            elif watch.source != source:
                _log.info("model %s: its configuration has changed", name)
                watch.change(source)
        self._registry.publish()
        for watch in added:
            watch.start()
        for watch in removed:
            _log.info("model %s is not configured any more", watch.source.name)
            self._remove(watch)

    async def settle(self) -> None:
        """Return when each version of the present models is available or has failed."""
        await asyncio.gather(*(watch.settled.wait() for watch in self._watches.values()))

    async def close(self) -> None:
        """Stop watching. Workers are the supervisor's to end."""
        for task in self._removals:
            task.cancel()
        await asyncio.gather(*self._removals, return_exceptions=True)
        await asyncio.gather(*(watch.abandon() for watch in self._watches.values()))
        self._loader.close()

    def _watch(self, source: ModelSource) -> ModelWatch:
        model = self._registry.model(source.name)
        watch = ModelWatch(source, model, self._loader, self._registry.publish)
        self._watches[source.name] = watch
        return watch

    def _remove(self, watch: ModelWatch) -> None:
        task = asyncio.create_task(watch.close(), name=f"remove {watch.source.name}")
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)
