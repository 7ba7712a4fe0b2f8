"""Reads a SavedModel's signatures: what they declare, and where in the graph it is.

Exports of TensorFlow 1.0 leave shapes out and sometimes declare a type that the graph does not
take. A shape left out is unknown, even if the graph has one: clients of such models have always
been allowed to send what the operations accept (``[1.0, 2.0]`` for a column), and a session lets
them. The type is the graph's, since no other can run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from google.protobuf.json_format import MessageToDict

from headrace.errors import SpecError
from headrace.runtimes.base import Array
from headrace.runtimes.parse_specs import ParseSpecs
from headrace.tensors import Signature, TensorSpec

__all__ = ["GraphSignature", "read_signatures"]

_log = logging.getLogger(__name__)

# Written by the exporter for the loader: they name an operation, not tensors; nobody calls them.
_INTERNAL = ("__saved_model_init_op", "__saved_model_train_op")


@dataclass(frozen=True, slots=True)
class GraphSignature:
    """A signature, and the names of its tensors in the graph.

    Attributes:
        signature: What clients see.
        inputs: Input name to tensor name, such as ``x:0``.
        outputs: Likewise.
        defaults: Values of inputs that a request may leave out.
    """

    signature: Signature
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    defaults: Mapping[str, Array]


def read_signatures(meta_graph: Any, graph: Any) -> dict[str, GraphSignature]:
    """The signatures of a MetaGraphDef by name.

    One that names tensors which the graph lacks can never run: it is left out, with a warning.
    """
    signatures = {}
    parse_specs = ParseSpecs(meta_graph.graph_def)
    for name, definition in meta_graph.signature_def.items():
        if name in _INTERNAL:
            continue
        try:
            signatures[name] = _read(definition, graph, parse_specs)
        except (KeyError, ValueError, SpecError) as error:
            _log.warning("signature %r is left out: %s", name, error.args[0])
    return signatures


def _read(definition: Any, graph: Any, parse_specs: ParseSpecs) -> GraphSignature:
    inputs = dict(sorted(definition.inputs.items()))
    outputs = dict(sorted(definition.outputs.items()))
    specs = {key: _spec(info, graph) for key, info in inputs.items()}
    return GraphSignature(
        Signature(
            specs,
            {key: _spec(info, graph) for key, info in outputs.items()},
            definition.method_name,
            # Only what takes nothing but strings may take Examples.
            parse_specs.float_features(next(iter(inputs.values())).name)
            if [spec.dtype for spec in specs.values()] == ["string"]
            else frozenset(),
            _to_json(definition),
        ),
        {key: info.name for key, info in inputs.items()},
        {key: info.name for key, info in outputs.items()},
        {key: tf.make_ndarray(value) for key, value in definition.defaults.items()},
    )


def _to_json(definition: Any) -> dict[str, Any]:
    """A SignatureDef with every field written out, as TensorFlow Serving's metadata has it."""
    options = {"preserving_proto_field_name": True}
    try:
        made = MessageToDict(definition, always_print_fields_with_no_presence=True, **options)
    except TypeError:  # before protobuf 5.26
        made = MessageToDict(definition, including_default_value_fields=True, **options)
    made.setdefault("defaults", {})  # before TensorFlow 2.13
    return {key: made[key] for key in ("inputs", "outputs", "method_name", "defaults")}


def _spec(info: Any, graph: Any) -> TensorSpec:
    if info.WhichOneof("encoding") in ("coo_sparse", "composite_tensor"):
        return TensorSpec("variant", None)  # several tensors in one: no JSON form
    dtype = graph.get_tensor_by_name(info.name).dtype.base_dtype.name
    if not info.HasField("tensor_shape") or info.tensor_shape.unknown_rank:
        return TensorSpec(dtype, None)
    sizes = (dim.size for dim in info.tensor_shape.dim)
    return TensorSpec(dtype, tuple(None if size < 0 else size for size in sizes))
