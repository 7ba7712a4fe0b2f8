"""The life of one model's versions, over a supervisor that only pretends."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

import pytest
from fake_supervisor import Bench, add_version, run, source

from headrace.errors import ModelNotFound, ModelNotReady
from headrace.serving.versions import All, Latest, Specific


def test_new_version_is_loaded_before_the_old_one_goes(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        add_version(tmp_path, 1)
        bench.keeper.reconfigure([source("m", tmp_path)])
        await bench.keeper.settle()
        assert bench.states("m") == {1: "AVAILABLE"}
        add_version(tmp_path, 2)
        await bench.until_states("m", v1="END", v2="AVAILABLE")

    assert run(body).supervisor.log == [
        *["loading m/1", "loaded m/1"],
        *["loading m/2", "loaded m/2", "stopped m/1"],
    ]


def test_deleted_newest_version_is_replaced_by_the_one_before(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        add_version(tmp_path, 1)
        bench.keeper.reconfigure([source("m", tmp_path)])
        await bench.keeper.settle()
        newest = add_version(tmp_path, 2)
        await bench.until_states("m", v1="END", v2="AVAILABLE")
        shutil.rmtree(newest)
        await bench.until_states("m", v1="AVAILABLE", v2="END")

    # Version 1 answers again before 2 goes.
    assert run(body).supervisor.log[-3:] == ["loading m/1", "loaded m/1", "stopped m/2"]


@pytest.mark.parametrize("whole", [False, True])
def test_what_serves_goes_on_serving_when_the_disk_empties(tmp_path: Path, whole: bool) -> None:
    base_path = tmp_path / "m"

    async def body(bench: Bench) -> None:
        version = add_version(base_path, 1)
        bench.keeper.reconfigure([source("m", base_path)])
        await bench.keeper.settle()
        shutil.rmtree(base_path if whole else version)
        await bench.until(lambda: bench.registry.model("m").absence)
        assert bench.states("m") == {1: "AVAILABLE"}
        bench.registry.find("m")

    assert run(body).supervisor.log == ["loading m/1", "loaded m/1"]


def test_missing_base_path_settles_says_why_and_is_picked_up_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    base_path = tmp_path / "m"

    async def body(bench: Bench) -> None:
        bench.keeper.reconfigure([source("m", base_path)])
        with pytest.raises(ModelNotReady, match="still loading"):
            bench.registry.find("m")
        await bench.keeper.settle()
        with pytest.raises(ModelNotFound, match="cannot be read: No such file"):
            bench.registry.find("m")
        add_version(base_path, 1)
        await bench.until_states("m", v1="AVAILABLE")

    with caplog.at_level(logging.WARNING):
        run(body)
    # Dozens of scans, one line.
    assert len([r for r in caplog.records if "cannot be read" in r.getMessage()]) == 1


def test_failed_load_is_told_at_once_and_tried_again_so_many_times(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        add_version(tmp_path, 1, "broken")
        bench.keeper.reconfigure([source("m", tmp_path, max_retries=2)])
        await bench.keeper.settle()
        with pytest.raises((ModelNotFound, ModelNotReady)):
            bench.registry.find("m")
        await bench.until(lambda: bench.supervisor.log.count("failed m/1") == 3)
        assert bench.states("m") == {1: "END"}
        assert "broken" in bench.registry.model("m").versions[1].failure
        add_version(tmp_path, 2)
        await bench.until_states("m", v1="END", v2="AVAILABLE")

    assert run(body).supervisor.log == [
        *["loading m/1", "failed m/1"] * 3,
        *["loading m/2", "loaded m/2"],
    ]


def test_retry_finds_what_was_repaired(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        version = add_version(tmp_path, 1, "broken")
        bench.keeper.reconfigure([source("m", tmp_path, poll_s=None, max_retries=1, retry_s=0.05)])
        await bench.keeper.settle()
        (version / "broken").unlink()
        await bench.until_states("m", v1="AVAILABLE")
        assert bench.registry.model("m").versions[1].failure == ""

    run(body)


def test_version_that_failed_for_good_is_tried_again_once_its_files_change(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        version = add_version(tmp_path, 1, "broken")
        bench.keeper.reconfigure([source("m", tmp_path)])
        await bench.keeper.settle()
        assert bench.supervisor.log == ["loading m/1", "failed m/1"]
        (version / "more").touch()
        await bench.until(lambda: bench.supervisor.log.count("failed m/1") == 2)
        (version / "broken").unlink()
        await bench.until_states("m", v1="AVAILABLE")

    run(body)


def test_broken_new_version_leaves_the_old_one_in_place(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        add_version(tmp_path, 1)
        bench.keeper.reconfigure([source("m", tmp_path)])
        await bench.keeper.settle()
        add_version(tmp_path, 2, "broken")
        await bench.until_states("m", v1="AVAILABLE", v2="END")

    assert "stopped m/1" not in run(body).supervisor.log


def test_fault_in_loading_is_a_failure_of_that_version_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(bench: Bench) -> None:
        add_version(tmp_path, 1, "bug")
        bench.keeper.reconfigure([source("m", tmp_path)])
        await bench.keeper.settle()
        assert bench.registry.model("m").versions[1].failure == "RuntimeError: a bug"
        add_version(tmp_path, 2)
        await bench.until_states("m", v1="END", v2="AVAILABLE")

    run(body)
    assert any(record.exc_info for record in caplog.records)


def test_version_that_is_not_wanted_any_more_is_given_up_while_it_loads(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        add_version(tmp_path, 1)
        bench.supervisor.gates["m/1"] = asyncio.Event()
        bench.keeper.reconfigure([source("m", tmp_path)])
        await bench.until(lambda: "loading m/1" in bench.supervisor.log)
        add_version(tmp_path, 2)
        await bench.until_states("m", v1="END", v2="AVAILABLE")

    assert run(body).supervisor.log == [
        *["loading m/1", "given up m/1"],
        *["loading m/2", "loaded m/2"],
    ]


def test_policy_may_change_while_models_are_served(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        for number in (1, 2, 3):
            add_version(tmp_path, number)
        bench.keeper.reconfigure([source("m", tmp_path, policy=All(), poll_s=None)])
        await bench.keeper.settle()
        assert bench.states("m") == dict.fromkeys((1, 2, 3), "AVAILABLE")
        bench.keeper.reconfigure([source("m", tmp_path, policy=Specific((1,)), poll_s=None)])
        await bench.until_states("m", v1="AVAILABLE", v2="END", v3="END")
        bench.keeper.reconfigure([source("m", tmp_path, policy=Latest(2), poll_s=None)])
        await bench.until_states("m", v1="END", v2="AVAILABLE", v3="AVAILABLE")

    log = run(body).supervisor.log
    assert [entry for entry in log if entry.startswith("loading")][:3] == [
        *["loading m/3", "loading m/2", "loading m/1"]
    ]


def test_base_path_may_change_and_the_same_version_is_loaded_anew_without_a_gap(
    tmp_path: Path,
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"

    async def body(bench: Bench) -> None:
        add_version(old, 1)
        add_version(new, 1, "broken")
        bench.keeper.reconfigure([source("m", old)])
        await bench.keeper.settle()
        first = bench.registry.find("m")
        bench.keeper.reconfigure([source("m", new)])
        await bench.until(lambda: "failed m/1" in bench.supervisor.log)
        assert bench.registry.find("m") is first
        (new / "1" / "broken").unlink()
        await bench.until(lambda: bench.registry.find("m") is not first)
        assert bench.registry.find("m").worker.spec.path == new / "1"
        await bench.until(lambda: first.closed)

    assert run(body).supervisor.log == [
        *["loading m/1", "loaded m/1"],
        *["loading m/1", "failed m/1"],
        *["loading m/1", "loaded m/1", "stopped m/1"],
    ]


def test_unload_waits_for_what_runs(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        add_version(tmp_path, 1)
        bench.keeper.reconfigure([source("m", tmp_path)])
        await bench.keeper.settle()
        old = bench.registry.find("m")
        old.is_busy = True
        add_version(tmp_path, 2)
        await bench.until_states("m", v1="UNLOADING", v2="AVAILABLE")
        assert old in bench.endpoints()
        assert bench.registry.find("m") is not old
        old.is_busy = False
        await bench.until_states("m", v1="END", v2="AVAILABLE")
        assert old.closed == "the version is being unloaded"
        assert bench.unloaded == [("m", old)]

    run(body)


def test_labels_are_never_fatal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def body(bench: Bench) -> None:
        add_version(tmp_path, 1)
        add_version(tmp_path, 2)
        gate = bench.supervisor.gates["m/1"] = asyncio.Event()
        labels = {"next": 1, "now": 2, "never": 9}
        bench.keeper.reconfigure([source("m", tmp_path, policy=All(), labels=labels)])
        await bench.until(lambda: bench.states("m") == {1: "LOADING", 2: "AVAILABLE"})
        assert bench.registry.find("m", label="now") is bench.registry.find("m", 2)
        with pytest.raises(ModelNotReady):
            bench.registry.find("m", label="next")
        gate.set()
        await bench.keeper.settle()
        assert bench.registry.find("m", label="next") is bench.registry.find("m", 1)
        with pytest.raises(ModelNotFound, match="versions loaded: 1, 2"):
            bench.registry.find("m", label="never")
        changed = {"now": 1}
        bench.keeper.reconfigure([source("m", tmp_path, policy=All(), labels=changed)])
        assert bench.registry.find("m", label="now") is bench.registry.find("m", 1)

    run(body)
    text = "the label 'never' stands for version 9, which is not served"
    assert any(text in record.getMessage() for record in caplog.records)


def test_history_of_versions_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.server.model_watch._MAX_ENDED", 2)

    async def body(bench: Bench) -> None:
        for number in range(1, 6):
            add_version(tmp_path, number)
        bench.keeper.reconfigure([source("m", tmp_path, policy=All())])
        await bench.keeper.settle()
        bench.keeper.reconfigure([source("m", tmp_path)])
        await bench.until_states("m", v3="END", v4="END", v5="AVAILABLE")

    run(body)
