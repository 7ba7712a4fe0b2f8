"""The answers to GET: a model's status and metadata, laid out as by protobuf's JSON printer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.tensors import Signature, TensorSpec

__all__ = ["VersionStatus", "metadata_body", "status_body"]

_DT_NAMES = {
    "bool": "DT_BOOL",
    "string": "DT_STRING",
    "float16": "DT_HALF",
    "float32": "DT_FLOAT",
    "float64": "DT_DOUBLE",
}


@dataclass(frozen=True, slots=True)
class VersionStatus:
    """Where one version stands.

    Attributes:
        version: Its number.
        state: ``START``, ``LOADING``, ``AVAILABLE``, ``UNLOADING`` or ``END``.
        error_code: absl's code in upper case; ``OK`` unless the load failed.
        error_message: Why it failed.
    """

    version: int
    state: str
    error_code: str = "OK"
    error_message: str = ""


def status_body(versions: Iterable[VersionStatus]) -> bytes:
    """The status of the versions given, newest first."""
    newest_first = sorted(versions, key=lambda v: v.version, reverse=True)
    return _proto_json(
        {
            "model_version_status": [
                {
                    "version": str(v.version),
                    "state": v.state,
                    "status": {"error_code": v.error_code, "error_message": v.error_message},
                }
                for v in newest_first
            ]
        }
    )


def metadata_body(model: str, version: int, signatures: Mapping[str, Signature]) -> bytes:
    """The signatures of one version; ``signature_def`` stands twice, as clients expect."""
    return _proto_json(
        {
            "model_spec": {"name": model, "signature_name": "", "version": str(version)},
            "metadata": {
                "signature_def": {
                    "signature_def": {
                        name: _signature(signature)
                        for name, signature in sorted(signatures.items())
                    }
                }
            },
        }
    )


def _signature(signature: Signature) -> Mapping[str, object]:
    return signature.signature_def or {
        "inputs": {name: _tensor(name, spec) for name, spec in sorted(signature.inputs.items())},
        "outputs": {name: _tensor(name, spec) for name, spec in sorted(signature.outputs.items())},
        "method_name": signature.method_name,
        "defaults": {},
    }


def _tensor(name: str, spec: TensorSpec) -> dict[str, object]:
    dims = [
        {"size": str(-1 if extent is None else extent), "name": ""} for extent in spec.shape or ()
    ]
    return {
        "dtype": _DT_NAMES.get(spec.dtype, "DT_" + spec.dtype.upper()),
        "tensor_shape": {"dim": dims, "unknown_rank": spec.shape is None},
        "name": name,
    }


def _proto_json(message: object) -> bytes:
    text = json.dumps(message, indent=1, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"
