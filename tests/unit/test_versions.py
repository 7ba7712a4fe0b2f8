from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.serving.versions import (
    All,
    Entry,
    Latest,
    Policy,
    Specific,
    aspired_versions,
    find_versions,
    fingerprint,
    missing_versions,
    parse_version,
    scan,
)

BASE = Path("/models/half")


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("1", 1),
        ("0", 0),
        ("00000123", 123),
        ("9223372036854775807", 2**63 - 1),
        ("0" * 5000 + "7", 7),
        ("9223372036854775808", None),
        ("9" * 5000, None),
        ("", None),
        ("v1", None),
        ("0.1", None),
        ("-1", None),
        ("+1", None),
        (" 1", None),
        ("1_000", None),
        ("²", None),
        ("٣", None),
    ],
)
def test_version_is_a_whole_number_in_ascii_digits_that_fits_int64(
    name: str, version: int | None
) -> None:
    assert parse_version(name) == version


def test_numbered_directories_are_versions_and_the_rest_is_skipped_with_a_reason() -> None:
    found = find_versions(
        BASE,
        [
            Entry("00000123"),
            Entry("124"),
            Entry("5", is_directory=False),
            Entry("9223372036854775808"),
            Entry("notes"),
        ],
    )
    assert found.versions == {123: BASE / "00000123", 124: BASE / "124"}
    assert [(entry.name, entry.reason) for entry in found.skipped] == [
        ("5", "a file"),
        ("9223372036854775808", "beyond the highest version, 9223372036854775807"),
        ("notes", "not a whole number"),
    ]
    assert (found.warning, found.explanation) == ("", "")


@pytest.mark.parametrize("names", [("0007", "07", "7"), ("7", "07", "0007")])
def test_of_names_with_the_same_number_the_later_in_byte_order_is_taken(
    names: tuple[str, ...],
) -> None:
    found = find_versions(BASE, [Entry(name) for name in names])
    assert found.versions == {7: BASE / "7"}
    assert [entry.name for entry in found.skipped] == ["0007", "07"]
    assert found.skipped[1].reason == "version 7 again, and '7' sorts later"


@pytest.mark.parametrize("own", ["saved_model.pb", "saved_model.pbtxt", "model.py"])
def test_base_path_that_is_a_model_is_version_one_with_a_warning(own: str) -> None:
    found = find_versions(BASE, [Entry(own, is_directory=False), Entry("variables")])
    assert found.versions == {1: BASE}
    assert f"holds {own} itself and is served as version 1" in found.warning
    assert "/models/half/1" in found.warning
    assert found.explanation == ""


def test_numbered_versions_win_over_a_model_beside_them() -> None:
    found = find_versions(BASE, [Entry("saved_model.pb", is_directory=False), Entry("2")])
    assert found.versions == {2: BASE / "2"}
    assert found.warning == ""


def test_directory_called_as_a_model_file_does_not_make_the_base_path_a_model() -> None:
    assert not find_versions(BASE, [Entry("model.py")]).versions


def test_explanation_says_what_was_expected_and_why_each_entry_was_skipped() -> None:
    found = find_versions(
        BASE,
        [
            Entry("v1", children=("saved_model.pb", "variables")),
            Entry("export", children=("1", "2")),
            Entry("0.1"),
            Entry("README", is_directory=False),
        ],
    )
    assert found.versions == {}
    assert found.explanation == (
        "no version of a model in /models/half: expected directories named by a whole number, such "
        "as /models/half/1, each with saved_model.pb, saved_model.pbtxt or model.py; found "
        "'0.1' (not a whole number), 'README' (a file), 'export' (not a whole number, but it has "
        "versions inside: is /models/half/export the base path?), 'v1' (not a whole number, though "
        "it holds saved_model.pb: rename it to a number)"
    )


def test_explanation_of_an_empty_directory() -> None:
    assert find_versions(BASE, []).explanation.endswith("; the directory is empty")


def test_explanation_lists_ten_entries_and_counts_the_rest() -> None:
    found = find_versions(BASE, [Entry(f"dir{i:03}") for i in range(25)])
    assert "'dir009'" in found.explanation
    assert "'dir010'" not in found.explanation
    assert found.explanation.endswith("and 15 more")


@pytest.mark.parametrize(
    ("policy", "aspired"),
    [
        (Latest(), {9}),
        (Latest(0), {9}),
        (Latest(2), {5, 9}),
        (Latest(7), {1, 5, 9}),
        (All(), {1, 5, 9}),
        (Specific((5, 3, 5)), {5}),
        (Specific(()), set()),
    ],
)
def test_policy_chooses_among_the_versions_found(policy: Policy, aspired: set[int]) -> None:
    assert aspired_versions([5, 9, 1], policy) == aspired


def test_nothing_found_means_nothing_aspired() -> None:
    assert [aspired_versions([], policy) for policy in (Latest(3), All(), Specific((1,)))] == [
        set()
    ] * 3


def test_missing_versions_are_those_a_specific_policy_names_in_vain() -> None:
    assert missing_versions([1, 5], Specific((3, 5))) == {3}
    assert missing_versions([1, 5], Latest()) == set()


def test_scan_reads_the_disk(tmp_path: Path) -> None:
    (tmp_path / "00000123").mkdir()
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", tmp_path / "7")
    (tmp_path / "8").write_text("not a directory")
    found = scan(tmp_path)
    assert found.versions == {123: tmp_path / "00000123", 7: tmp_path / "7"}
    assert {entry.name for entry in found.skipped} == {"8", "elsewhere"}


def test_scan_looks_one_level_down_for_a_hint(tmp_path: Path) -> None:
    (tmp_path / "export" / "1").mkdir(parents=True)
    assert f"is {tmp_path / 'export'} the base path?" in scan(tmp_path).explanation


def test_scan_of_a_missing_base_path_explains(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert scan(missing).explanation == (
        f"the base path {missing} cannot be read: No such file or directory"
    )


def test_fingerprint_changes_with_the_files_and_only_then(tmp_path: Path) -> None:
    inside = tmp_path / "variables"
    inside.mkdir()
    (inside / "data").write_bytes(b"a")
    seen = [fingerprint(tmp_path)]
    assert fingerprint(tmp_path) == seen[0]
    (inside / "data").write_bytes(b"ab")
    seen.append(fingerprint(tmp_path))
    (inside / "index").touch()
    seen.append(fingerprint(tmp_path))
    os.utime(inside / "index", ns=(0, 0))
    seen.append(fingerprint(tmp_path))
    os.utime(tmp_path, ns=(0, 0))
    seen.append(fingerprint(tmp_path))
    assert len(set(seen)) == len(seen)
    assert 0 not in seen
    assert fingerprint(tmp_path / "missing") == 0
