"""Tensors to the JSON bodies of TF Serving's REST API.

Floats are written with the fewest digits that read back to the same value of their own dtype,
spelled as Python spells them (``0.1``, ``7.0``, ``1e-05``). ``pretty=True`` gives TF
Serving's bytes.

Thread-safe: nothing is shared, and the GIL is released while there is much to write. An array that
is C-contiguous, aligned and in native byte order is read where it is; nobody may write to it
meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from headrace import _core

__all__ = ["encode_classify", "encode_error", "encode_predict", "encode_regress"]

NonFinite = Literal["token", "null", "string", "error"]
InvalidUtf8 = Literal["error", "b64"]


def encode_predict(
    outputs: Mapping[str, ArrayLike],
    format: Literal["row", "columnar"],
    *,
    pretty: bool = False,
    non_finite: NonFinite = "token",
    int64_as_string: bool = False,
    invalid_utf8: InvalidUtf8 = "error",
    only: Sequence[str] | None = None,
) -> bytes:
    """The body of a predict response: ``{"predictions": [...]}`` or ``{"outputs": ...}``.

    Outputs are ordered by name; a single one stands without its name. Strings (``object`` arrays of
    bytes or str, ``S``, ``U``) of an output whose name ends in ``_bytes`` become ``{"b64": ...}``.

    Args:
        outputs: Name to array. In row format all have the same first dimension.
        format: ``row`` answers a request of ``instances``, ``columnar`` one of ``inputs``.
        pretty: TF Serving's layout and spelling of numbers instead of the compact form.
        non_finite: What becomes of NaN and the infinities: the bare tokens that TF Serving writes
            (which strict JSON readers refuse), ``null``, a string, or an error.
        int64_as_string: Write int64 and uint64 between quotes.
        invalid_utf8: What becomes of a string that is not UTF-8: an error, or ``{"b64": ...}``.
        only: The outputs wanted; None or empty for all of them.

    Raises:
        EncodeError: What cannot be written; ``code`` says why, ``path`` where it would have stood.
        TypeError: An object array that holds something else than bytes and str.

    Spec: tfserving-rest sections 10 to 12.
    """
    options = _options(pretty, non_finite, int64_as_string, invalid_utf8, tuple(only or ()))
    return _core.encode_predict(outputs=dict(outputs), format=format, options=options)


def encode_classify(
    classes: ArrayLike | None,
    scores: ArrayLike | None,
    *,
    counts: Sequence[int] | None = None,
    pretty: bool = False,
    non_finite: NonFinite = "token",
    invalid_utf8: InvalidUtf8 = "error",
) -> bytes:
    """The body of a classify response: ``{"results": [[[label, score], ...], ...]}``.

    Args:
        classes: Labels of shape (examples, classes); None: every label is empty.
        scores: float32 of the same shape; None: every score is 0.0.
        counts: How many classes each example has, where the arrays hold those of one example after
            another in any shape; None: the arrays' own two dimensions say it.
        pretty: As for ``encode_predict``.
        non_finite: As for ``encode_predict``.
        invalid_utf8: As for ``encode_predict``.

    Raises:
        EncodeError: No example, arrays that do not fit together, or a value that cannot be written.

    Spec: tfserving-rest section 13.
    """
    options = _options(pretty, non_finite, False, invalid_utf8)
    labels = None if classes is None else np.asarray(classes)
    values = None if scores is None else np.asarray(scores)
    if counts is None:
        counts = _counts(labels if values is None else values)
    return _core.encode_classify(labels=labels, scores=values, counts=list(counts), options=options)


def encode_regress(
    values: ArrayLike, *, pretty: bool = False, non_finite: NonFinite = "token"
) -> bytes:
    """The body of a regress response: ``{"results": [value, ...]}``.

    Args:
        values: float32 of shape (examples,) or (examples, 1).
        pretty: As for ``encode_predict``.
        non_finite: As for ``encode_predict``.

    Raises:
        EncodeError: No example, another dtype or shape, or a value that cannot be written.

    Spec: tfserving-rest section 13.
    """
    options = _options(pretty, non_finite)
    return _core.encode_regress(values=values, options=options)


def encode_error(message: str | bytes) -> bytes:
    """The body of an error, ``{"error": message}``, in TF Serving's layout.

    Always valid JSON: what is not UTF-8 in ``message`` becomes U+FFFD, a lone surrogate ``?``.

    Spec: tfserving-rest section 3.
    """
    text = message.encode(errors="replace") if isinstance(message, str) else message
    return _core.encode_error(message=text)


@lru_cache(maxsize=64)
def _options(
    pretty: bool,
    non_finite: str,
    int64_as_string: bool = False,
    invalid_utf8: str = "error",
    outputs: tuple[str, ...] = (),
) -> _core.EncodeOptions:
    """Made once for each way of writing; immutable, so that calls can share it."""
    return _core.EncodeOptions(
        pretty=pretty,
        non_finite=non_finite,
        int64_as_string=int64_as_string,
        invalid_utf8=invalid_utf8,
        outputs=outputs,
    )


def _counts(array: np.ndarray[Any, Any] | None) -> list[int]:
    if array is None or array.ndim != 2:
        raise ValueError("without counts, classes or scores must be an array of two dimensions")
    return [array.shape[1]] * array.shape[0]
