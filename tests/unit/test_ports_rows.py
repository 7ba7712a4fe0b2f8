"""A request by rows that no answer can have rows for is refused before the model runs."""

import pytest
from ring_loop import DECODE, Loop, body_of

from headrace import DecodeError, Signature, TensorSpec, _core
from headrace.tensors import compile_signatures

X = {"x": TensorSpec("float32", (None,))}
OUTPUTS = {
    "y": TensorSpec("float32", (None,)),
    "labels": TensorSpec("string", (3,)),
    "total": TensorSpec("float32", ()),
    "one": TensorSpec("float32", (1,)),
    "unknown": TensorSpec("float32", None),
}
Y = _core.EncodeOptions(outputs=["y", "one", "unknown"])
LABELS = _core.EncodeOptions(outputs=["labels"])
TOTAL = _core.EncodeOptions(outputs=["total"])


@pytest.fixture
def loop():
    signature = Signature(inputs=X, outputs=OUTPUTS)
    loop = Loop(compile_signatures({"serving_default": signature}))
    yield loop
    loop.close()


@pytest.mark.parametrize(
    ("encode", "rows", "message"),
    [
        (LABELS, 2, "Tensor name: labels has inconsistent batch size: 3 expecting: 2;"),
        (TOTAL, 2, "Tensor name: total has no shape information ; "),
        (_core.EncodeOptions(), 3, "Tensor name: total has no shape"),
    ],
)
@pytest.mark.parametrize("large", [False, True])
def test_outputs_without_rows_are_told_at_once(loop, encode, rows, message, large):
    body = body_of([1.5] * rows)
    with pytest.raises(DecodeError) as caught:
        if large:
            draft = loop.port.prepare(body, decode=DECODE)
            loop.port.submit_draft(1, draft, encode=encode, deadline_ns=0)
        else:
            loop.submit(body, encode=encode)
    assert str(caught.value).startswith(message)
    assert "'inputs' (columnar)" in str(caught.value)
    assert loop.collect() is None
    assert loop.port.in_flight == 0


@pytest.mark.parametrize(
    ("encode", "body"),
    [
        (Y, body_of([1.5, 2.5])),
        (LABELS, body_of([1.5] * 3)),
        (TOTAL, b'{"inputs": [1.5, 2.5]}'),
        (None, body_of([1.5, 2.5])),
    ],
    ids=["of free or unknown extents", "as many as rows", "columns", "not JSON"],
)
def test_others_are_run(loop, encode, body):
    loop.submit(body, encode=encode)
    assert loop.collect() is not None
