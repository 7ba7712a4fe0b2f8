"""Fuzz ``headrace.codec.decode_predict`` through Python: the border of the extension.

    python tests/fuzz/fuzz_decode.py -max_total_time=30 -max_len=4096

Starts from the vectors. Only `DecodeError` may be raised, with a place and text that encodes; a
slice of a larger buffer gives the same. ``fuzz_decode.cpp`` fuzzes the core itself.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
from decode_seeds import DTYPES, OPTIONS, write_seeds  # noqa: E402

from decode_cases import decode_error  # noqa: E402
from headrace import TensorSpec  # noqa: E402
from headrace.codec import decode_predict  # noqa: E402
from headrace.tensors import compile_signatures  # noqa: E402

SIGNATURES = [
    *(compile_signatures({"serving_default": {"x": TensorSpec(dtype)}}) for dtype in DTYPES),
    compile_signatures({"serving_default": {"a": TensorSpec("int32"), "b": TensorSpec("float32")}}),
]


def outcome(body: bytes | memoryview, choice: int, flags: int) -> object:
    """What comes of a body, in a form that can be compared."""
    options = {name: bool(flags >> i & 1) for i, name in enumerate(OPTIONS)}
    signatures = SIGNATURES[choice % len(SIGNATURES)]
    error = decode_error(body, signatures, **options)
    if error is not None:
        return error.code, error.offset, error.path, error.message
    request = decode_predict(body, signatures, **options)
    return [
        (name, tensor.shape, tensor.tolist() if tensor.dtype == object else tensor.tobytes())
        for name, tensor in request.tensors.items()
    ], request.extra


def one_input(data: bytes) -> None:
    """Compare a body by itself with the same body amid other bytes."""
    if len(data) < 2:
        return
    body = data[2:]
    larger = memoryview(b'"' * 70 + body + b"9" * 70)
    whole = outcome(body, data[0], data[1])
    assert whole == outcome(larger[70 : 70 + len(body)], data[0], data[1])


def main() -> None:
    """Run libFuzzer's loop on the command line's options."""
    with tempfile.TemporaryDirectory() as folder:
        write_seeds(Path(folder))
        atheris.Setup([*sys.argv, folder], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
