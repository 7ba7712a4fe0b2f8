"""The example in an error message is a request that the same signature takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import DecodeError, TensorSpec
from headrace.codec import decode_predict

LEAD = "an example of a body: "
NUMBERS = ("bool", "int8", "uint64", "float16", "bfloat16", "float32", "float64")

extents = st.one_of(st.none(), st.integers(1, 2))
shapes = st.one_of(st.none(), st.lists(extents, max_size=4).map(tuple))
specs = st.builds(TensorSpec, st.sampled_from((*NUMBERS, "string")), shapes)
names = st.one_of(st.text(min_size=1, max_size=6), st.just("image_bytes"))


def example_of(inputs: dict[str, TensorSpec]) -> str | None:
    with pytest.raises(DecodeError) as caught:
        decode_predict(b"{}", {"serving_default": inputs}, check_shapes=True)
    _, found, rest = str(caught.value).partition(LEAD)
    return rest[:-1] if found else None


@given(inputs=st.dictionaries(names, specs, min_size=1, max_size=4))
def test_example_is_a_request_of_the_signature(inputs: dict[str, TensorSpec]) -> None:
    example = example_of(inputs)
    assert example is not None
    request = decode_predict(example.encode(), {"serving_default": inputs}, check_shapes=True)
    assert set(request.tensors) == set(inputs)


def test_long_lists_are_cut_short() -> None:
    inputs = {"image": TensorSpec("uint8", (None, 224, 2))}
    assert example_of(inputs) == '{"instances": [[[1, 1], [1, 1], ...]]}'


@pytest.mark.parametrize(
    "inputs",
    [
        {"x": TensorSpec("complex64", (None,))},
        {"x": TensorSpec("float32", (1,) * 7)},
        {f"x{i}": TensorSpec("float32", (None,)) for i in range(9)},
    ],
    ids=["no JSON form", "many dimensions", "many inputs"],
)
def test_there_is_none_where_it_would_not_help(inputs: dict[str, TensorSpec]) -> None:
    assert example_of(inputs) is None
