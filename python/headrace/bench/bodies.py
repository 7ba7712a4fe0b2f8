"""Request bodies made from a model's metadata, where nobody gave any."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

from headrace.errors import SpecError
from headrace.tensors import TensorSpec

__all__ = ["input_specs", "make_body"]

# Within every integer type, and what a table of embeddings or a picture has.
_BELOW = 100
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def input_specs(metadata: Mapping[str, Any], signature: str) -> dict[str, TensorSpec]:
    """The inputs of a signature.

    Args:
        metadata: The answer to ``GET /v1/models/NAME/metadata``.
        signature: Its name.

    Raises:
        SpecError: There is no such signature, or it does not take what ``:predict`` sends.
    """
    try:
        signatures = metadata["metadata"]["signature_def"]["signature_def"]
    except (KeyError, TypeError):
        raise SpecError("the model's metadata lists no signatures") from None
    if signature not in signatures:
        raise SpecError(f"no signature {signature!r} (there are {', '.join(sorted(signatures))})")
    declared = signatures[signature].get("inputs", {})
    return {name: _spec(info) for name, info in declared.items()}


def make_body(
    specs: Mapping[str, TensorSpec], signature: str, *, rows: int, extent: int, seed: int
) -> bytes:
    """A request with values of the declared dtypes: by rows where all inputs have them.

    Floats lie between 0 and 1, whole numbers from 0 to 99; texts are eight letters.

    Args:
        specs: The inputs.
        signature: Named in the request unless it is the default one.
        rows: The first extent of each input, where it is free.
        extent: Every other extent that is free.
        seed: The same seed gives the same body.

    Raises:
        SpecError: An input of unknown rank, or of a dtype that JSON has no form for.
    """
    draw = random.Random(seed)
    tensors = {}
    for name, spec in specs.items():
        if spec.shape is None:
            raise SpecError(f"input {name!r} has an unknown rank: give a body")
        shape = [
            (rows if axis == 0 else extent) if declared is None else declared
            for axis, declared in enumerate(spec.shape)
        ]
        tensors[name] = _values(name, spec.dtype, shape, draw)
    by_rows = all(spec.shape and spec.shape[0] is None for spec in specs.values())
    body: dict[str, Any] = {}
    if signature != "serving_default":
        body["signature_name"] = signature
    if by_rows and tensors:
        body["instances"] = _rows(tensors, rows)
    else:
        body["inputs"] = tensors
    return json.dumps(body).encode()


def _rows(tensors: Mapping[str, Any], rows: int) -> Any:
    if len(tensors) == 1:
        return next(iter(tensors.values()))
    return [{name: tensor[row] for name, tensor in tensors.items()} for row in range(rows)]


def _spec(info: Mapping[str, Any]) -> TensorSpec:
    shape = info.get("tensor_shape", {})
    if shape.get("unknown_rank"):
        return TensorSpec(info["dtype"])
    sizes = [int(dim["size"]) for dim in shape.get("dim", [])]
    return TensorSpec(info["dtype"], [None if size < 0 else size for size in sizes])


def _values(name: str, dtype: str, shape: list[int], draw: random.Random) -> Any:
    if shape:
        return [_values(name, dtype, shape[1:], draw) for _ in range(shape[0])]
    if dtype == "bool":
        return draw.random() < 0.5
    if dtype == "string":
        return "".join(draw.choices(_LETTERS, k=8))
    if dtype.startswith(("float", "bfloat")):
        return round(draw.random(), 7)
    if dtype.startswith(("int", "uint")):
        return draw.randrange(_BELOW)
    raise SpecError(f"input {name!r} of dtype {dtype} has no form in JSON: give a body")
