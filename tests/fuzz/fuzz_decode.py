"""Fuzz ``headrace.codec.decode_predict`` through Python: the border of the extension.

    python tests/fuzz/fuzz_decode.py -max_total_time=30 -max_len=4096

Starts from the vectors. Only `DecodeError` may be raised, with a place and text that encodes; a
slice of a larger buffer gives the same. ``fuzz_decode.cpp`` fuzzes the core itself.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import atheris

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
from decode_seeds import DTYPES, OPTIONS, seeds  # noqa: E402

from decode_cases import decode_error  # noqa: E402
from headrace import TensorSpec  # noqa: E402
from headrace.codec import decode_predict  # noqa: E402
from headrace.tensors import compile_signatures  # noqa: E402

SIGNATURES = [
    *(compile_signatures({"serving_default": {"x": TensorSpec(dtype)}}) for dtype in DTYPES),
    compile_signatures({"serving_default": {"a": TensorSpec("int32"), "b": TensorSpec("float32")}}),
]

SEEDS = seeds()
# What replaces or joins the bytes of a seed; the empty one stands for any bytes.
PIECES = [
    *(b"", b"[", b"]", b"{", b"}", b",", b":", b'"', b"\\", b"\\u", b"0", b"-", b".", b"e"),
    *(b"NaN", b"Inf", b"true", b"null", b" ", b"\x00", b"\xff", b"9" * 25, b'{"b64":"QQ"}'),
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


def mutated(data: bytes) -> bytes:
    """A seed with a few edits, all drawn from a generator that ``data`` seeds.

    The extension gives no coverage, so libFuzzer keeps no corpus: its inputs stay short, and serve
    better as seeds of a generator than as bodies.
    """
    chance = random.Random(data)
    body = bytearray(chance.choice(SEEDS))
    for _ in range(chance.randrange(6)):
        at = chance.randrange(len(body) + 1)
        body[at : at + chance.randrange(4)] = chance.choice(PIECES) or chance.randbytes(2)
    return bytes(body)


def one_input(data: bytes) -> None:
    """Compare a body by itself with the same body amid other bytes."""
    seed = mutated(data)
    if len(seed) < 2:
        return
    body = seed[2:]
    larger = memoryview(b'"' * 70 + body + b"9" * 70)
    whole = outcome(body, seed[0], seed[1])
    assert whole == outcome(larger[70 : 70 + len(body)], seed[0], seed[1])


def main() -> None:
    """Run libFuzzer's loop on the command line's options."""
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
