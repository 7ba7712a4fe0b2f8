from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from headrace.errors import SpecError
from headrace.server.models import ModelSource
from headrace.server.reload import ModelsReader, reload_file

SOURCES = [ModelSource("m", Path("/m"))]


class File:
    """Reads what it is told to, or raises it."""

    def __init__(self) -> None:
        self.content: list[ModelSource] | str = SOURCES
        self.applied: list[list[ModelSource]] = []

    def read(self) -> list[ModelSource]:
        if isinstance(self.content, str):
            raise SpecError(self.content)
        return self.content


def test_mistake_changes_nothing_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    file = File()
    reader = ModelsReader(file.read, file.applied.append)

    async def read_each(*contents: list[ModelSource] | str, **options: bool) -> None:
        for file.content in contents:
            await reader.read(**options)

    with caplog.at_level(logging.INFO):
        asyncio.run(read_each(SOURCES, "bad", "bad", "worse", SOURCES, "bad"))
    assert file.applied == [SOURCES, SOURCES]
    assert [record.getMessage() for record in caplog.records] == [
        "the models stay as they are: bad",
        "the models stay as they are: worse",
        "the models' configuration can be used again",
        "the models stay as they are: bad",
    ]
    caplog.clear()
    asyncio.run(read_each("bad", always_log=True))
    assert [record.getMessage() for record in caplog.records] == [
        "the models stay as they are: bad"
    ]


def test_polling_reads_again_and_again() -> None:
    file = File()

    async def main() -> None:
        enough = asyncio.Event()

        def apply(sources: object) -> None:
            file.applied.append(list(SOURCES))
            if len(file.applied) == 3:
                enough.set()

        poll = asyncio.create_task(ModelsReader(file.read, apply).poll(0.001))
        await asyncio.wait_for(enough.wait(), 30)
        poll.cancel()

    asyncio.run(main())


def test_reload_of_a_file_is_logged_either_way(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise SpecError("no such file")

    with caplog.at_level(logging.INFO):
        assert reload_file(lambda: None, "the certificate")
        assert not reload_file(fail, "the certificate")
    assert [record.getMessage() for record in caplog.records] == [
        "the certificate was read again",
        "the certificate stays as it is: no such file",
    ]
