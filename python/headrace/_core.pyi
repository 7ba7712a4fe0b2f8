"""The C++ core. Private: use ``headrace.codec`` and ``headrace.Server``."""

from collections.abc import Sequence

from numpy.typing import ArrayLike

_Specs = Sequence[tuple[str, str, Sequence[int | None] | None]]

class SignatureSet:
    def __init__(self, signatures: Sequence[tuple[str, _Specs, _Specs]]) -> None: ...
    def names(self) -> list[str]: ...

def numpy_name(name: str) -> str | None: ...

class EncodeOptions:
    def __init__(
        self,
        *,
        pretty: bool = False,
        non_finite: str = "token",
        int64_as_string: bool = False,
        invalid_utf8: str = "error",
        outputs: Sequence[str] = ...,
    ) -> None: ...
    @property
    def pretty(self) -> bool: ...
    @property
    def non_finite(self) -> str: ...
    @property
    def int64_as_string(self) -> bool: ...
    @property
    def invalid_utf8(self) -> str: ...
    @property
    def outputs(self) -> list[str]: ...

def encode_predict(outputs: dict[str, ArrayLike], format: str, options: EncodeOptions) -> bytes: ...
def encode_classify(
    labels: ArrayLike | None,
    scores: ArrayLike | None,
    counts: Sequence[int],
    options: EncodeOptions,
) -> bytes: ...
def encode_regress(values: ArrayLike, options: EncodeOptions) -> bytes: ...
def encode_error(message: bytes) -> bytes: ...
