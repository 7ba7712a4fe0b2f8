from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headrace.serving.versions import (
    All,
    Entry,
    Latest,
    Specific,
    aspired_versions,
    find_versions,
)

BASE = Path("/models/half")
NAMES = st.one_of(
    st.from_regex(r"0{0,3}[0-9]{1,4}", fullmatch=True),
    # Python gives names that are not UTF-8 with U+DC80 to U+DCFF, and with no other surrogates.
    st.text(
        st.characters(exclude_characters="/\0", exclude_categories=("Cs",))
        | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF, categories=("Cs",)),
        min_size=1,
        max_size=20,
    ),
)
ENTRIES = st.lists(st.builds(Entry, NAMES, st.booleans()), unique_by=lambda e: e.name, max_size=30)


@given(ENTRIES)
def test_every_entry_is_a_version_or_skipped_and_order_does_not_matter(
    entries: list[Entry],
) -> None:
    found = find_versions(BASE, entries)
    assert found == find_versions(BASE, entries[::-1])
    taken = {path.name for path in found.versions.values()}
    skipped = {entry.name for entry in found.skipped}
    if found.warning:
        assert found.versions == {1: BASE}
    else:
        assert taken | skipped == {entry.name for entry in entries}
        assert not taken & skipped
        assert all(int(path.name) == version for version, path in found.versions.items())
    assert bool(found.explanation) == (not found.versions)


@given(st.sets(st.integers(0, 2**63 - 1)), st.integers(0, 5), st.lists(st.integers(0, 9)))
def test_policies_choose_only_what_was_found(
    found: set[int], count: int, wanted: list[int]
) -> None:
    latest = aspired_versions(found, Latest(count))
    assert latest <= found
    assert len(latest) == min(len(found), max(count, 1))
    assert not latest or min(latest) >= max(found - latest, default=0)
    assert aspired_versions(found, All()) == found
    assert aspired_versions(found, Specific(tuple(wanted))) == found & set(wanted)
