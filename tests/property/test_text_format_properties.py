from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from headrace.config import parse_model_config
from headrace.config.text_format import Message, parse_text
from headrace.errors import SpecError

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
TREES = st.recursive(
    st.one_of(st.text(), st.integers()),
    lambda values: st.lists(st.tuples(NAMES, values), max_size=4),
    max_leaves=20,
).filter(lambda tree: isinstance(tree, list))


def write(tree: object) -> str:
    """A tree as text format, with every odd character as an escape."""
    if isinstance(tree, str):
        quoted = "".join(
            char if char.isalnum() and char.isascii() else f"\\U{ord(char):08x}" for char in tree
        )
        return f'"{quoted}"'
    if isinstance(tree, int):
        return str(tree)
    assert isinstance(tree, list)
    return "{ " + " ".join(f"{name}: {write(value)}" for name, value in tree) + " }"


def read(message: Message) -> list[tuple[str, object]]:
    def value(of: object) -> object:
        if isinstance(of, Message):
            return read(of)
        return int(of.text) if of.kind == "number" else of.text  # type: ignore[attr-defined]

    return [(field.name, value(field.value)) for field in message.fields]


@given(TREES)
def test_what_is_written_is_read_back(tree: object) -> None:
    assert read(parse_text(write(tree)[1:-1])) == tree


@given(st.text(alphabet="ab_1:{}<>[],;-'\"\\x7#\n ", max_size=60) | st.text(max_size=60))
def test_any_text_is_a_tree_or_a_spec_error(text: str) -> None:
    for parse in (parse_text, parse_model_config):
        with suppress(SpecError):
            parse(text)
