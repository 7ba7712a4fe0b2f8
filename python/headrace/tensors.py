"""What a model declares (dtype and shape of each tensor, by signature) and what it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from headrace import _core
from headrace.errors import SpecError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["GivenTensors", "Signature", "TensorSpec", "compile_signatures"]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Dtype and shape of one tensor.

    Attributes:
        dtype: NumPy's name, ``string`` or ``bfloat16``. TensorFlow's names (``float``,
            ``DT_FLOAT``) are understood and turned into NumPy's. A name without a JSON form
            (``qint8``, ``complex64``, ``resource``, ...) is kept, and values of it are refused.
        shape: Extents, outermost first, None for a free one; None for unknown rank.

    Raises:
        SpecError: An unknown dtype, a negative extent, or a rank above 64.
    """

    dtype: str
    shape: tuple[int | None, ...] | None = None

    def __init__(self, dtype: str, shape: Sequence[int | None] | None = None) -> None:
        known = _core.numpy_name(str(dtype))
        if known is None:
            raise SpecError(f"unknown dtype {dtype!r}")
        object.__setattr__(self, "dtype", str(dtype) if known == "unsupported" else known)
        extents = None if shape is None else tuple(None if d is None else int(d) for d in shape)
        if extents is not None and any(d is not None and d < 0 for d in extents):
            raise SpecError(f"a negative extent in shape {shape!r}; None means free")
        if extents is not None and len(extents) > 64:
            raise SpecError(f"rank {len(extents)} is above the limit of 64")
        object.__setattr__(self, "shape", extents)


@dataclass(frozen=True, slots=True)
class Signature:
    """One way to call a model.

    Attributes:
        inputs: Input name to spec.
        outputs: Output name to spec.
        method_name: As the SavedModel has it, such as ``tensorflow/serving/predict``.
        float_features: Of the serialized Examples that it takes, the features that it parses as
            floats, where that is known: whole numbers sent for them by classify and regress become
            floats.
        signature_def: The SavedModel's SignatureDef in protobuf's JSON form; empty for other
            models.
    """

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    method_name: str = "tensorflow/serving/predict"
    float_features: frozenset[str] = frozenset()
    signature_def: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GivenTensors:
    """A request whose tensors are in memory already; the core judges it.

    Attributes:
        signature: The signature's name.
        tensors: Input name to array, in any byte order and layout.
        format: The form of an answer in JSON: rows, or whole tensors.
    """

    signature: str
    tensors: Mapping[str, ArrayLike]
    format: Literal["row", "columnar"] = "row"


def compile_signatures(
    signatures: Mapping[str, Signature | Mapping[str, TensorSpec]],
) -> _core.SignatureSet:
    """Signatures in the form that the core decodes by.

    A bare mapping of input names to specs stands for a signature without declared outputs.
    The result is immutable and safe to share between threads.
    """
    return _core.SignatureSet(
        signatures=[
            (
                name,
                _specs(signature.inputs if isinstance(signature, Signature) else signature),
                _specs(signature.outputs if isinstance(signature, Signature) else {}),
            )
            for name, signature in signatures.items()
        ],
        float_features={
            name: list(signature.float_features)
            for name, signature in signatures.items()
            if isinstance(signature, Signature) and signature.float_features
        },
    )


def _specs(
    specs: Mapping[str, TensorSpec],
) -> list[tuple[str, str, tuple[int | None, ...] | None]]:
    return [(name, spec.dtype, spec.shape) for name, spec in specs.items()]
