"""The head of a request: request line and headers, parsed once.

Framing (where does this request end?) is where request smuggling lives, so it has one owner. A head
ends at the first empty line, which is looked for here; llhttp then validates exactly these bytes in
its strict mode, and whatever it refuses is refused. It rejects a bare LF, folded headers, blanks
before a colon, control bytes, a Content-Length that is repeated, signed, hexadecimal or beside
Transfer-Encoding. What RFC 9112 demands beyond that is checked in ``parse_head``.

Parsing is a pure function of the bytes, and a client on a kept connection sends the same head again
and again. ``HeadCache`` therefore remembers heads: identical bytes give the identical `Head`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import httptools

from headrace.server.limits import HttpLimits
from headrace.server.refusal import RequestRefused
from headrace.server.zstd import ZSTD

if TYPE_CHECKING:
    from headrace.serving.metrics import RequestMeter

__all__ = ["CHUNKED", "HEAD_END", "Head", "HeadCache", "PartialHead", "parse_head"]

HEAD_END: Final = b"\r\n\r\n"
CHUNKED: Final = -1

# Larger heads and more of them are parsed each time: together at most a few megabytes are kept.
_CACHED_HEAD_BYTES: Final = 1024
_CACHED_HEADS: Final = 1024
# Request lines repeat even where each request carries an id of its own in its headers.
_CACHED_LINES: Final = 256

# The methods that reach TensorFlow Serving's handler; others are answered 501 (spec section 1).
_METHODS: Final = frozenset((b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH"))
_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VERSIONS: Final = {b"HTTP/1.1": (1, 1), b"HTTP/1.0": (1, 0)}
_VERSION: Final = re.compile(rb"HTTP/[0-9]\.[0-9]")
_BAD_PERCENT: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_ABSOLUTE: Final = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)
_FRAMING: Final = re.compile(
    rb"\r\n(content-length|transfer-encoding|connection|expect|content-encoding|accept-encoding"
    rb"|host):[ \t]*([^\r]*)"
)
_CODINGS: Final = {b"gzip": "gzip", b"x-gzip": "gzip", b"deflate": "deflate"}
if ZSTD:
    _CODINGS[b"zstd"] = "zstd"
_KNOWN_CODINGS: Final = "gzip, deflate, zstd" if ZSTD else "gzip, deflate"


class Head:
    """Request line and headers. Shared between requests: not changed after ``parse_head``.

    Attributes:
        method: Such as ``b"POST"``.
        target: Path, query and fragment, not percent-decoded; ``b"*"`` of ``OPTIONS *``.
        http_version: ``(1, 1)`` or ``(1, 0)``.
        keep_alive: Whether the client wants the connection kept.
        content_length: Bytes of the body as sent, or ``CHUNKED``.
        coding: Content coding of the body: None, ``gzip`` or ``deflate``.
        plain_length: ``content_length`` of a body that is neither chunked nor coded, else more than
            any buffer holds. One comparison finds out whether a body is complete as it stands.
        expects_continue: The client waits for ``100 Continue`` before it sends the body.
        accepts_gzip: Whether the answer may be compressed.
        is_head: Method HEAD: the answer has no body.
        raw: All of it, as sent.
        plain: A kept HTTP/1.1 connection and not HEAD: the answer needs no Connection header.
        handler: The application's: what it does with this head, once it has found out. A client
            that repeats its head is routed once.
        meter: Likewise: who counts the answers; None for requests that are not counted.
        route_generation: Likewise: of the fast path's routes when one was learnt for this head; 0:
            it has come once, -1: not yet. These three are what changes.
    """

    __slots__ = (
        "_fields",
        "accepts_gzip",
        "coding",
        "content_length",
        "expects_continue",
        "handler",
        "http_version",
        "is_head",
        "keep_alive",
        "meter",
        "method",
        "plain",
        "plain_length",
        "raw",
        "route_generation",
        "target",
    )

    def __init__(self, raw: bytes, method: bytes, target: bytes, version: tuple[int, int]) -> None:
        self.raw = raw
        self._fields: list[tuple[bytes, bytes]] | None = None
        self.method = method
        self.target = target
        self.http_version = version
        self.is_head = method == b"HEAD"
        self.keep_alive = False
        self.content_length = 0
        self.coding: str | None = None
        self.expects_continue = False
        self.accepts_gzip = False
        self.plain = False
        self.plain_length = 0
        self.handler: Callable[..., None] | None = None
        self.meter: RequestMeter | None = None
        self.route_generation = -1

    @property
    def is_cached(self) -> bool:
        """Whether `HeadCache` keeps heads of this size."""
        return len(self.raw) <= _CACHED_HEAD_BYTES

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Name (lower case) and value of each header line, in order. Split when first asked for."""
        if self._fields is None:
            lines = self.raw[:-4].split(b"\r\n")[1:]
            pairs = (line.partition(b":") for line in lines)
            self._fields = [(name.lower(), value.strip(b" \t")) for name, _, value in pairs]
        return self._fields


