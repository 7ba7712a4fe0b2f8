"""Every exception that Headrace raises on purpose.

HeadraceError
├── DecodeError            a request body that cannot become tensors
├── EncodeError            outputs that cannot be written in the form asked for
├── SpecError              a signature, flag or configuration that makes no sense
├── ModelError
│   ├── ModelNotFound      no such model or version
│   ├── LabelNotFound      no such version label
│   ├── ModelNotReady      known, but it cannot answer yet or any more
│   ├── LoadFailed         the model could not be loaded
│   └── RunFailed          the model raised while it ran
├── OverloadError          a bound is reached; try again later
├── DeadlineExceeded       the request's time is over
├── RemoteProtocolError    the peer broke the protocol
└── LocalProtocolError     we did: a bug in Headrace
"""

from __future__ import annotations

__all__ = [
    "DeadlineExceeded",
    "DecodeError",
    "EncodeError",
    "HeadraceError",
    "LabelNotFound",
    "LoadFailed",
    "LocalProtocolError",
    "ModelError",
    "ModelNotFound",
    "ModelNotReady",
    "OverloadError",
    "RemoteProtocolError",
    "RunFailed",
    "SpecError",
]


class HeadraceError(Exception):
    """Base of all of them."""


class _PlacedError(HeadraceError):
    """An error with a place in a body.

    Attributes:
        message: What was expected and what was found.
        code: Kind of error in snake case, one per member of the core's ``ErrorCode``.
        offset: Byte offset in the body, or None where none applies.
        path: JSON path such as ``instances[3].image[0]``; empty for the whole body.
    """

    def __init__(
        self, message: str, *, code: str = "structure", offset: int | None = None, path: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.offset = offset
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the keyword attributes when pickled between processes."""
        return (_rebuild, (type(self), self.message, self.code, self.offset, self.path))


def _rebuild(
    cls: type[_PlacedError], message: str, code: str, offset: int | None, path: str
) -> _PlacedError:
    return cls(message, code=code, offset=offset, path=path)


class DecodeError(_PlacedError):
    """A request body that cannot become the tensors of the signature."""


class EncodeError(_PlacedError):
    """Outputs that cannot be written in the form asked for."""


class SpecError(HeadraceError):
    """A signature, flag or configuration that makes no sense."""


class ModelError(HeadraceError):
    """Something about a model."""


class ModelNotFound(ModelError):
    """No such model, or no such version of it.

    Attributes:
        model: The name asked for.
        version: The version asked for; None: the latest.
        detail: What is known of it, such as the names that exist, or why its load failed.
    """

    def __init__(self, model: str, version: int | None = None, detail: str = "") -> None:
        what = f"model {model!r}" if version is None else f"version {version} of model {model!r}"
        super().__init__(f"no {what}" + (f": {detail}" if detail else ""))
        self.model = model
        self.version = version
        self.detail = detail


class LabelNotFound(ModelError):
    """No version of the model carries the label.

    Attributes:
        model: The name asked for.
        label: The label asked for.
        detail: The labels that exist.
    """

    def __init__(self, model: str, label: str, detail: str = "") -> None:
        super().__init__(
            f"no label {label!r} of model {model!r}" + (f": {detail}" if detail else "")
        )
        self.model = model
        self.label = label
        self.detail = detail


class ModelNotReady(ModelError):
    """The model is known but cannot answer yet, or any more."""


class LoadFailed(ModelError):
    """The model could not be loaded."""


class RunFailed(ModelError):
    """The model raised while it ran.

    Attributes:
        kind: ``invalid_argument`` where the model blames its inputs, else ``internal`` and the
            other names of TensorFlow's status codes in lower case.
    """

    def __init__(self, message: str, *, kind: str = "internal") -> None:
        super().__init__(message)
        self.kind = kind


class OverloadError(HeadraceError):
    """A bound is reached: nothing was accepted, and trying again later is right."""


class DeadlineExceeded(HeadraceError):
    """The request's time is over."""


class RemoteProtocolError(HeadraceError):
    """The peer broke the protocol."""


class LocalProtocolError(HeadraceError):
    """We broke the protocol: a bug in Headrace."""
