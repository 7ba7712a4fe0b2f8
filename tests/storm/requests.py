"""Requests of every kind, right ones and near misses, out of a seeded generator."""

from __future__ import annotations

import base64
import gzip
import json
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Conversation", "conversation"]

MODELS = "/v1/models/"
PLACES = ("", "/versions/1", "/labels/stable", "/versions/7", "/labels/none")
PAGES = (
    *(f"{MODELS}{model}{place}{end}"
      for model in ("numbers", "texts", "pairs", "examples", "nobody")
      for place in PLACES
      for end in ("", "/metadata")),
    "/v1/models", "/metrics", "/monitoring/prometheus/metrics", "/healthz", "/readyz", "/",
)  # fmt: skip
QUERIES = ("pretty=true", "non_finite=string", "non_finite=maybe", "int64=string", "outputs=y",
           "outputs=nothing", "a=b&&=%", "x" * 3000)  # fmt: skip
FIELDS = (
    b"Accept-Encoding: gzip", b"Accept: application/x-npy", b"Accept: application/octet-stream",
    b"Content-Type: application/json", b"Content-Type: application/x-npy", b"Expect: 100-continue",
    b"Content-Type: application/octet-stream\r\nX-Tensor-Shape: 2",
    b"X-Tensor-Shape: -1,99999999999",
    b"Origin: https://a.example", b"Authorization: Bearer x", b"Connection: keep-alive",
    b"X-Headrace-Pretty: true", b"X-Headrace-Non-Finite: \xff", b"User-Agent: " + b"u" * 2000,
)  # fmt: skip
BROKEN_FIELDS = (
    b"Content-Length: 5", b"Content-Length: x", b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip", b"Host: b", b"no colon", b"A: \x00", b" folded: x",
)  # fmt: skip
METHODS = (b"GET", b"POST", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"PATCH", b"TRACE", b"BREW")
# What JSON readers stumble over.
PIECES = (
    b"NaN", b"-Infinity", b"Inf", b"nan", b"1e999", b"-0", b"1e-999", b"0.1" * 9, b"9" * 400,
    b"18446744073709551616", b"null", b"true", b"{}", b"[]", b"[" * 300, b"{" * 300, b'{"a":' * 90,
    b'{"b64":"AA"}', b'{"b64":"!"}', b'{"b64":1}', b'"\\ud800"', b'"\\u0000"', b'"\xff\xfe"',
    b"\x00", b"\xef\xbb\xbf", b'"', b"\\", b",", b":", b"]", b"}", b" ", b"\n", b"//",
    b'"instances":[1],', b'"inputs":1,', b'"signature_name":"none",', b'"x":1,', b'"_\\/":[],',
)  # fmt: skip


@dataclass(frozen=True)
class Conversation:
    """What one connection sends.

    Attributes:
        pieces: Bytes, as they are written one after another.
        methods: Of its requests in turn, where the messages' borders are certain.
        framed: Whether they are, and each is whole: then every one is owed an answer, unless one
            before it ends the connection.
    """

    pieces: list[bytes]
    methods: list[bytes]
    framed: bool


def conversation(random: random.Random) -> Conversation:
    """The next one."""
    if random.random() < 0.05:
        return Conversation(_cut(random, random.randbytes(random.randrange(2000))), [], False)
    count = random.choice((1, 1, 2, 4))
    requests = [_request(random) for _ in range(count)]
    framed = all(request[2] for request in requests)
    last = b"GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    sent = b"".join(request[0] for request in requests) + last
    methods = [*(request[1] for request in requests), b"GET"] if framed else []
    if random.random() < 0.05:  # the client goes away
        return Conversation(_cut(random, sent[: random.randrange(len(sent))]), methods, False)
    return Conversation(_cut(random, sent), methods, framed)


def _cut(random: random.Random, sent: bytes) -> list[bytes]:
    if random.random() < 0.7:
        return [sent]
    borders = sorted(random.randrange(len(sent) + 1) for _ in range(random.randrange(1, 5)))
    return [sent[a:b] for a, b in zip([0, *borders], [*borders, len(sent)], strict=True)]


