from __future__ import annotations

import pytest

from headrace.bench.arrivals import Arrivals
from headrace.bench.plan import OpenLoop, Plan, Trust
from headrace.bench.target import Target, message_in, parse_header


def target(url: str, model: str | None = None, *headers: str) -> Target:
    return Target.parse(url, model, [parse_header(h) for h in headers], Trust())


def test_message_is_a_whole_request() -> None:
    message = target("http://h:8501/v1/models/m:predict?a=b", None, "X-Id: 7").message(b"{}")
    assert message == (
        b"POST /v1/models/m:predict?a=b HTTP/1.1\r\nHost: h:8501\r\n"
        b"Content-Type: application/json\r\nX-Id: 7\r\nContent-Length: 2\r\n\r\n{}"
    )


def test_content_type_of_ones_own_wins() -> None:
    message = target("http://h/p", None, "content-type: application/x-npy").message(b"")
    assert b"content-type: application/x-npy\r\n" in message
    assert b"application/json" not in message


def test_server_with_a_model_is_its_predict() -> None:
    found = target("https://[::1]/", "a b/c")
    assert found.url.path == "/v1/models/a%20b%2Fc:predict"
    assert (found.host, found.port, found.tls) == ("::1", 443, Trust())
    assert b"\r\nHost: [::1]\r\n" in found.message(b"")
    assert target("http://h/x").tls is None


@pytest.mark.parametrize(
    ("url", "model", "message"),
    [
        ("h:8501", "m", "expected a URL such as"),
        ("ftp://h/", "m", "expected a URL such as"),
        ("http://h:0/", "m", "expected a URL such as"),
        ("http://h:8501", None, "which model"),
        ("http://h/v1/models/m:predict", "m", "--model goes with the URL of a server"),
    ],
)
def test_urls_that_are_none(url: str, model: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        target(url, model)


@pytest.mark.parametrize(
    "text",
    ["no colon", "sp ace: x", ": x", "X: a\r\nY: b", "X: \u2713", "Content-Length: 3"],
)
def test_headers_that_cannot_be_sent(text: str) -> None:
    with pytest.raises(ValueError, match="header"):
        parse_header(text)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b'{"error": "two\\nlines"}', "two lines"),
        (b"<html>\xff", "<html>\ufffd"),
        (b"[]", "[]"),
        (b"", "(an empty answer)"),
    ],
)
def test_message_in_an_answer(answer: bytes, message: str) -> None:
    assert message_in(answer) == message


def test_parts_of_a_plan_are_the_whole() -> None:
    plan = Plan(
        host="h",
        port=1,
        tls=None,
        messages=(b"",),
        connections=10,
        open_loop=OpenLoop(5.0, Arrivals.POISSON, 1),
        warmup_s=0.0,
        duration_s=None,
        requests=7,
        timeout_s=1.0,
        processes=3,
    )
    parts = [plan.part(number) for number in range(3)]
    assert [part.connections for part in parts] == [4, 3, 3]
    assert [part.requests for part in parts] == [3, 2, 2]
    assert all(part.open_loop == plan.open_loop for part in parts)
