"""Which models are served: added, changed and removed while the others go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fake_supervisor import Bench, add_version, run, source

from headrace.errors import ModelNotFound


def test_new_configuration_replaces_the_old_one_wholly(tmp_path: Path) -> None:
    for name in "abc":
        add_version(tmp_path / name, 1)

    async def body(bench: Bench) -> None:
        bench.keeper.reconfigure([source(name, tmp_path / name) for name in "ab"])
        await bench.keeper.settle()
        kept = bench.registry.find("b")
        bench.keeper.reconfigure([source(name, tmp_path / name) for name in "bc"])
        with pytest.raises(ModelNotFound):
            bench.registry.find("a")
        assert bench.registry.find("b") is kept
        await bench.keeper.settle()
        bench.registry.find("c")
        await bench.until(lambda: "stopped a/1" in bench.supervisor.log)
        assert len(bench.endpoints()) == 2

    assert [e for e in run(body).supervisor.log if e.endswith("b/1")] == [
        *["loading b/1", "loaded b/1"]
    ]


def test_same_configuration_changes_nothing(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        add_version(tmp_path, 1)
        for _ in range(3):
            bench.keeper.reconfigure([source("m", tmp_path)])
            await bench.keeper.settle()

    assert run(body).supervisor.log == ["loading m/1", "loaded m/1"]


def test_removed_model_finishes_what_runs_even_where_it_is_configured_again(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        add_version(tmp_path, 1)
        bench.keeper.reconfigure([source("m", tmp_path)])
        await bench.keeper.settle()
        old = bench.registry.find("m")
        old.is_busy = True
        bench.keeper.reconfigure([])
        bench.keeper.reconfigure([source("m", tmp_path)])
        await bench.keeper.settle()
        assert bench.registry.find("m") is not old
        assert set(bench.endpoints()) == {old, bench.registry.find("m")}
        old.is_busy = False
        await bench.until(lambda: old.closed)

    run(body)


def test_model_that_is_removed_while_it_loads_leaves_nothing(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        add_version(tmp_path, 1)
        bench.supervisor.gates["m/1"] = asyncio.Event()
        bench.keeper.reconfigure([source("m", tmp_path)])
        await bench.until(lambda: bench.supervisor.log)
        bench.keeper.reconfigure([])
        await bench.until(lambda: "given up m/1" in bench.supervisor.log)
        assert bench.endpoints() == []

    run(body)


def test_slow_and_broken_models_delay_no_other(tmp_path: Path) -> None:
    add_version(tmp_path / "slow", 1)
    add_version(tmp_path / "broken", 1, "broken")
    add_version(tmp_path / "good", 1)

    async def body(bench: Bench) -> None:
        bench.supervisor.gates["slow/1"] = asyncio.Event()
        names = ("slow", "missing", "broken", "good")
        bench.keeper.reconfigure([source(name, tmp_path / name) for name in names])
        await bench.until_states("good", v1="AVAILABLE")
        await bench.until_states("broken", v1="END")
        assert {line.partition(":")[0] for line in bench.registry.unready()} == {
            *("slow", "missing", "broken")
        }

    run(body)
