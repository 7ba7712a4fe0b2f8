"""Failures in TensorFlow Serving's terms: the status of each kind of error, and the error body."""

from __future__ import annotations

import json
from dataclasses import dataclass

from headrace import errors

__all__ = ["STATUS_OF", "Failure", "error_body", "failure_of", "html_page"]

#: absl's status codes (lower case) to HTTP. Anything else is 500.
STATUS_OF = {
    "invalid_argument": 400,
    "failed_precondition": 400,
    "out_of_range": 400,
    "unauthenticated": 401,
    "permission_denied": 403,
    "not_found": 404,
    "already_exists": 409,
    "aborted": 409,
    "resource_exhausted": 429,
    "cancelled": 499,
    "unimplemented": 501,
    "unavailable": 503,
    "deadline_exceeded": 504,
}

_NO_SERVABLE = "Servable not found for request: "
_MODEL_FAULTS = ("invalid_utf8", "non_finite", "too_large")
_UNEXPLAINED = "The server failed in a way it did not expect; its log says more."


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer that is an error.

    Attributes:
        status: HTTP status.
        message: What the error body says.
    """

    status: int
    message: str

    @classmethod
    def of(cls, code: str, message: str) -> Failure:
        """From one of absl's status codes in lower case."""
        return cls(STATUS_OF.get(code, 500), message)

    @classmethod
    def invalid(cls, message: str) -> Failure:
        """The client's fault: 400."""
        return cls(400, message)

    def body(self) -> bytes:
        """The JSON body."""
        return error_body(self.message)


def error_body(message: str) -> bytes:
    """``{"error": message}`` in TensorFlow Serving's layout, strict JSON whatever the text."""
    text = json.dumps(message.encode("utf-8", "backslashreplace").decode(), ensure_ascii=False)
    return b'{\n    "error": ' + text.encode() + b"\n}"


def html_page(status: int, reason: str) -> bytes:
    """What TF Serving's HTTP library answers outside ``/v1/``, and for methods it does not know."""
    heading = f"<HTML><HEAD>\n<TITLE>{status} {reason}</TITLE>\n</HEAD><BODY>\n"
    return f"{heading}<H1>{reason}</H1>\n</BODY></HTML>\n".encode()


def failure_of(error: errors.HeadraceError) -> Failure:
    """The answer for an error of the core.

    Args:
        error: Any error that Headrace raises on purpose.
    """
    message = str(error)
    match error:
        case errors.DecodeError(code="too_large"):
            return Failure(413, message)
        # TF Serving wraps a dtype without a JSON form into INVALID_ARGUMENT in row format only.
        case errors.DecodeError(code="unsupported_dtype", path=path) if path.startswith("inputs"):
            return Failure(501, message)
        case errors.DecodeError():
            return Failure.invalid(message)
        # What the model gave cannot be written this way; the others are the model's own fault.
        case errors.EncodeError(code=code) if code not in _MODEL_FAULTS:
            return Failure.invalid(message)
        case errors.ModelNotFound(model=model, version=version, detail=detail):
            if version is None:
                return Failure(404, _with(f"{_NO_SERVABLE}Latest({model})", detail))
            # Clients match this one to its end.
            return Failure(404, f"{_NO_SERVABLE}Specific({model}, {version})")
        case errors.LabelNotFound(label=label, detail=detail):
            return Failure(400, _with(f"Unrecognized servable version label: {label}", detail))
        case errors.ModelNotReady() | errors.OverloadError():
            return Failure(503, message)
        case errors.DeadlineExceeded():
            return Failure(504, message)
        case errors.RunFailed(kind=kind):
            return Failure.of(kind, message)
        case errors.EncodeError():
            return Failure(500, message)
    return Failure(500, _UNEXPLAINED)


def _with(literal: str, detail: str) -> str:
    return f"{literal} ({detail})" if detail else literal