def _request(random: random.Random) -> tuple[bytes, bytes, bool]:
    """A request, its method, and whether its borders are certain."""
    verb = random.choice(("predict", "predict", "predict", "classify", "regress", ""))
    if verb:
        model = random.choice(_BODIES[verb])
        method, body = b"POST", _body(random, verb, model)
        target = f"{MODELS}{model}{random.choice(PLACES) if random.random() < 0.3 else ''}:{verb}"
    else:
        method, body, target = b"GET", b"", random.choice(PAGES)
    if random.random() < 0.1:
        method = random.choice(METHODS)
    if random.random() < 0.2:
        target += "?" + random.choice(QUERIES)
    if random.random() < 0.1:
        target = _mutate_target(random, target)
    fields = random.sample(FIELDS, random.choice((0, 0, 1, 2)))
    framed = True
    if random.random() < 0.05:
        fields.append(random.choice(BROKEN_FIELDS))
        framed = False
    if body and random.random() < 0.2:
        body, coding = _compress(random, body)
        fields.append(coding)
    framing, sent = _frame(random, body)
    head = b"%s %s HTTP/1.%s\r\nHost: h\r\n" % (
        method, target.encode("utf-8", "surrogateescape"), random.choice((b"1", b"1", b"1", b"0"))
    )  # fmt: skip
    head += b"".join(field + b"\r\n" for field in fields) + framing + b"\r\n"
    if random.random() < 0.03:
        return _mutate(random, head) + sent, method, False
    if random.random() < 0.03:
        return head + _mutate(random, sent), method, False
    return head + sent, method, framed


def _body(random: random.Random, verb: str, model: str) -> bytes:
    if verb == "predict":
        rows = random.choice((1, 1, 2, 5, 300, 3000 if random.random() < 0.1 else 3))
        values = [_VALUES[model](random) for _ in range(rows)]
        if random.random() < 0.3:
            whole = values
            if model == "pairs":
                whole = {key: [value[key] for value in values] for key in ("a", "b")}  # type: ignore[index, assignment]
            body: dict[str, object] = {"inputs": whole}
        else:
            body = {"instances": values}
    else:
        body = {"examples": [{"x": random.random(), "t": ["a"] * random.randrange(3)}]}
        if random.random() < 0.3:
            body["context"] = {"x": random.randrange(9)}
    text = json.dumps(body, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")
    return text if random.random() < 0.4 else _mutate(random, text)


_BODIES = {
    "predict": ("numbers", "texts", "pairs", "examples", "nobody"),
    "classify": ("examples", "numbers"),
    "regress": ("examples", "texts", "nobody"),
}


def _text(random: random.Random) -> object:
    if random.random() < 0.2:
        return {"b64": base64.b64encode(random.randbytes(random.randrange(40))).decode()}
    return "".join(chr(random.choice((97, 233, 8364, 128512, 34, 92, 10))) for _ in range(9))


_VALUES: dict[str, Callable[[random.Random], object]] = {
    "numbers": lambda random: random.choice((1, 2.5, -1e30, 1e39, float("nan"), float("-inf"))),
    "texts": _text,
    "pairs": lambda random: {"a": [random.random()] * 3, "b": random.randrange(1 << 62)},
    "examples": lambda random: {"b64": base64.b64encode(random.randbytes(20)).decode()},
    "nobody": lambda random: random.random(),
}


def _mutate(random: random.Random, text: bytes) -> bytes:
    changed = bytearray(text)
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(len(changed) + 1)
        match random.randrange(5):
            case 0:
                changed[at:at] = random.choice(PIECES)
            case 1:
                changed[at : at + random.randrange(1, 9)] = b""
            case 2:
                changed[at : at + 1] = random.randbytes(1)
            case 3:
                changed[at:at] = changed[random.randrange(len(changed) + 1) :][
                    : random.randrange(50)
                ]
            case 4:
                changed[at : at + 6] = random.choice(PIECES)
    return bytes(changed)


def _mutate_target(random: random.Random, target: str) -> str:
    at = random.randrange(1, len(target) + 1)
    piece = random.choice(
        ("%", "%zz", "%00", "%2F", "%ff", ":", "/", "?", "#", "\udcff", "é", "*", "v")
    )
    return target[:at] + piece + target[at + random.randrange(3) :]


def _compress(random: random.Random, body: bytes) -> tuple[bytes, bytes]:
    kind = random.choice((b"gzip", b"deflate", b"gzip", b"br"))
    packed = zlib.compress(body) if kind == b"deflate" else gzip.compress(body, 1)
    if random.random() < 0.3:
        packed = _mutate(random, packed)
    if random.random() < 0.02:
        packed = gzip.compress(bytes(80 << 20), 1)  # a bomb: beyond the limit of a body
    return packed, b"Content-Encoding: " + kind


def _frame(random: random.Random, body: bytes) -> tuple[bytes, bytes]:
    """The header that says how long the body is, and the body as it is sent."""
    if random.random() < 0.8:
        return b"Content-Length: %d\r\n" % len(body), body
    sent, rest = b"", body
    while rest:
        size = random.randrange(1, max(2, len(rest)))
        sent += b"%x\r\n%s\r\n" % (size, rest[:size])
        rest = rest[size:]
    return b"Transfer-Encoding: chunked\r\n", sent + b"0\r\n\r\n"
