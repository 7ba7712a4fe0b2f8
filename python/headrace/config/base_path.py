"""Base paths as flags and files write them."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.errors import SpecError

__all__ = ["parse_base_path"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


def parse_base_path(text: str) -> Path:
    """The absolute path that a base path stands for; a relative one is taken from here.

    Raises:
        SpecError: Empty, or a URI of something that is not this machine's file system.
    """
    if not text or "\0" in text:
        raise SpecError("a base path must be a directory's path; this one is empty or has a NUL")
    if match := _SCHEME.fullmatch(text):
        scheme, rest = match.groups()
        if scheme.lower() != "file" or not rest.startswith("/"):
            raise SpecError(
                f"base path {text!r}: expected a directory of this machine, "
                f"such as /models/half or file:///models/half; for {scheme}:// mount or copy it"
            )
        text = rest
    return Path(text).absolute()
