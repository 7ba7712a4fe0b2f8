"""Chunked and compressed bodies: content, ceilings, corruption, and what they may hold."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import zlib

import pytest
import zstandard
from http_wire import Wire

from headrace.server.limits import HttpLimits
from headrace.server.messages import Exchange

CONTENT = b'{"instances": [1.0, 2.0, 5.0]}' * 50
ZSTD_FRAMES = zstandard.compress(CONTENT[:900]) + zstandard.compress(CONTENT[900:])
HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\n%bTransfer-Encoding: chunked\r\n\r\n"


def bare_deflate(content: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(content) + compressor.flush()


def sized(coding: bytes, body: bytes) -> bytes:
    return HEAD % (coding, len(body)) + body


def chunked(body: bytes, size: int, headers: bytes = b"") -> bytes:
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    return (
        CHUNKED % headers + b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"
    )


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


def refusal(wire: Wire) -> tuple[int, str]:
    assert not wire.seen
    assert wire.state.budget.used == 0
    (answer,) = wire.answers
    return answer.status, json.loads(answer.body)["error"]


@pytest.mark.parametrize("coding", [b"gzip", b"GZIP", b"x-gzip", b"identity, gzip"])
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_gzip_body_is_inflated(coding: bytes, step: int) -> None:
    wire = Wire()
    wire.send(*cut(sized(coding, gzip.compress(CONTENT)) * 2, step))
    assert [seen.body for seen in wire.seen] == [CONTENT, CONTENT]


@pytest.mark.parametrize("step", [1, 7, 100_000])
@pytest.mark.parametrize("body", [zstandard.compress(CONTENT), ZSTD_FRAMES])
def test_zstd_body_of_one_frame_or_more_is_inflated(body: bytes, step: int) -> None:
    wire = Wire()
    wire.send(*cut(sized(b"zstd", body) * 2, step))
    assert [seen.body for seen in wire.seen] == [CONTENT, CONTENT]


def test_zstd_bomb_is_refused_long_before_the_ceiling() -> None:
    wire = Wire()
    wire.send(sized(b"zstd", zstandard.compress(bytes(60 << 20))))
    assert refusal(wire)[0] == 413


def test_zstd_frame_that_asks_for_a_huge_window_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    frame = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    wire = Wire()
    wire.send(sized(b"zstd", frame.compress(CONTENT) + frame.flush()))
    assert refusal(wire)[0] == 400


def test_zstd_is_unknown_where_it_is_not_installed() -> None:
    code = (
        "import sys; sys.modules['zstandard'] = None; from headrace.server import head; "
        "print(sorted(head._CODINGS), head._KNOWN_CODINGS)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[b'deflate', b'gzip', b'x-gzip'] gzip, deflate\n"


@pytest.mark.parametrize("step", [1, 100_000])
@pytest.mark.parametrize("body", [zlib.compress(CONTENT), bare_deflate(CONTENT)])
def test_deflate_body_is_inflated_with_and_without_zlib_header(body: bytes, step: int) -> None:
    wire = Wire()
    wire.send(*cut(sized(b"deflate", body), step))
    assert wire.seen[0].body == CONTENT


def test_gzip_body_of_several_members_is_inflated() -> None:
    body = gzip.compress(CONTENT) + gzip.compress(b"!") + gzip.compress(b"")
    for step in (1, 100_000):
        wire = Wire()
        wire.send(*cut(sized(b"gzip", body), step))
        assert wire.seen[0].body == CONTENT + b"!"


def test_gzip_body_in_chunks_is_inflated() -> None:
    wire = Wire()
    wire.send(chunked(gzip.compress(CONTENT), 10, b"Content-Encoding: gzip\r\n"))
    assert wire.seen[0].body == CONTENT


@pytest.mark.parametrize("coding", [b"gzip", b"deflate"])
def test_empty_body_needs_no_stream(coding: bytes) -> None:
    wire = Wire()
    wire.send(sized(coding, b""), CHUNKED % (b"Content-Encoding: %b\r\n" % coding) + b"0\r\n\r\n")
    assert [seen.body for seen in wire.seen] == [b"", b""]


def test_decoded_body_has_slack_after_its_end() -> None:
    wire = Wire(handler=lambda exchange: None)
    wire.send(sized(b"gzip", gzip.compress(CONTENT)), chunked(CONTENT, 100))
    for exchange in wire.exchanges:
        body = exchange.request.body
        assert isinstance(body, memoryview)
        assert exchange.request.slack == 64
        assert memoryview(body.obj).nbytes == len(body) + 64  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("coding", "body", "word"),
    [
        (b"gzip", CONTENT, "corrupt"),
        (b"gzip", gzip.compress(CONTENT)[:-1], "truncated"),
        (b"gzip", b"\x1f", "truncated"),
        (b"gzip", gzip.compress(CONTENT) + b"junk", "corrupt"),
        (b"gzip", gzip.compress(CONTENT)[:-8] + bytes(8), "corrupt"),
        (b"deflate", zlib.compress(CONTENT)[:-4] + bytes(4), "corrupt"),
        (b"deflate", zlib.compress(CONTENT)[:20], "truncated"),
        (b"deflate", zlib.compress(CONTENT) + b"x", "follow"),
        (b"zstd", CONTENT, "corrupt"),
        (b"zstd", zstandard.compress(CONTENT)[:-1], "truncated"),
        (b"zstd", zstandard.compress(CONTENT) + b"junk", "corrupt"),
    ],
)
@pytest.mark.parametrize("step", [1, 100_000])
def test_broken_stream_is_refused_with_what_is_wrong(
    coding: bytes, body: bytes, word: str, step: int
) -> None:
    wire = Wire()
    wire.send(*cut(sized(coding, body), step))
    status, message = refusal(wire)
    assert status == 400
    assert word in message
    assert coding.decode() in message


def test_unknown_coding_is_refused_with_those_known() -> None:
    wire = Wire()
    wire.send(sized(b"lzma", b"x"))
    assert refusal(wire)[0] == 415
    assert wire.answers[0].headers[b"Accept-Encoding"] == b"gzip, deflate, zstd"


def test_coding_of_a_request_without_body_is_ignored() -> None:
    wire = Wire()
    wire.send(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Encoding: lzma\r\n\r\n")
    assert wire.statuses == [200]


def test_inflated_size_has_the_ceiling_of_any_body() -> None:
    wire = Wire(HttpLimits(max_body_bytes=1 << 20))
    wire.send(sized(b"gzip", gzip.compress(bytes((1 << 20) + 1))))
    assert refusal(wire)[0] == 413
    wire = Wire(HttpLimits(max_body_bytes=1 << 20))
    wire.send(sized(b"gzip", gzip.compress(bytes(1 << 20))))
    assert wire.statuses == [200]


def test_ratio_is_bounded_above_a_free_size() -> None:
    limits = HttpLimits(free_inflation_bytes=1 << 20, max_inflation_ratio=100)
    for size, status in ((1 << 20, 200), (1 << 22, 413)):
        wire = Wire(limits)
        wire.send(sized(b"gzip", gzip.compress(bytes(size))))
        assert wire.statuses == [status]
    content = random.Random(0).randbytes(1 << 22)
    wire = Wire(limits)
    wire.send(sized(b"gzip", gzip.compress(content, 1)))
    assert wire.seen[0].body == content


def test_inflated_bytes_of_all_requests_are_bounded() -> None:
    held: list[Exchange] = []
    wire = Wire(HttpLimits(max_total_body_bytes=3 << 20), handler=held.append)
    bomb = sized(b"gzip", gzip.compress(bytes(2 << 20)))
    wire.send(bomb)
    assert wire.state.budget.used == 2 << 20
    wire.send(bomb)
    assert len(held) == 1
    held[0].respond(200, b"")
    wire.settle()
    assert wire.statuses == [200, 503]
    assert wire.state.budget.used == 0


def test_bomb_yields_to_other_connections_while_it_inflates() -> None:
    wire = Wire(HttpLimits(max_inflation_ratio=2000))
    bomb = sized(b"gzip", gzip.compress(bytes(60 << 20)))
    pauses = 0
    pause = wire.transport.pause_reading

    def counting_pause() -> None:
        nonlocal pauses
        pauses += 1
        pause()

    wire.transport.pause_reading = counting_pause  # type: ignore[method-assign]
    wire.send(bomb)
    assert pauses >= 5
    assert wire.seen[0].body == bytes(60 << 20)


def test_bomb_is_refused_long_before_the_ceiling() -> None:
    wire = Wire()
    wire.send(sized(b"gzip", gzip.compress(bytes(60 << 20))))
    assert refusal(wire)[0] == 413
    assert "200 times" in refusal(wire)[1]


def test_client_that_goes_in_a_compressed_body_leaves_nothing() -> None:
    wire = Wire()
    wire.send(sized(b"gzip", gzip.compress(bytes(1 << 20)))[:-3])
    assert wire.state.budget.used == 1 << 20
    wire.end_of_input()
    assert wire.state.budget.used == 0


def test_chunked_body_is_charged_as_it_grows() -> None:
    wire = Wire(HttpLimits(max_total_body_bytes=1000))
    wire.send(chunked(b"x" * 900, 100)[:-5])
    assert wire.state.budget.used == 900
    wire.send(b"65\r\n" + b"x" * 101 + b"\r\n0\r\n\r\n")
    assert refusal(wire)[0] == 503


def test_chunks_of_one_byte_are_taken() -> None:
    wire = Wire()
    content = bytes(range(256)) * 300
    wire.send(chunked(content, 1))
    assert wire.seen[0].body == content


@pytest.mark.parametrize(
    "endless",
    [b"1;" + b"x" * 1000 + b"\r\nx\r\n", b"0\r\n" + b"X: " + b"y" * 200_000 + b"\r\n"],
    ids=["extensions", "trailers"],
)
def test_framing_without_end_is_refused(endless: bytes) -> None:
    wire = Wire()
    wire.send(CHUNKED % b"" + endless * (1 if endless.startswith(b"0") else 1000))
    assert refusal(wire)[0] == 431


# --- compressed answers -------------------------------------------------------------------------

ASKING = b"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: %b\r\n\r\n"


@pytest.mark.parametrize("size", [40_000, 400_000])
@pytest.mark.parametrize("asked", [b"gzip", b"GZIP;q=0.5", b"br, gzip", b"*"])
def test_large_answer_is_compressed_for_who_asks(size: int, asked: bytes) -> None:
    body = b"0.5, " * (size // 5)
    wire = Wire(handler=lambda exchange: exchange.respond(200, body))
    wire.send(ASKING % asked)
    (answer,) = wire.answers
    assert gzip.decompress(answer.body) == body
    assert answer.headers[b"Content-Encoding"] == b"gzip"
    assert answer.headers[b"Vary"] == b"Accept-Encoding"
    assert wire.loop.threads == (1 if size > 65536 else 0)


@pytest.mark.parametrize("asked", [b"br", b"gzip;q=0", b"gzip; q=0.0, br", b"identity"])
def test_answer_is_not_compressed_for_who_does_not_ask(asked: bytes) -> None:
    body = b"0" * 400_000
    wire = Wire(handler=lambda exchange: exchange.respond(200, body))
    wire.send(ASKING % asked)
    assert wire.answers[0].body == body


def test_small_or_coded_answer_is_not_compressed() -> None:
    body = b"0" * 40_000
    wire = Wire(handler=lambda exchange: exchange.respond(200, body[:1000]))
    wire.send(ASKING % b"gzip")
    assert wire.answers[0].body == body[:1000]
    wire = Wire(
        handler=lambda exchange: exchange.respond(200, body, headers=[(b"Content-Encoding", b"br")])
    )
    wire.send(ASKING % b"gzip")
    assert wire.answers[0].body == body


def test_compressed_answer_keeps_its_place_and_is_dropped_if_the_client_goes() -> None:
    body = b"0" * 400_000
    wire = Wire(handler=lambda exchange: exchange.respond(200, body))
    wire.send(ASKING % b"gzip" + b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert gzip.decompress(wire.answers[0].body) == body
    assert wire.answers[1].body == body
    data = ASKING % b"gzip"
    wire.connection.get_buffer(-1)[: len(data)] = data
    wire.connection.buffer_updated(len(data))
    wire.connection.connection_lost(None)
    wire.loop.run()
    assert len(wire.answers) == 2
