"""Bearer tokens: who passes, and what a file of them may hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import SpecError
from headrace.server.auth import TokenGuard, parse_tokens
from headrace.server.head import HeadCache, parse_head
from headrace.server.limits import HttpLimits
from headrace.server.refusal import RequestRefused

LIMITS = HttpLimits()


def head(*lines: str, method: str = "GET", target: str = "/v1/models/m") -> bytes:
    return "\r\n".join((f"{method} {target} HTTP/1.1", "Host: h", *lines, "", "")).encode()


def guard(directory: Path, tokens: str = "first\nsecond\n") -> TokenGuard:
    file = directory / "tokens"
    file.write_text(tokens)
    return TokenGuard(file, open_paths=(b"/healthz",))


def refusal(guard: TokenGuard, raw: bytes) -> RequestRefused | None:
    try:
        guard.check(parse_head(raw, LIMITS))
    except RequestRefused as refused:
        return refused
    return None


@pytest.mark.parametrize(
    "line",
    [
        "Authorization: Bearer first",
        "Authorization: Bearer second",
        "authorization: bearer  first ",
    ],
)
def test_known_token_passes(tmp_path: Path, line: str) -> None:
    assert refusal(guard(tmp_path), head(line)) is None


@pytest.mark.parametrize(
    ("lines", "challenge"),
    [
        ([], b"Bearer"),
        (["Authorization: Bearer wrong"], b'Bearer error="invalid_token"'),
        (["Authorization: Bearer firs"], b'Bearer error="invalid_token"'),
        (["Authorization: Bearer first,second"], b'Bearer error="invalid_token"'),
        (["Authorization: Bearer"], b'Bearer error="invalid_token"'),
        (["Authorization:"], b'Bearer error="invalid_token"'),
        (["Authorization: Basic first"], b'Bearer error="invalid_token"'),
        (["Authorization: first"], b'Bearer error="invalid_token"'),
        (["Authorization: Bearer first"] * 2, b'Bearer error="invalid_token"'),
        (["X-Authorization: Bearer first"], b"Bearer"),
    ],
)
def test_everybody_else_is_refused(tmp_path: Path, lines: list[str], challenge: bytes) -> None:
    refused = refusal(guard(tmp_path), head(*lines))
    assert refused is not None
    assert refused.status == 401
    assert refused.headers == ((b"WWW-Authenticate", challenge),)
    assert refused.body.startswith(b'{\n    "error": "')


@pytest.mark.parametrize(
    ("target", "method", "is_open"),
    [
        ("/healthz", "GET", True),
        ("/healthz?verbose", "HEAD", True),
        ("/healthz/", "GET", False),
        ("/Healthz", "GET", False),
        ("//healthz", "GET", False),
        ("/v1/models/m?/healthz", "GET", False),
        ("/v1/models/m#/healthz", "GET", False),
        ("http://h/healthz", "GET", True),
        ("/v1/models/m", "OPTIONS", True),
    ],
)
def test_open_paths_and_preflights_need_no_token(
    tmp_path: Path, target: str, method: str, is_open: bool
) -> None:
    refused = refusal(guard(tmp_path), head(target=target, method=method))
    assert (refused is None) is is_open


def test_heads_are_judged_before_they_are_remembered(tmp_path: Path) -> None:
    tokens = guard(tmp_path)
    cache = HeadCache(LIMITS, tokens.check)
    good, bad = head("Authorization: Bearer first"), head("Authorization: Bearer wrong")
    assert cache[good] is cache[good]
    for _ in range(2):
        with pytest.raises(RequestRefused):
            cache[bad]


def test_reload_takes_the_new_tokens_or_keeps_the_old(tmp_path: Path) -> None:
    tokens = guard(tmp_path)
    (tmp_path / "tokens").write_text("third\n")
    tokens.reload()
    assert refusal(tokens, head("Authorization: Bearer third")) is None
    assert refusal(tokens, head("Authorization: Bearer first")) is not None
    (tmp_path / "tokens").write_text("# none\n")
    with pytest.raises(SpecError, match="tokens: there is none"):
        tokens.reload()
    (tmp_path / "tokens").unlink()
    with pytest.raises(SpecError, match="tokens: No such file"):
        tokens.reload()
    assert refusal(tokens, head("Authorization: Bearer third")) is None


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (b"a", (b"a",)),
        (b"# comment\n\n  a  \r\n\tb\n", (b"a", b"b")),
        (b"\xef\xbb\xbfa\n", (b"a",)),
        (b"AZaz09-._~+/==\n", (b"AZaz09-._~+/==",)),
    ],
)
def test_files_of_tokens(text: bytes, tokens: tuple[bytes, ...]) -> None:
    assert parse_tokens(text) == tokens


@pytest.mark.parametrize(
    "line", [b"a b", b"a # comment", "schlüssel".encode(), b"Bearer: x", b"\0"]
)
def test_line_that_is_no_token_is_told_by_its_number_alone(line: bytes) -> None:
    with pytest.raises(SpecError, match="line 2 is no token") as raised:
        parse_tokens(b"good\n" + line + b"\n")
    assert line.decode(errors="replace") not in str(raised.value)
