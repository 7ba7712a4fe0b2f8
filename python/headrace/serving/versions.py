"""Which versions a model's base path offers, and which of them ought to be served.

All of it is pure but :func:`scan` and :func:`fingerprint`, which look at the file system.

Spec: tfserving-rest section 16. A version is a direct child directory whose name is a whole number
that fits int64; leading zeros are fine. Of two names with the same number the later in byte order
is taken.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

__all__ = [
    "MAX_VERSION",
    "MODEL_FILES",
    "All",
    "Entry",
    "Found",
    "Latest",
    "Policy",
    "Skipped",
    "Specific",
    "aspired_versions",
    "find_versions",
    "fingerprint",
    "missing_versions",
    "parse_version",
    "scan",
]

MAX_VERSION = 2**63 - 1

# A directory that holds one of these is a model.
MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt", "model.py")

# Entries that a message lists; a base path set by mistake to a home directory has thousands.
_MAX_LISTED = 10

# Files that tell one content of a version from another; models have a few dozen.
_MAX_FINGERPRINTED = 10_000

# Names looked at inside an entry that is not a version: enough for a hint, and bounded.
_MAX_CHILDREN = 100


@dataclass(frozen=True, slots=True)
class Entry:
    """One direct child of a base path.

    Attributes:
        name: Its name, without the path.
        is_directory: Whether it is a directory, or a link to one.
        children: Names inside it, for hints in messages; empty where it was not looked into.
    """

    name: str
    is_directory: bool = True
    children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skipped:
    """An entry that is not a version, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    """What one look at a base path found.

    Attributes:
        versions: Version number to the directory that holds it.
        skipped: What is not a version.
        warning: Something that the operator should put right although it can be served; else empty.
        explanation: Why nothing can be served: what was expected and what was seen; else empty.
    """

    versions: Mapping[int, Path] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()
    warning: str = ""
    explanation: str = ""


@dataclass(frozen=True, slots=True)
class Latest:
    """Serve the highest versions.

    Attributes:
        count: How many; 0 means 1, as in TensorFlow Serving.
    """

    count: int = 1


@dataclass(frozen=True, slots=True)
class All:
    """Serve every version there is."""


@dataclass(frozen=True, slots=True)
class Specific:
    """Serve just these versions, as far as they exist."""

    versions: tuple[int, ...]


Policy = Latest | All | Specific


def parse_version(name: str) -> int | None:
    """The version that a directory's name stands for, or None."""
    # str.isdigit alone would let other scripts' digits and superscripts in.
    if not (name.isascii() and name.isdigit()):
        return None
    # Beyond 19 significant digits the comparison is lost anyway; int() refuses very long texts.
    digits = name.lstrip("0") or "0"
    if len(digits) > len(str(MAX_VERSION)) or int(digits) > MAX_VERSION:
        return None
    return int(digits)


def find_versions(base_path: Path, entries: Iterable[Entry]) -> Found:
    """Sort the children of a base path into versions and the rest.

    A base path that is itself a model counts as version 1, with a warning, unless it has numbered
    versions too.
    """
    names: dict[int, str] = {}
    skipped: list[Skipped] = []
    ordered = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    for entry in ordered:
        version = parse_version(entry.name) if entry.is_directory else None
        if version is None:
            skipped.append(Skipped(entry.name, _why_not(base_path, entry)))
            continue
        if version in names:
            reason = f"version {version} again, and {entry.name!r} sorts later"
            skipped.append(Skipped(names[version], reason))
        names[version] = entry.name
    if names:
        versions = {version: base_path / name for version, name in names.items()}
        return Found(versions, tuple(skipped))
    files = {entry.name for entry in ordered if not entry.is_directory}
    if own := next((name for name in MODEL_FILES if name in files), None):
        warning = (
            f"{base_path} holds {own} itself and is served as version 1; to be able to switch "
            f"versions, move its contents to {base_path / '1'}"
        )
        return Found({1: base_path}, warning=warning)
    return Found(skipped=tuple(skipped), explanation=_explain(base_path, skipped))


def scan(base_path: Path) -> Found:
    """Look once at a base path; one that cannot be read gives an explanation, not an error.

    Blocks on the file system, so a caller with an event loop runs it in a thread.
    """
    try:
        with os.scandir(base_path) as children:
            entries = [_look_at(child) for child in children]
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return Found(explanation=f"the base path {base_path} cannot be read: {reason}")
    return find_versions(base_path, entries)


def fingerprint(path: Path) -> int:
    """A number that changes when a version's files do; 0 where there is no such directory.

    It goes by names, sizes, times and inodes, not by content. Blocks on the file system.
    """
    try:
        top = _identity(path)
    except OSError:
        return 0
    files = (
        os.path.join(directory, name) for directory, _, names in os.walk(path) for name in names
    )
    seen: set[tuple[str, int, int, int]] = {top}
    for file in islice(files, _MAX_FINGERPRINTED):
        # A file may go while we look; the next look gives another number then.
        with suppress(OSError):
            seen.add(_identity(file))
    return hash(frozenset(seen))


def aspired_versions(found: Collection[int], policy: Policy) -> set[int]:
    """The versions that ought to be served."""
    match policy:
        case Latest(count):
            return set(sorted(found)[-max(count, 1) :])
        case All():
            return set(found)
        case Specific(wanted):
            return set(found) & set(wanted)


def missing_versions(found: Collection[int], policy: Policy) -> set[int]:
    """The versions that the policy names and the base path does not have."""
    return set(policy.versions) - set(found) if isinstance(policy, Specific) else set()


def _identity(path: str | Path) -> tuple[str, int, int, int]:
    status = os.stat(path)
    return str(path), status.st_ino, status.st_mtime_ns, status.st_size


def _look_at(child: os.DirEntry[str]) -> Entry:
    is_directory = child.is_dir()
    if not is_directory or parse_version(child.name) is not None:
        return Entry(child.name, is_directory)
    try:
        with os.scandir(child.path) as inside:
            return Entry(child.name, children=tuple(e.name for e in islice(inside, _MAX_CHILDREN)))
    except OSError:
        return Entry(child.name)  # only a hint is lost


def _explain(base_path: Path, skipped: list[Skipped]) -> str:
    expected = (
        f"no version of a model in {base_path}: expected directories named by a whole number, "
        f"such as {base_path / '1'}, each with {_one_of(MODEL_FILES)}"
    )
    if not skipped:
        return f"{expected}; the directory is empty"
    listed = [f"{entry.name!r} ({entry.reason})" for entry in skipped[:_MAX_LISTED]]
    if len(skipped) > _MAX_LISTED:
        listed.append(f"and {len(skipped) - _MAX_LISTED} more")
    return f"{expected}; found {', '.join(listed)}"


def _why_not(base_path: Path, entry: Entry) -> str:
    if not entry.is_directory:
        return "a file"
    if entry.name.isascii() and entry.name.isdigit():
        return f"beyond the highest version, {MAX_VERSION}"
    if any(parse_version(child) is not None for child in entry.children):
        inside = base_path / entry.name
        return f"not a whole number, but it has versions inside: is {inside} the base path?"
    if own := next((name for name in MODEL_FILES if name in entry.children), None):
        return f"not a whole number, though it holds {own}: rename it to a number"
    return "not a whole number"


def _one_of(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"
