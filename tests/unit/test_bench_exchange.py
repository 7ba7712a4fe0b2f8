from __future__ import annotations

import pytest

from headrace.bench.exchange import Answers

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
REFUSED = b'HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 4\r\n\r\n"no"'
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n" + OK


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("text", "status", "body", "keep_alive"),
    [
        (OK, 200, b"", True),
        (CHUNKED, 200, b"", True),
        (CONTINUED, 200, b"", True),
        (REFUSED, 503, b'"no"', False),
    ],
)
def test_answer_is_complete_with_its_last_byte(
    text: bytes, status: int, body: bytes, keep_alive: bool, size: int
) -> None:
    answers = Answers()
    for _ in range(2 if keep_alive else 1):
        answers.expect()
        for start in range(0, len(text), size):
            assert not answers.complete
            answers.feed(text[start : start + size])
        assert answers.complete
        assert (answers.status, answers.body, answers.keep_alive) == (status, body, keep_alive)


def test_only_the_beginning_of_a_refusal_is_kept() -> None:
    answers = Answers()
    answers.expect()
    answers.feed(b"HTTP/1.1 500 Oops\r\nContent-Length: 100000\r\n\r\n")
    for _ in range(100):
        answers.feed(b"x" * 1000)
    assert answers.complete
    assert answers.body == b"x" * 500


@pytest.mark.parametrize("text", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 two OK\r\n\r\n"])
def test_what_is_no_http_is_refused(text: bytes) -> None:
    answers = Answers()
    answers.expect()
    with pytest.raises(ValueError, match="the answer is no HTTP"):
        answers.feed(text)


def test_answer_without_a_request_is_refused() -> None:
    answers = Answers()
    with pytest.raises(ValueError, match="nothing asked for"):
        answers.feed(OK)
    answers = Answers()
    answers.expect()
    with pytest.raises(ValueError, match="the answer is no HTTP"):
        answers.feed(OK + OK)