class HeadCache(dict[bytes, Head]):
    """Raw bytes of a head to the head: ``cache[raw]`` parses what it does not know.

    When full it starts afresh, which costs one parse per head that is still in use.

    Raises:
        RequestRefused: As ``parse_head`` and ``admit`` do. Refusals are not kept.
    """

    __slots__ = ("_admit", "_limits")

    def __init__(self, limits: HttpLimits, admit: Callable[[Head], None] | None = None) -> None:
        super().__init__()
        self._limits = limits
        self._admit = admit

    def __missing__(self, raw: bytes) -> Head:
        try:
            head = parse_head(raw, self._limits)
            if self._admit is not None:
                self._admit(head)
        except RequestRefused as refusal:
            refusal.to_head = raw.lstrip(b"\r\n").startswith(b"HEAD ")
            raise
        if len(raw) <= _CACHED_HEAD_BYTES:
            if len(self) >= _CACHED_HEADS:
                self.clear()
            self[raw] = head
        return head


class _HeadersComplete:
    """Notes that llhttp has seen the end of the headers."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def on_headers_complete(self) -> None:
        self.count += 1


def parse_head(raw: bytes, limits: HttpLimits) -> Head:
    """The head that these bytes are, up to and including the empty line.

    Empty lines before the request line are skipped (RFC 9112 section 2.2).

    Raises:
        RequestRefused: 400, 413, 414, 415, 417, 431, 501 or 505, with the reason.

    Spec: RFC 9112 sections 2 to 7; RFC 9110 sections 7.2, 10.1.1; TensorFlow Serving REST, 3 and 4.
    """
    raw = raw.lstrip(b"\r\n")
    line, end_of_line, _ = raw.partition(b"\r\n")
    if not end_of_line:
        raise _bad("there is no request line")
    if len(line) > limits.max_request_line_bytes:
        raise _request_line_too_long(limits)
    method, target, version = _request_line(line)
    if len(raw) > limits.max_header_bytes:
        raise _too_many_header_bytes(limits)
    lines = raw.count(b"\r\n")
    if lines != raw.count(b"\n"):
        raise _bad("a line of the head ends without CR")
    _validate(raw)
    if lines - 2 > limits.max_headers:
        raise RequestRefused(431, f"more than {limits.max_headers} request headers")
    head = Head(raw, method, target, version)
    fields = _FRAMING.findall(raw.lower())
    values: dict[bytes, bytes] = dict(fields)
    if len(values) < len(fields):
        values = _join_repeated(fields)
    _read_framing(head, values, limits)
    return head


@lru_cache(maxsize=_CACHED_LINES)
def _request_line(line: bytes) -> tuple[bytes, bytes, tuple[int, int]]:
    parts = line.split(b" ")
    method = parts[0]
    if method not in _METHODS and not _TOKEN.fullmatch(method):
        raise _bad("the request line does not begin with a method")
    if len(parts) != 3:
        raise _bad("a request line is a method, a target and a version, one blank between each")
    _, target, version = parts
    number = _VERSIONS.get(version)
    if number is None:
        if not _VERSION.fullmatch(version):
            raise _bad("the request line does not end with an HTTP version")
        raise RequestRefused(505, "HTTP/1.1 and HTTP/1.0 are spoken here", html=True)
    if method not in _METHODS:
        raise RequestRefused(501, "this method is not implemented", html=True)
    return method, _origin_form(method, target), number


def _origin_form(method: bytes, target: bytes) -> bytes:
    """Path and what follows it, of the forms a server must understand (RFC 9112 section 3.2)."""
    if b"%" in target and _BAD_PERCENT.search(target):
        raise _bad("a % in the request target is not followed by two hexadecimal digits")
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return target
    authority = _ABSOLUTE.match(target)
    if authority is None:
        raise _bad("the request target is neither a path nor an absolute URI")
    rest = target[authority.end() :]
    return rest if rest.startswith(b"/") else b"/" + rest


def _validate(raw: bytes) -> None:
    """Let llhttp judge the bytes of a whole head.

    The parser is made anew each time: it knows a body is to follow and cannot be told otherwise.
    """
    complete = _HeadersComplete()
    try:
        httptools.HttpRequestParser(complete).feed_data(raw)
    except httptools.HttpParserUpgrade:
        # An offer to change protocols (h2c by Java's client, for one) may be ignored and is:
        # RFC 9110 section 7.8. The exception only says that llhttp would stop here.
        pass
    except httptools.HttpParserError as error:
        raise _bad(str(error)) from None
    if complete.count != 1:
        raise _bad("the head does not end at its empty line")


def _join_repeated(fields: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Values of a header that comes more than once are one list (RFC 9110 section 5.3)."""
    values: dict[bytes, bytes] = {}
    for name, value in fields:
        if name == b"host" and name in values:
            raise _no_host()
        values[name] = values[name] + b"," + value if name in values else value
    return values


