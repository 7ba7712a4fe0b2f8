"""Which form a body has, and which one a client wants of the answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.dialects.tfserving.media import JSON, NPY, OCTET_STREAM, content_type, preferred

OFFERS = (JSON, NPY, OCTET_STREAM)


def wanted(*accept: str) -> bytes:
    return preferred([(b"accept", value.encode()) for value in accept], OFFERS)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"application/x-npy", b"application/x-npy"),
        (b"Application/X-NPY ; charset=binary", b"application/x-npy"),
        (b"", b""),
        (b";", b""),
        (b"application/x-npy, application/json", b"application/x-npy, application/json"),
    ],
)
def test_content_type_is_read_without_case_and_parameters(value: bytes, expected: bytes) -> None:
    assert content_type([(b"accept", b"a/b"), (b"content-type", value)]) == expected


def test_no_content_type_is_none() -> None:
    assert content_type([(b"host", b"h")]) == b""


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        # What clients send that know nothing of this: curl and requests, axios, Java, a browser.
        ("*/*", JSON),
        ("application/json, text/plain, */*", JSON),
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", JSON),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", JSON),
        ("", JSON),
        ("text/plain", JSON),
        ("application/vnd.apache.arrow.stream", JSON),
        ("application/x-npy", NPY),
        ("APPLICATION/X-NPY;version=1", NPY),
        ("application/octet-stream", OCTET_STREAM),
        ("application/*", JSON),
        # Quality, then exactness, then order.
        ("application/x-npy;q=0.5, application/octet-stream;q=0.9", OCTET_STREAM),
        ("application/x-npy;q=0.5, */*;q=0.1", NPY),
        ("application/x-npy;q=0.1, */*", JSON),
        ("*/*, application/x-npy", NPY),
        ("application/octet-stream, application/x-npy", OCTET_STREAM),
        ("application/x-npy, application/json", NPY),
        ("application/json, application/x-npy", JSON),
        ("application/x-npy;q=0", JSON),
        ("application/json;q=0, */*", NPY),
        ("application/*;q=0.5, application/json;q=0.1", NPY),
        ("application/x-npy;q=0.001", NPY),
        ("application/x-npy ; Q = 1.000", NPY),
        # No quality at all.
        ("application/x-npy;q=high", JSON),
        ("application/x-npy;q=1.5", JSON),
        ("application/x-npy;q=", JSON),
        (",;,application/x-npy,,", NPY),
    ],
)
def test_accept(accept: str, expected: bytes) -> None:
    assert wanted(accept) == expected


def test_lines_are_one_list() -> None:
    assert wanted("application/x-npy;q=0.2", "application/octet-stream;q=0.3") == OCTET_STREAM


def test_more_ranges_than_anybody_sends_are_not_looked_at() -> None:
    assert wanted(",".join(["a/b"] * 63 + ["application/x-npy"])) == NPY
    assert wanted(",".join(["a/b"] * 64 + ["application/x-npy"])) == JSON


@given(st.lists(st.binary(max_size=60)))
def test_whatever_is_sent_an_offer_comes_out(lines: list[bytes]) -> None:
    assert preferred([(b"accept", line) for line in lines], OFFERS) in OFFERS
