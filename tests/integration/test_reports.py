"""What users of other model servers ran into and reported, tried here: each gets the right answer.

The names in the ids are the projects that were reported to.
"""

from __future__ import annotations

import gzip
import http.client
import json
import random
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headrace import TensorSpec
from headrace.codec import decode_predict
from headrace.errors import DecodeError
from model_builders import python_model
from server_process import ServerProcess, served

MODEL = """
    import numpy as np

    class Model:
        signatures = {{"serving_default": {{"inputs": {inputs}, "outputs": {outputs}}}}}

        def predict(self, inputs):
            return {result}
"""
ROW = '("float32", (None,))'
MODELS = {
    "half_plus_two": (f'{{"x": {ROW}}}', f'{{"y": {ROW}}}', '{"y": inputs["x"] / 2 + 2}'),
    "echo_uint64": ('{"x": ("uint64", (None,))}', '{"x": ("uint64", (None,))}', "dict(inputs)"),
    "echo_float32": (f'{{"x": {ROW}}}', f'{{"x": {ROW}}}', "dict(inputs)"),
    "multi": (
        '{"a": ("float32", (None, 3)), "b": ("int64", (None,))}',
        '{"b": ("int64", (None,))}',
        '{"b": inputs["b"]}',
    ),
    "seq": (
        '{"ids": ("int32", (None, None))}',
        '{"n": ("int32", (None,))}',
        '{"n": inputs["ids"].sum(axis=1, dtype="i4")}',
    ),
    "keep_positive": (
        '{"x": ("int32", (None,))}',
        '{"y": ("int32", (None,)), "boxes": ("float32", (None, 4))}',
        '{"y": inputs["x"][inputs["x"] > 0], "boxes": np.zeros((0, 4), "f4")}',
    ),
    "const_out": (
        '{"x": ("float32", (None, 2))}',
        f'{{"y": {ROW}, "labels": ("string", (3,))}}',
        '{"y": inputs["x"].sum(axis=1), "labels": np.array([b"a", b"b", b"c"], object)}',
    ),
    "fat": (
        f'{{"x": {ROW}}}',
        f'{{"small": {ROW}, "feat": ("float32", (None, 65536))}}',
        '{"small": inputs["x"], "feat": np.zeros((len(inputs["x"]), 65536), "f4")}',
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("reports")
    configs = []
    for name, (inputs, outputs, result) in MODELS.items():
        code = MODEL.format(inputs=inputs, outputs=outputs, result=result)
        python_model(folder / name / "1", code)
        configs.append(f'config {{ name: "{name}" base_path: "{folder / name}" }}')
    listed = folder / "models.config"
    listed.write_text(f"model_config_list {{ {' '.join(configs)} }}")
    flags = ("--idle_timeout=1", "--max_body_bytes=16MiB", "--max_total_body_bytes=64MiB")
    with served(f"--model_config_file={listed}", *flags) as running:
        yield running


def ask(
    server: ServerProcess,
    model: str,
    body: str | bytes,
    headers: dict[str, str] | None = None,
    query: str = "",
) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    data = body.encode() if isinstance(body, str) else body
    connection.request("POST", f"/v1/models/{model}:predict{query}", data, headers or {})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


ANSWERED = [
    ("simdjson: the upper half of uint64", "echo_uint64",
     '{"instances":[9223372036854775809,18446744073709551615]}',
     {"predictions": [9223372036854775809, 18446744073709551615]}),
    ("tensorflow: seven digits", "half_plus_two", '{"instances":[3333335.0]}',
     {"predictions": [1666669.5]}),
    ("tensorflow: nothing was found, rows", "keep_positive", '{"instances":[0]}',
     {"predictions": []}),
    ("tensorflow: nothing was found, columns", "keep_positive", '{"inputs":[0]}',
     {"outputs": {"y": [], "boxes": []}}),
    ("tensorflow: a constant output by columns", "const_out", '{"inputs":[[1.0,2.0],[3.0,4.0]]}',
     {"outputs": {"labels": ["a", "b", "c"], "y": [3.0, 7.0]}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "body", "answer"), [a[1:] for a in ANSWERED], ids=[a[0] for a in ANSWERED]
)
def test_answer_is_right(server: ServerProcess, model: str, body: str, answer: object) -> None:
    status, text = ask(server, model, body)
    assert (status, json.loads(text)) == (200, answer)


REFUSED = [
    ("tensorflow: one of two inputs is missing", "multi",
     '{"instances":[{"a":[1,2,3]},{"a":[4,5,6]}]}', ["instances[0]", "missing b (int64[?])"]),
    ("tensorflow: rows of different lengths", "seq",
     '{"instances":[{"ids":[4,8,15]},{"ids":[16,23]}]}',
     ["instances[1].ids", "size: 3", "got: 2", "instances[0]"]),
    ("seldon: nothing between two commas", "half_plus_two", '{"instances":[1.0,2.0,,,4.0]}',
     ["instances[2]", "offset: 22"]),
    ("sagemaker: neither of the two keys", "half_plus_two", '{"data":[[5.1,3.5]]}',
     ["found 'data'", '{"instances": [1.0]}']),
    ("tensorflow: both keys", "half_plus_two", '{"instances":[1.0],"inputs":[1.0]}',
     ["only one of 'inputs' or 'instances'"]),
    ("tensorflow: no instance", "half_plus_two", '{"instances":[]}', ["No values"]),
    ("tensorflow: a number of instances", "half_plus_two", '{"instances":7}', ["list/array"]),
    ("tensorflow: an object of instances", "half_plus_two", '{"instances":{"x":1}}',
     ['{"x":1}', "list/array"]),
    ("tensorflow: a constant output by rows", "const_out", '{"instances":[[1.0,2.0],[3.0,4.0]]}',
     ["labels", "inconsistent batch size: 3 expecting: 2", "'inputs' (columnar)"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "body", "parts"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_mistake_is_named(server: ServerProcess, model: str, body: str, parts: list[str]) -> None:
    status, text = ask(server, model, body)
    assert status == 400
    error = json.loads(text)["error"]
    assert [part for part in parts if part not in error] == [], error


def test_seldon_a_gap_far_into_a_large_body_is_found_where_it_is() -> None:
    rows = 2_000_000
    body = b'{"instances":[' + b"1.0," * rows + b",4.0]}"
    with pytest.raises(DecodeError) as caught:
        decode_predict(body, {"serving_default": {"x": TensorSpec("float32", (None,))}})
    assert caught.value.path == f"instances[{rows}]"
    assert caught.value.offset == body.index(b",,") + 1


@pytest.mark.parametrize("token", ["NaN", "-Infinity", "Inf", "nan", "inf", "-INFINITY"])
def test_simdjson_letters_of_tokens_count_wherever_they_stand(token: str) -> None:
    signatures = {"serving_default": {"x": TensorSpec("float32", (None,))}}
    for blanks in range(130):
        body = f'{{"instances":[{" " * blanks}{token}]}}'.encode()
        if token in ("NaN", "-Infinity", "Inf"):
            assert decode_predict(body, signatures).tensors["x"].shape == (1,)
        else:
            with pytest.raises(DecodeError):
                decode_predict(body, signatures)


def test_robotoff_only_the_outputs_that_are_asked_for_are_sent(server: ServerProcess) -> None:
    assert ask(server, "fat", '{"instances":[1.5]}', query="?outputs=small") == (
        200,
        '{"predictions":[1.5]}',
    )
    status, text = ask(server, "fat", '{"instances":[1.5]}', query="?outputs=smal")
    assert status == 400
    assert "small" in text
    assert "feat" in text


def test_tensorflow_a_compressed_body_is_read(server: ServerProcess) -> None:
    body = gzip.compress(b'{"instances":[1.0,2.0,5.0]}')
    status, text = ask(server, "half_plus_two", body, {"Content-Encoding": "gzip"})
    assert (status, json.loads(text)) == (200, {"predictions": [2.5, 3.0, 4.5]})
    status, text = ask(server, "half_plus_two", b"x", {"Content-Encoding": "lzma"})
    assert status == 415
    assert "lzma" in text


def test_uvicorn_a_slow_upload_outlives_the_idle_timeout(server: ServerProcess) -> None:
    body = b'{"instances":[' + b"1.0," * 1000 + b"1.0]}"
    head = (
        b"POST /v1/models/half_plus_two:predict HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        for pause_s in (0.0, 0.6):  # five of the latter are three times the idle timeout
            connection.sendall(head % len(body))
            for i in range(0, len(body), 801):
                connection.sendall(body[i : i + 801])
                time.sleep(pause_s)
            answer = b""
            while not answer.endswith(b"]}"):
                part = connection.recv(1 << 16)
                assert part
                answer += part
            assert answer.startswith(b"HTTP/1.1 200 ")


def test_codex_lb_connections_that_are_reset_leave_nothing(server: ServerProcess) -> None:
    request = (
        b"POST /v1/models/half_plus_two:predict HTTP/1.1\r\nHost: a\r\nContent-Length: 19\r\n\r\n"
        b'{"instances":[1.0]}'
    )

    def reset_some(count: int) -> int:
        for _ in range(count):
            with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
                connection.sendall(request)
                assert connection.recv(4096)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        status = Path(f"/proc/{server.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])

    before_kb = reset_some(2000)
    assert reset_some(2000) - before_kb < 2048
    page = server.ask("/metrics")[1].decode()
    assert "\nheadrace_http_connections{} 1\n" in page  # the one that asks


def test_tensorflow_many_bombs_at_once_are_refused_in_bounded_memory(server: ServerProcess) -> None:
    bomb = gzip.compress(bytes(100_000_000), 9)

    def throw(_: int) -> int:
        return ask(server, "half_plus_two", bomb, {"Content-Encoding": "gzip"})[0]

    with ThreadPoolExecutor(20) as clients:
        statuses = set(clients.map(throw, range(60)))
    assert statuses <= {413, 503}
    status = Path(f"/proc/{server.pid}/status").read_text()
    peak_kb = int(status.partition("VmHWM:")[2].split()[0])
    assert peak_kb < 400 << 10
    assert ask(server, "half_plus_two", '{"instances":[1.0]}')[0] == 200


SMUGGLED = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 33\r\nContent-Length: 0",
        b"Content-Length: 33\r\nTransfer-Encoding: chunked",
        b"Content-Length: +33",
        b"Content-Length: 0x21",
        b"Content-Length: 3 3",
        b"Content-Length: 33,33",
        b"Content-Length:\r\n 33",
        b"Transfer-Encoding: chunked\r\n\r\n1\r\nxx0\r\n",
    ],
)
def test_meinheld_a_body_is_never_a_second_request(server: ServerProcess, framing: bytes) -> None:
    head = b"POST /v1/models/half_plus_two:predict HTTP/1.1\r\nHost: a\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        connection.sendall(head + framing + b"\r\n\r\n" + SMUGGLED)
        answers = b""
        while part := connection.recv(1 << 16):
            answers += part
    assert answers.startswith(b"HTTP/1.1 400 ")
    assert answers.count(b"HTTP/1.1 ") == 1


def test_mlserver_everybody_gets_just_his_own_rows(server: ServerProcess) -> None:
    def one(seed: int) -> None:
        source = random.Random(seed)
        values = [float(source.randrange(-999, 999)) for _ in range(source.randrange(1, 10))]
        status, text = ask(server, "half_plus_two", json.dumps({"instances": values}))
        assert (status, json.loads(text)["predictions"]) == (200, [x / 2 + 2 for x in values])

    with ThreadPoolExecutor(64) as clients:
        list(clients.map(one, range(1000)))
