"""What a client may ask of the answer's form, in the query or in headers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.dialects.tfserving.errors import Failure
from headrace.dialects.tfserving.wishes import Wishes, parse_wishes


def wishes(target, *headers, defaults=None):
    return parse_wishes(target, headers, defaults or Wishes())


def test_nothing_asked_is_the_servers_own_form():
    own = Wishes(pretty=True)
    assert wishes("/v1/models/m:predict?key=value&flag", defaults=own) is own


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("outputs=a,b", Wishes(outputs=("a", "b"))),
        ("outputs=a%2Cb,", Wishes(outputs=("a", "b"))),
        ("outputs=%C3%A9", Wishes(outputs=("é",))),
        ("non_finite=null", Wishes(non_finite="null")),
        ("int64=string&pretty=true", Wishes(int64_as_string=True, pretty=True)),
        ("pretty=true&pretty=false", Wishes()),
    ],
)
def test_query(query, expected):
    assert wishes(f"/v1/models/m:predict?{query}#fragment") == expected


def test_headers_say_the_same_and_the_query_wins():
    headers = [(b"x-headrace-non-finite", b"string"), (b"x-headrace-outputs", b"y")]
    assert wishes("/t", *headers) == Wishes(outputs=("y",), non_finite="string")
    assert wishes("/t?non_finite=error", *headers).non_finite == "error"


@pytest.mark.parametrize("query", ["non_finite=zero", "int64=", "pretty=yes"])
def test_a_wish_that_does_not_exist_is_refused_with_those_that_do(query):
    failure = wishes(f"/t?{query}")
    assert isinstance(failure, Failure)
    assert failure.status == 400
    assert "none of: " in failure.message


@given(st.text(st.characters(max_codepoint=255), max_size=60))
def test_any_query_gives_wishes_or_a_strict_json_failure(query):
    parsed = wishes("/t?" + query)
    if isinstance(parsed, Failure):
        assert json.loads(parsed.body())["error"] == parsed.message
