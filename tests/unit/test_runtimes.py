from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import LoadFailed
from headrace.runtimes import find_runtime, open_model


@pytest.mark.parametrize(
    ("marker", "runtime"),
    [
        ("saved_model.pb", "tensorflow"),
        ("saved_model.pbtxt", "tensorflow"),
        ("model.py", "python"),
    ],
)
def test_runtime_is_chosen_by_the_file_that_marks_it(
    tmp_path: Path, marker: str, runtime: str
) -> None:
    (tmp_path / marker).touch()
    assert find_runtime(tmp_path) == runtime


def test_saved_model_wins_over_a_stray_model_py(tmp_path: Path) -> None:
    (tmp_path / "model.py").touch()
    (tmp_path / "saved_model.pb").touch()
    assert find_runtime(tmp_path) == "tensorflow"


def test_unknown_directory_says_what_was_expected_and_found(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").touch()
    with pytest.raises(LoadFailed, match=r"expected one of saved_model.pb, .*found weights.bin"):
        find_runtime(tmp_path)


def test_listing_of_a_full_directory_is_cut(tmp_path: Path) -> None:
    for i in range(12):
        (tmp_path / f"f{i:02}").touch()
    with pytest.raises(LoadFailed, match=r"f09 and 2 more"):
        find_runtime(tmp_path)


def test_empty_and_missing_directories_are_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match="an empty directory"):
        find_runtime(tmp_path)
    with pytest.raises(LoadFailed, match="no readable directory"):
        find_runtime(tmp_path / "nowhere")


def test_unknown_runtime_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match="unknown runtime 'onnx'; there are python, tensorflow"):
        open_model(tmp_path, runtime="onnx")


def test_runtime_given_by_name_overrides_what_the_directory_holds(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(LoadFailed, match=r"model.py: no such file"):
        open_model(tmp_path, runtime="python")
