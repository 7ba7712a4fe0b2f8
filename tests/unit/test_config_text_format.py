from __future__ import annotations

import pytest

from headrace.config.text_format import Message, Scalar, parse_text
from headrace.errors import SpecError


def plain(message: Message) -> list[tuple[str, object]]:
    """The tree without places; scalars as (kind, text)."""
    return [
        (
            field.name,
            plain(field.value)
            if isinstance(field.value, Message)
            else (field.value.kind, field.value.text),
        )
        for field in message.fields
    ]


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("", []),
        (" \n# only a comment", []),
        ("a: 1", [("a", ("number", "1"))]),
        ("a:1,b:2;c:3", [(n, ("number", v)) for n, v in zip("abc", "123", strict=True)]),
        ("a: 'x' b: \"y\"", [("a", ("string", "x")), ("b", ("string", "y"))]),
        ("a: 'x' \"y\"\n 'z'", [("a", ("string", "xyz"))]),
        ("a: TENSORFLOW", [("a", ("name", "TENSORFLOW"))]),
        ("a: -3 b: - inf", [("a", ("number", "-3")), ("b", ("name", "-inf"))]),
        (
            "a: 0x1F b: 1.5e-3f c: .5",
            [(n, ("number", v)) for n, v in zip("abc", ["0x1F", "1.5e-3f", ".5"], strict=True)],
        ),
        ("m { a: 1 }", [("m", [("a", ("number", "1"))])]),
        ("m: < a: 1 >,", [("m", [("a", ("number", "1"))])]),
        ("m {} m {}", [("m", []), ("m", [])]),
        ("a: [1, 2]", [("a", ("number", "1")), ("a", ("number", "2"))]),
        ("m [{a: 1}, <>]", [("m", [("a", ("number", "1"))]), ("m", [])]),
        ("a: []", []),
        ("a: 1 # one\nb: 2", [("a", ("number", "1")), ("b", ("number", "2"))]),
        ("\ufeffa: 1", [("a", ("number", "1"))]),
    ],
)
def test_text_becomes_a_tree(text: str, tree: list[tuple[str, object]]) -> None:
    assert plain(parse_text(text)) == tree


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r"'\n\t\\\'\"\?'", "\n\t\\'\"?"),
        (r"'\101\x42\u0043\U0001F600'", "ABC\U0001f600"),
        (r"'\303\251'", "é"),
        (r"'\xc3' '\xa9'", None),
        ("'ü \"inner\"'", 'ü "inner"'),
        (r"'\0'", "\0"),
    ],
)
def test_escapes_in_strings(literal: str, value: str | None) -> None:
    if value is None:
        with pytest.raises(SpecError, match="not UTF-8"):
            parse_text(f"a: {literal}")
    else:
        assert plain(parse_text(f"a: {literal}")) == [("a", ("string", value))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "line 1, column 2: expected ':' or '{', found the end of the text"),
        ("a 1", "line 1, column 3: expected ':' or '{', found '1'"),
        ("a:", "line 1, column 3: expected a value, found the end of the text"),
        ("a: -'x'", "line 1, column 5: expected a value, found \"'x'\""),
        ("m {\n  a: 1", "line 2, column 7: expected a field's name or '}', found the end of"),
        ("m { a: 1 >", "line 1, column 10: expected a field's name or '}', found '>'"),
        ("a: 1 }", "line 1, column 6: expected a field's name, found '}'"),
        ("a: 1,, b: 2", "line 1, column 6: expected a field's name, found ','"),
        ("\n\n  a: [1 2]", "line 3, column 9: expected ',' or ']', found '2'"),
        ("a: [1", "line 1, column 6: expected ',' or ']', found the end of the text"),
        ("a: 'x", "line 1, column 4: a string that does not end on its line"),
        ("a: 'x\n'", "line 1, column 4: a string that does not end on its line"),
        ("a: 1 $", "line 1, column 6: expected a field, found '$'"),
        ("a: 12ab", "line 1, column 4: not a number: '12ab'"),
        ("[ext]: 1", "line 1, column 1: expected a field's name, found '['"),
        (r"a: '\q'", r"line 1, column 4: unknown escape \q in a string"),
        (r"a: '\777'", r"line 1, column 4: escape \777 is beyond a byte"),
        (r"a: '\ud800'", r"line 1, column 4: escape \ud800 is not a character"),
        (r"a: '\xff'", "line 1, column 4: a string that is not UTF-8"),
        ("m{" * 65 + "}" * 65, "nested deeper than 64"),
    ],
)
def test_error_has_place_expected_and_found(text: str, message: str) -> None:
    with pytest.raises(SpecError) as raised:
        parse_text(text)
    assert message in str(raised.value)


def test_values_know_their_place() -> None:
    (field,) = parse_text("\n  name :\n    'x'").fields
    assert field.place == (2, 3)
    assert field.value.place == (3, 5)
    assert isinstance(field.value, Scalar)
