"""Write the decode vectors as inputs of its fuzzers: ``python decode_seeds.py DIRECTORY``.

Byte 0 of an input chooses the signature, byte 1 the options; the rest is the body.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from decode_cases import load_cases

# In the order of fuzz_decode.cpp.
DTYPES = (
    *("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool", "string", "complex64"),
)
SEVERAL_INPUTS = len(DTYPES)
OPTIONS = ("check_shapes", "integral_floats", "bare_list", "finite_only")


def seeds() -> list[bytes]:
    """One input per vector."""
    inputs = []
    for case in load_cases():
        (specs,) = case.signatures.values()
        dtype = next(iter(specs.values())).dtype
        choice = SEVERAL_INPUTS if len(specs) > 1 else (*DTYPES, dtype).index(dtype)
        options = sum(1 << i for i, name in enumerate(OPTIONS) if name in case.options)
        inputs.append(bytes([choice, options]) + case.body)
    return inputs


def write_seeds(folder: Path) -> None:
    """Write each seed as a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (folder / f"{number:04}").write_bytes(seed)


if __name__ == "__main__":
    write_seeds(Path(sys.argv[1]))
