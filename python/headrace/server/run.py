"""Running a front end: as the main job of a process, or in a thread of somebody else's."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import uvloop

from headrace.errors import LoadFailed, SpecError
from headrace.server.front_end import FrontEnd, FrontEndOptions
from headrace.server.models import ModelSource

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["Server", "serve"]

_log = logging.getLogger(__name__)
T = TypeVar("T")


def serve(
    options: FrontEndOptions, *, on_ready: Callable[[Sequence[str]], None] | None = None
) -> int:
    """Serve until SIGTERM or SIGINT; SIGHUP reads certificate, tokens and models anew.

    Prints one line on stdout, ``headrace: listening on http://HOST:PORT``, once every model is
    available or has failed.

    Args:
        options: What to serve, and how.
        on_ready: Called after that with the URLs.

    Returns:
        The exit status: 0 after a signal; 1 where a port cannot be opened, or certificate, key or
        tokens cannot be used.
    """
    status: int = uvloop.run(_serve(options, on_ready))
    return status


async def _serve(options: FrontEndOptions, on_ready: Callable[[Sequence[str]], None] | None) -> int:
    stop, hangup = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, hangup.set)
    try:
        front_end = FrontEnd(options)
    except SpecError as error:
        _log.error("cannot start: %s", error)
        return 1
    try:
        urls = await front_end.open()
    except OSError as error:
        _log.error("cannot listen: %s", error)
        await front_end.close()
        return 1
    starting = asyncio.ensure_future(_say_when_ready(front_end, urls, on_ready))
    reloading = asyncio.ensure_future(_reload_on(hangup, front_end))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        starting.result()
        await stopping
    for task in (starting, reloading):
        task.cancel()
    await asyncio.wait({starting, reloading})
    await front_end.close()
    return 0


async def _say_when_ready(
    front_end: FrontEnd, urls: Sequence[str], on_ready: Callable[[Sequence[str]], None] | None
) -> None:
    await front_end.load()
    try:
        for url in urls:
            print(f"headrace: listening on {url}", flush=True)
    except OSError as error:  # who started the server has stopped reading, or the disk is full
        _log.warning("standard output cannot be written: %s", error.strerror)
    if on_ready is not None:
        on_ready(urls)


async def _reload_on(hangup: asyncio.Event, front_end: FrontEnd) -> None:
    while True:
        await hangup.wait()
        hangup.clear()
        await front_end.reload()


class Server:
    """A server inside a Python program, for tests, notebooks and embedding.

    It runs on a thread of its own; models run in processes of their own, as always.

        with headrace.Server(model="path/to/half_plus_three") as server:
            requests.post(f"{server.url}/v1/models/half_plus_three:predict", json=...)

    Thread-safe. Use each object once.

    Attributes:
        url: ``http://HOST:PORT`` once started.
        names: The models' names in the URL.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        name: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        options: FrontEndOptions | None = None,
    ) -> None:
        """Describe what to serve.

        Args:
            model: Base path of the one model; give either this or ``options``.
            name: Its name in the URL; by default its directory's.
            host: Where to listen.
            port: 0 for one that the kernel chooses.
            options: Everything, in place of the four above.
        """
        if (model is None) == (options is None):
            raise TypeError("give either model or options")
        if options is None:
            base_path = Path(model or "").resolve()
            source = ModelSource(name=name or base_path.name, base_path=base_path, max_retries=0)
            options = FrontEndOptions(models=[source], listen=[(host, port)])
        self.url = ""
        self.names = [source.name for source in options.models]
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._front_end: FrontEnd | None = None
        self._thread = threading.Thread(target=self._run, name="headrace", daemon=True)
        self._started = threading.Event()

    def start(self) -> None:
        """Open the port and load the models; blocks until they answer.

        Raises:
            OSError: The address cannot be had.
            LoadFailed: A model cannot be loaded; the server is closed again.
        """
        self._thread.start()
        self._started.wait()
        try:
            self._call(self._open())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Finish what runs, end the workers and the thread. May be called twice."""
        if self._loop is None or not self._thread.is_alive():
            return
        if self._front_end is not None:
            self._call(self._front_end.close())
            self._front_end = None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._loop.call_soon(self._started.set)
        self._loop.run_forever()
        self._loop.close()

    async def _open(self) -> None:
        self._front_end = FrontEnd(self._options)
        self.url = (await self._front_end.open())[0]
        await self._front_end.load()
        if unready := self._front_end.unready():
            raise LoadFailed("; ".join(unready))

    def _call(self, coroutine: Coroutine[object, object, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
