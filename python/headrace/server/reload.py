"""What a running server takes anew from its files: models, certificate, tokens.

A file that cannot be used changes nothing: it is logged, and what is in use stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from headrace.errors import SpecError
from headrace.server.models import ModelSource

__all__ = ["ModelsReader", "reload_file"]

_log = logging.getLogger(__name__)


class ModelsReader:
    """Reads the configured models again, now and then or on request."""

    def __init__(
        self,
        read: Callable[[], Sequence[ModelSource]],
        apply: Callable[[Sequence[ModelSource]], None],
    ) -> None:
        """Join the two.

        Args:
            read: Reads the file, off the loop; raises SpecError.
            apply: Called on the loop with what was read.
        """
        self._read = read
        self._apply = apply
        self._mistake = ""
        self._turn = asyncio.Lock()

    async def poll(self, period_s: float) -> None:
        """Read it for ever; a mistake is logged once as long as it stays the same."""
        while True:
            await asyncio.sleep(period_s)
            await self.read()

    async def read(self, *, always_log: bool = False) -> None:
        """Read it once and apply it, or log why not."""
        # One after another, or an older reading might be applied after a newer one.
        async with self._turn:
            try:
                sources = await asyncio.to_thread(self._read)
            except SpecError as error:
                if always_log or str(error) != self._mistake:
                    _log.error("the models stay as they are: %s", error)
                self._mistake = str(error)
                return
            if self._mistake:
                _log.info("the models' configuration can be used again")
                self._mistake = ""
            self._apply(sources)


def reload_file(reload: Callable[[], None], what: str) -> bool:
    """Reload something that is small enough to be read on the loop.

    Returns:
        Whether it worked; otherwise it is logged.
    """
    try:
        reload()
    except SpecError as error:
        _log.error("%s stays as it is: %s", what, error)
        return False
    _log.info("%s was read again", what)
    return True