def _read_framing(head: Head, values: dict[bytes, bytes], limits: HttpLimits) -> None:
    """What the headers say about framing and connection; names and values in lower case."""
    http_1_1 = head.http_version == (1, 1)
    if http_1_1 and b"host" not in values:
        raise _no_host()
    length = 0
    if b"content-length" in values:
        length = int(values[b"content-length"])
        if length > limits.max_body_bytes:
            raise body_too_large(limits, length)
    elif b"transfer-encoding" in values:
        _read_transfer_coding(values[b"transfer-encoding"], http_1_1)
        length = CHUNKED
    keep_alive = http_1_1
    if b"connection" in values:
        options = _tokens(values[b"connection"])
        keep_alive = b"close" not in options and (http_1_1 or b"keep-alive" in options)
    if b"expect" in values:
        if values[b"expect"].rstrip(b" \t") != b"100-continue":
            raise RequestRefused(417, "the only expectation known is 100-continue", html=True)
        head.expects_continue = length != 0 and http_1_1
    if b"content-encoding" in values and length != 0:
        head.coding = _content_coding(_tokens(values[b"content-encoding"]))
    if b"accept-encoding" in values:
        head.accepts_gzip = _accepts_gzip(_tokens(values[b"accept-encoding"]))
    head.content_length = length
    head.keep_alive = keep_alive
    head.plain = keep_alive and http_1_1 and not head.is_head
    head.plain_length = length if length >= 0 and head.coding is None else sys.maxsize


def _read_transfer_coding(value: bytes, http_1_1: bool) -> None:
    if not http_1_1:
        raise _bad("Transfer-Encoding in an HTTP/1.0 request (RFC 9112 section 6.1)")
    if value.rstrip(b" \t") != b"chunked":
        raise RequestRefused(501, "the only transfer coding known is chunked", html=True)


def _no_host() -> RequestRefused:
    return _bad("a request has exactly one Host header (RFC 9112 section 3.2)")


def _tokens(value: bytes) -> list[bytes]:
    return [token for item in value.split(b",") if (token := item.strip(b" \t"))]


def _content_coding(tokens: list[bytes]) -> str | None:
    codings = [token for token in tokens if token != b"identity"]
    if not codings:
        return None
    if len(codings) > 1 or codings[0] not in _CODINGS:
        named = b", ".join(codings)[:256].decode("ascii", "replace")
        raise RequestRefused(
            415,
            f"Content-Encoding {named!r} is not known; these are: {_KNOWN_CODINGS}",
            headers=((b"Accept-Encoding", _KNOWN_CODINGS.encode()),),
        )
    return _CODINGS[codings[0]]


def _accepts_gzip(tokens: list[bytes]) -> bool:
    for token in tokens:
        coding, *parameters = (part.strip() for part in token.split(b";"))
        if coding in (b"gzip", b"x-gzip", b"*"):
            return not any(re.fullmatch(rb"q=0(\.0*)?", parameter) for parameter in parameters)
    return False


class PartialHead:
    """A head that has not come whole: refused as soon as it cannot become a good one.

    Without this, garbage that holds no empty line would be answered only by a timeout. The bytes
    are kept and parsed again once complete; here they are only judged.
    """

    __slots__ = ("_limits", "_parser", "raw")

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._parser: httptools.HttpRequestParser | None = None
        self.raw = b""

    def update(self, raw: bytes) -> None:
        """Take all bytes so far, which contain no empty line and begin with those of the last call.

        Raises:
            RequestRefused: As ``parse_head`` would, whatever might follow.
        """
        known = len(self.raw)
        self.raw = raw
        if self._parser is None:
            self._begin(raw)
        else:
            self._feed(raw[known:])
        if len(raw) > self._limits.max_header_bytes:
            raise _too_many_header_bytes(self._limits)

    def _begin(self, raw: bytes) -> None:
        """Judge the request line once it is complete, in the way of ``parse_head``."""
        end = raw.find(b"\r\n")
        if end >= 0:
            if end > self._limits.max_request_line_bytes:
                raise _request_line_too_long(self._limits)
            _request_line(raw[:end])
            self._parser = httptools.HttpRequestParser(_HeadersComplete())
            self._feed(raw)
        elif len(raw) > self._limits.max_request_line_bytes + 1:
            raise _request_line_too_long(self._limits)
        elif not _TOKEN.match(raw) or b"\n" in raw:
            raise _bad("the request line does not begin with a method, or ends without CR")

    def _feed(self, data: bytes) -> None:
        assert self._parser is not None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise _bad(str(error)) from None


def _bad(message: str) -> RequestRefused:
    return RequestRefused(400, message, html=True)


def _request_line_too_long(limits: HttpLimits) -> RequestRefused:
    return RequestRefused(
        414, f"the request line is longer than {limits.max_request_line_bytes} bytes"
    )


def _too_many_header_bytes(limits: HttpLimits) -> RequestRefused:
    return RequestRefused(
        431, f"request line and headers are longer than {limits.max_header_bytes} bytes"
    )


def body_too_large(limits: HttpLimits, size: int | None = None) -> RequestRefused:
    """The refusal of a body above the limit; ``size`` where it is known."""
    found = "" if size is None else f" of {size} bytes"
    return RequestRefused(
        413, f"a request body{found} is above the limit of {limits.max_body_bytes} bytes"
    )
