"""``headrace predict``: one request to a server, from a file or standard input."""

from __future__ import annotations

import argparse
import http.client
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import SplitResult, quote, urlsplit

from headrace.cli.flags import SECONDS

__all__ = ["REFUSED", "SERVER_FAILED", "UNREACHABLE", "run", "with_signature"]

UNREACHABLE = 1
"""Exit status: no answer, or one that is not HTTP."""
REFUSED = 4
"""Exit status: the server refused the request (4xx)."""
SERVER_FAILED = 5
"""Exit status: the server could not answer (5xx, or a redirect)."""

_BLANKS = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


def run(arguments: Sequence[str]) -> int:
    """Send the body, print the answer to standard output or the error to standard error.

    Returns:
        0 for an answer, or one of the statuses of this module.

    Raises:
        SystemExit: Status 2 after a usage message: a bad URL, or a file that cannot be read.
    """
    parser = _make_parser()
    options = parser.parse_args(arguments)
    try:
        url = _endpoint(options.url, options.model)
        body = _read(options.file)
        if options.signature is not None:
            body = with_signature(body, options.signature)
    except OSError as error:
        parser.error(f"{options.file}: {error.strerror}")
    except ValueError as error:
        parser.error(str(error))
    try:
        status, reason, answer = _post(url, body, options.timeout)
    except (OSError, http.client.HTTPException) as error:
        # HTTPException often says nothing but its name.
        return _fail(UNREACHABLE, f"no answer from {url.geturl()}: {error or type(error).__name__}")
    if status == http.HTTPStatus.OK:
        sys.stdout.buffer.write(answer if answer.endswith(b"\n") else answer + b"\n")
        return 0
    message = f"{status} {reason}: {_message_in(answer)}"
    return _fail(REFUSED if 400 <= status < 500 else SERVER_FAILED, message)


def with_signature(body: bytes, name: str) -> bytes:
    """The body with a ``signature_name`` put first, so that it wins over one already there.

    Put in as text, so that every number arrives as it was written.

    Raises:
        ValueError: The body is no JSON object.
    """
    opening = body.removeprefix(_BOM).lstrip(_BLANKS)
    if not opening.startswith(b"{"):
        raise ValueError("--signature needs a body that is a JSON object")
    rest = opening[1:]
    comma = b"" if rest.lstrip(_BLANKS).startswith(b"}") else b", "
    return b'{"signature_name": ' + json.dumps(name).encode() + comma + rest


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headrace predict",
        description="Send a predict request and print the answer.",
        epilog="Exit status: 0 an answer; 1 no server; 2 usage; 4 the request was refused (4xx); "
        "5 the server failed (5xx).",
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE", help="JSON body to send; - is standard input")
    parser.add_argument(
        "--url",
        default="http://127.0.0.1:8501",
        help="server, or the whole URL up to the verb (%(default)s)",
    )
    parser.add_argument("--model", default="default", help="name of the model (%(default)s)")
    parser.add_argument("--signature", metavar="NAME", help="signature to call")
    parser.add_argument(
        "--timeout",
        type=SECONDS.parse,
        default=60.0,
        metavar="SECONDS",
        help="longest wait for the server (%(default)g)",
    )
    return parser


def _endpoint(url: str, model: str) -> SplitResult:
    parts = urlsplit(url)
    # .port raises ValueError where it is no port.
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
        raise ValueError(f"--url {url!r}: expected a URL such as http://127.0.0.1:8501")
    if parts.path in {"", "/"}:
        return parts._replace(path=f"/v1/models/{quote(model, safe='')}:predict")
    return parts


def _read(file: str) -> bytes:
    return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()


def _post(url: SplitResult, body: bytes, timeout_s: float) -> tuple[int, str, bytes]:
    secure = url.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(url.hostname or "", url.port, timeout=timeout_s)
    try:
        target = url.path + (f"?{url.query}" if url.query else "")
        connection.request("POST", target, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.reason, response.read()
    finally:
        connection.close()


def _message_in(answer: bytes) -> str:
    """What an error answer says: its ``error`` member, else the beginning of its text."""
    text = answer.decode(errors="replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text.strip()[:1000] or "(an empty answer)"


def _fail(status: int, message: str) -> int:
    print(f"headrace predict: {message}", file=sys.stderr)
    return status
