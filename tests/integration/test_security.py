"""Tokens and certificates of a server process, and what a hang-up does to them."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
from pathlib import Path

import pytest
import trustme

from headrace.cli import main
from model_builders import python_model
from server_process import NUMBERED, PATIENCE_S, replace_file, served

PREDICT = {"instances": [1.0]}
PATH = "/v1/models/m:predict"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    python_model(tmp_path / "m" / "1", NUMBERED)
    return ["--model_name=m", f"--model_base_path={tmp_path / 'm'}"]


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text("# for the tests\nfirst\nsecond\n")
    return file


def test_only_those_with_a_token_are_answered(arguments: list[str], tokens: Path) -> None:
    with served(*arguments, f"--auth_token_file={tokens}") as server:
        status, answer, headers = server.ask(PATH, PREDICT)
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "a bearer token is needed" in answer["error"]
        assert server.ask(PATH, PREDICT, headers=bearer("third"))[0] == 401
        for token in ("first", "second"):
            assert server.ask(PATH, PREDICT, headers=bearer(token))[0] == 200
        assert server.ask("/v1/models/m")[0] == 401
        assert server.ask("/nowhere")[0] == 401
        for path in ("/healthz", "/readyz"):
            assert server.ask(path)[0] == 200
        # The new tokens count for clients that passed before, too.
        replace_file(tokens, "third\n")
        server.hang_up()
        server.wait_for("the list of tokens was read again")
        assert server.ask(PATH, PREDICT, headers=bearer("first"))[0] == 401
        assert server.ask(PATH, PREDICT, headers=bearer("third"))[0] == 200
        replace_file(tokens, "\n")
        server.hang_up()
        server.wait_for("the list of tokens stays as it is: .*there is none")
        assert server.ask(PATH, PREDICT, headers=bearer("third"))[0] == 200


def test_body_of_a_stranger_is_not_awaited(arguments: list[str], tokens: Path) -> None:
    with served(*arguments, f"--auth_token_file={tokens}") as server:
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as stranger:
            head = f"POST {PATH} HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n"
            stranger.sendall(head.encode())
            answer = b""
            while part := stranger.recv(4096):
                answer += part
        assert answer.startswith(b"HTTP/1.1 401 Unauthorized\r\n")
        assert b"\r\nConnection: close\r\n" in answer


def test_page_of_another_origin_may_read_why_it_is_refused(
    arguments: list[str], tokens: Path
) -> None:
    flags = (f"--auth_token_file={tokens}", "--rest_api_enable_cors_support")
    with served(*arguments, *flags) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        connection.request("POST", PATH, b"{}", {"Origin": "http://a.example"})
        answer = connection.getresponse()
        assert answer.status == 401
        assert answer.getheader("Access-Control-Allow-Origin") == "*"
        assert "Authorization" in str(answer.getheader("Access-Control-Allow-Headers"))
        connection.close()


def test_health_may_be_guarded_too(arguments: list[str], tokens: Path) -> None:
    with served(*arguments, f"--auth_token_file={tokens}", "--auth_health") as server:
        for path in ("/healthz", "/readyz"):
            assert server.ask(path)[0] == 401
            assert server.ask(path, headers=bearer("first"))[0] == 200


def test_https_with_a_certificate_that_changes(arguments: list[str], tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def renew() -> ssl.SSLContext:
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        replace_file(certificate, "".join(b.bytes().decode() for b in issued.cert_chain_pems))
        replace_file(key, issued.private_key_pem.bytes().decode())
        client = ssl.create_default_context()
        authority.configure_trust(client)
        return client

    first = renew()
    with served(*arguments, f"--tls_cert={certificate}", f"--tls_key={key}") as server:
        assert server.url == f"https://127.0.0.1:{server.port}"
        assert server.ask(PATH, PREDICT, tls=first)[1] == {"predictions": [1]}
        second = renew()
        server.hang_up()
        server.wait_for("the certificate was read again")
        assert server.ask(PATH, PREDICT, tls=second)[0] == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            server.ask(PATH, PREDICT, tls=first)
        key.write_text("nothing")
        server.hang_up()
        server.wait_for("the certificate stays as it is: .*key.pem")
        assert server.ask(PATH, PREDICT, tls=second)[0] == 200


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--auth_token_file=missing"], "cannot start: the tokens in .*missing: No such file"),
        (["--tls_cert=missing", "--tls_key=missing"], "cannot start: the certificate .*missing"),
    ],
)
def test_files_that_cannot_be_used_end_the_start(
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    message: str,
) -> None:
    monkeypatch.setattr("headrace.cli.serve.set_up_logging", lambda level: None)
    assert main(["serve", "--listen=127.0.0.1:0", *arguments, *flags]) == 1
    (said,) = (record.getMessage() for record in caplog.records)
    assert re.search(message, said)
    assert capsys.readouterr().out == ""
