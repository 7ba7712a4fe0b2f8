"""The C++ core. Private: use ``headrace.codec`` and ``headrace.Server``."""

from collections.abc import Sequence

_Specs = Sequence[tuple[str, str, Sequence[int | None] | None]]

class SignatureSet:
    def __init__(self, signatures: Sequence[tuple[str, _Specs, _Specs]]) -> None: ...
    def names(self) -> list[str]: ...

def numpy_name(name: str) -> str | None: ...
