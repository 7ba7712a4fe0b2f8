"""The pages of metrics of a live server, on loopback."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace import Server
from headrace.dialects.tfserving import metrics as tfserving
from headrace.server.front_end import FrontEndOptions, WorkerDefaults
from headrace.server.inference import InferenceOptions
from headrace.server.limits import HttpLimits
from headrace.server.models import ModelSource
from headrace.serving import metrics as conventional
from model_builders import python_model

PATH = "/monitoring/prometheus/metrics"
PREDICT = "/v1/models/half:predict"
# The sleepy row holds the worker until there is a file called awake.
DOUBLE = """
    import os, time
    import numpy as np

    class Model:
        signatures = {
            name: {
                "inputs": {"x": ("float32", (None,))},
                "outputs": {"y": ("float32", (None,))},
            }
            for name in ("serving_default", "other")
        }

        def load(self, path):
            self.path = str(path)

        def predict(self, inputs):
            x = inputs["x"]
            if (x == 13).any():
                raise ValueError("thirteen")
            while (x == 14).any() and not os.path.exists(self.path + "/awake"):
                time.sleep(0.005)
            if (x == 15).any():
                os._exit(1)
            return {"y": x * 2}
"""
SCORES = """
    import numpy as np

    class Model:
        signatures = {
            "serving_default": {
                "inputs": {"inputs": ("string", (None,))},
                "outputs": {"scores": ("float32", (None, None))},
            }
        }

        def predict(self, inputs):
            return {"scores": np.zeros((len(inputs["inputs"]), 2), np.float32)}
"""
SLEEPY, FATAL, FAILING = [14], [15], [13]

Samples = dict[str, list[tuple[dict[str, str], float]]]


def options(path: Path, **changes: object) -> FrontEndOptions:
    wanted: dict[str, object] = {
        "models": [ModelSource("half", path, poll_s=0.05)],
        "listen": [("127.0.0.1", 0)],
        "tfserving_metrics_path": PATH,
    }
    return FrontEndOptions(**(wanted | changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "half"
    python_model(path / "3", DOUBLE)
    return path


@pytest.fixture
def server(model: Path) -> Iterator[Server]:
    workers = WorkerDefaults(in_process=True)
    with Server(options=options(model, workers=workers)) as server:
        yield server


class Client:
    """One kept connection."""

    def __init__(self, server: Server) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)

    def send(self, method: str, target: str, body: object = None) -> None:
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body)
        self._connection.request(method, target, sent)

    def ask(self, method: str, target: str, body: object = None) -> tuple[int, bytes]:
        self.send(method, target, body)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def predict(self, *values: float, signature: str = "serving_default") -> int:
        body = {"signature_name": signature, "instances": values}
        return self.ask("POST", PREDICT, body)[0]

    def scrape(self, path: str = "/metrics") -> Samples:
        status, page = self.ask("GET", path)
        assert status == 200
        samples: Samples = {}
        for family in text_string_to_metric_families(page.decode()):
            for name, labels, value, *_ in family.samples:
                samples.setdefault(name.removesuffix("_total"), []).append((labels, value))
        return samples

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with closing(Client(server)) as client:
        yield client


def total(samples: Samples, name: str, **labels: str) -> float:
    wanted = labels.items()
    found = samples.get(name.removesuffix("_total"), [])
    return sum(value for of, value in found if wanted <= of.items())


def eventually(read: Callable[[], float], wanted: float) -> None:
    """What the loop has yet to notice: asked for again and again, for a bounded time."""
    give_up = time.monotonic() + 20
    while (found := read()) != wanted:
        assert time.monotonic() < give_up, f"{found} has not become {wanted}"
        time.sleep(0.01)


def test_every_outcome_of_ten_thousand_requests_is_counted_once(
    server: Server, client: Client
) -> None:
    good = json.dumps({"instances": [1, 2, 3]}).encode()
    bad = b'{"instances": ["a"]}'
    # Method, target and body; status; how many; model and API that they are counted under.
    kinds = (
        ("POST", PREDICT, good, 200, 6000, "half", "predict"),
        ("POST", PREDICT, bad, 400, 1000, "half", "predict"),
        ("POST", "/v1/models/half/versions/3:predict", good, 200, 800, "half", "predict"),
        ("POST", "/v1/models/half/versions/9:predict", good, 404, 500, "half", "predict"),
        ("GET", "/v1/models/half", b"", 200, 500, "half", "status"),
        ("GET", "/v1/models/half/metadata", b"", 200, 500, "half", "metadata"),
        ("POST", "/v1/models/nobody:predict", good, 404, 300, "", "predict"),
        ("GET", "/v1/models/nobody", b"", 404, 200, "", "status"),
        ("POST", "/v1/nothing", good, 400, 200, "", ""),
    )
    pipelined(server, [(m, t, b) for m, t, b, _, number, *_ in kinds for _ in range(number)])
    samples = client.scrape()
    assert total(samples, "headrace_requests_total") == 10_000
    assert total(samples, ":tensorflow:serving:request_count") == 10_000
    counted: dict[tuple[str, str, str], int] = {}
    for *_, status, number, model, api in kinds:
        key = (model, api, str(status))
        counted[key] = counted.get(key, 0) + number
    assert counted == {
        (of["model"], of["api"], of["status"]): value for of, value in samples["headrace_requests"]
    }
    assert total(samples, ":tensorflow:serving:request_count", model_name="half") == 9_300
    assert total(samples, ":tensorflow:serving:request_count", status="NOT_FOUND") == 1_000
    answered = {"model_name": "half", "API": "predict", "entrypoint": "REST"}
    assert total(samples, ":tensorflow:serving:request_latency_count", **answered) == 6_800
    for stage in ("receive", "decode", "wait", "run", "encode"):
        assert total(samples, f"headrace_{stage}_seconds_count") == 6_800
    assert total(samples, "headrace_request_rows_sum") == 3 * 6_800
    assert total(samples, "headrace_batch_rows_sum") == 3 * 6_800
    assert total(samples, "headrace_batch_requests_sum") == 6_800
    for gauge in ("requests", "rows", "bytes"):
        assert total(samples, f"headrace_{gauge}_in_flight") == 0


def pipelined(server: Server, requests: list[tuple[str, str, bytes]]) -> None:
    """Send them over one connection, some ahead of the answers."""
    url = urlsplit(server.url)
    with socket.create_connection((url.hostname, url.port), timeout=60) as raw:
        reader = raw.makefile("rb")
        for start in range(0, len(requests), 25):
            some = requests[start : start + 25]
            raw.sendall(
                b"".join(
                    b"%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s"
                    % (method.encode(), target.encode(), len(body), body)
                    for method, target, body in some
                )
            )
            for _ in some:
                length = 0
                while (line := reader.readline()) not in {b"\r\n", b""}:
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.partition(b":")[2])
                reader.read(length)


def test_unknown_names_are_no_labels(server: Server, client: Client) -> None:
    for n in range(50):
        assert client.ask("POST", f"/v1/models/ghost{n}:predict", b"{}")[0] == 404
        assert client.ask("GET", f"/v1/models/ghost{n}")[0] == 404
        assert client.ask("GET", f"/v1/models/half/versions/{n + 10}")[0] == 404
    status, page = client.ask("GET", "/metrics")
    assert status == 200
    assert b"ghost" not in page
    assert {of["model"] for of, _ in client.scrape()["headrace_requests"]} == {"", "half"}
    assert {of["version"] for of, _ in client.scrape()["headrace_rows_in_flight"]} == {"3"}


def test_failures_of_the_model_are_measured_as_runs(client: Client) -> None:
    assert client.predict(*FAILING) == 500
    assert client.predict(1, signature="other") == 200
    samples = client.scrape()
    assert total(samples, ":tensorflow:serving:request_count", status="INTERNAL") == 1
    assert total(samples, "headrace_run_seconds_count", signature="serving_default") == 1
    assert total(samples, "headrace_encode_seconds_count", signature="serving_default") == 0
    assert total(samples, "headrace_encode_seconds_count", signature="other") == 1


def test_clients_that_go_before_their_answer_are_cancelled(tmp_path: Path) -> None:
    path = python_model(tmp_path / "half" / "3", DOUBLE)
    workers = WorkerDefaults(in_process=True)
    with (
        Server(options=options(path.parent, workers=workers)) as server,
        closing(Client(server)) as client,
        closing(Client(server)) as gone,
    ):
        gone.send("POST", PREDICT, {"instances": SLEEPY})
        eventually(lambda: total(client.scrape(), "headrace_requests_in_flight"), 1)
        gone.close()
        eventually(lambda: total(client.scrape(), "headrace_requests_total", status="499"), 1)
        (path / "awake").touch()
        eventually(lambda: total(client.scrape(), "headrace_requests_in_flight"), 0)
        name = ":tensorflow:serving:request_count"
        assert total(client.scrape(), name, status="CANCELLED") == 1
        assert total(client.scrape(), name) == 1


def test_requests_whose_deadline_passes_are_counted_so(tmp_path: Path) -> None:
    path = python_model(tmp_path / "half" / "3", DOUBLE)
    inference = InferenceOptions(timeout_s=0.1)
    workers = WorkerDefaults(in_process=True)
    with (
        Server(options=options(path.parent, inference=inference, workers=workers)) as server,
        closing(Client(server)) as client,
    ):
        assert client.predict(*SLEEPY) == 504
        assert client.predict(1) == 504  # never run: the model is still busy
        (path / "awake").touch()
        eventually(lambda: total(client.scrape(), "headrace_requests_in_flight"), 0)
        samples = client.scrape()
        assert total(samples, ":tensorflow:serving:request_count", status="DEADLINE_EXCEEDED") == 2
        assert total(samples, "headrace_decode_seconds_count") == 2
        assert total(samples, "headrace_run_seconds_count") == 1


def test_live_connections_return_to_the_one_that_scrapes(server: Server, client: Client) -> None:
    def live() -> float:
        return total(client.scrape(), "headrace_http_connections")

    assert live() == 1
    clients = [Client(server) for _ in range(20)]
    for other in clients:
        other.predict(1)
    assert live() == 21
    url = urlsplit(server.url)
    for _ in range(20):
        # Closed with a reset, in the middle of a request.
        raw = socket.create_connection((url.hostname, url.port), timeout=30)
        raw.sendall(b"POST /v1/models/half:predict HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n{")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.close()
    for other in clients:
        other.close()
    eventually(live, 1)
    samples = client.scrape()
    assert total(samples, "headrace_http_connections_accepted_total") == 41
    assert total(samples, "headrace_http_body_bytes") == 0


def test_receiving_is_measured_where_a_request_comes_in_pieces(
    server: Server, client: Client
) -> None:
    url = urlsplit(server.url)
    body = json.dumps({"instances": [1.0] * 1000}).encode()
    head = b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (
        PREDICT.encode(),
        len(body),
    )
    began = time.monotonic()
    with socket.create_connection((url.hostname, url.port), timeout=30) as raw:
        received = total(client.scrape(), "headrace_http_received_bytes_total")
        raw.sendall(head + body[:10])
        # The rest goes when the server has the start.
        eventually(
            lambda: float(total(client.scrape(), "headrace_http_body_bytes") >= len(body)),
            1,
        )
        raw.sendall(body[10:])
        assert raw.recv(15) == b"HTTP/1.1 200 OK"
    elapsed = time.monotonic() - began
    samples = client.scrape()
    assert 0 < total(samples, "headrace_receive_seconds_sum") < elapsed
    assert total(samples, "headrace_http_received_bytes_total") > received + len(body)


def test_refusals_are_counted_by_status(model: Path) -> None:
    limits = HttpLimits(max_body_bytes=1000)
    workers = WorkerDefaults(in_process=True)
    with Server(options=options(model, http=limits, workers=workers)) as server:
        with closing(Client(server)) as refused:
            assert refused.ask("POST", PREDICT, b" " * 2000)[0] == 413
        with closing(Client(server)) as client:
            samples = client.scrape()
        assert total(samples, "headrace_http_refusals_total", status="413") == 1


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize("target", [PATH, PATH + "?a=b", "/metrics", "/metrics?x"])
def test_pages_answer_any_method_and_ignore_the_query(
    client: Client, method: str, target: str
) -> None:
    status, page = client.ask(method, target)
    assert status == 200
    assert page.startswith(
        b"# TYPE :tensorflow:serving:batching_session:input_batch_size histogram\n"
    )
    assert page.endswith(b"\n")


def test_head_of_a_page_has_no_body(client: Client) -> None:
    assert client.ask("HEAD", "/metrics") == (200, b"")


def test_page_of_tensorflow_serving_has_its_metrics_only(server: Server, client: Client) -> None:
    client.predict(1)
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
    connection.request("GET", PATH)
    answer = connection.getresponse()
    assert answer.getheader("content-type") == "text/plain"
    lines = answer.read().decode().splitlines()
    connection.close()
    assert ':tensorflow:serving:request_count{model_name="half",status="OK"} 1' in lines
    assert ":tensorflow:serving:batching_session:wrapped_run_count{} 1" in lines
    assert all(line.startswith(("# TYPE :tensorflow:", ":tensorflow:")) for line in lines)
    everything = client.scrape()
    names = {metric.name for metric in (*tfserving.CATALOGUE, *conventional.CATALOGUE)}
    found = {
        name.partition("_bucket")[0].removesuffix("_sum").removesuffix("_count")
        for name in everything
    }
    assert found <= {name.removesuffix("_total").removesuffix("_count") for name in names}


@pytest.mark.parametrize("path", [None, "/elsewhere"])
def test_page_of_tensorflow_serving_is_where_it_is_wanted(model: Path, path: str | None) -> None:
    workers = WorkerDefaults(in_process=True)
    changes = {"tfserving_metrics_path": path, "workers": workers}
    with Server(options=options(model, **changes)) as server, closing(Client(server)) as client:
        assert client.ask("GET", PATH)[0] == 404
        if path is not None:
            assert client.ask("GET", path)[0] == 200
        assert client.ask("GET", "/metrics/")[0] == 404


def test_counts_outlive_a_worker_and_restarts_are_counted(model: Path) -> None:
    with Server(options=options(model)) as server, closing(Client(server)) as client:
        for _ in range(3):
            assert client.predict(1) == 200
        assert client.predict(*FATAL) == 500
        assert client.predict(1) == 200
        samples = client.scrape()
        assert total(samples, "headrace_worker_restarts_total") == 2
        assert total(samples, "headrace_poisonous_requests_total") == 1
        assert total(samples, "headrace_run_seconds_count") == 4
        assert total(samples, "headrace_decode_seconds_count") == 5
        assert total(samples, "headrace_worker_resident_memory_bytes") > 10 << 20


def test_series_go_with_their_version_and_totals_stay(tmp_path: Path) -> None:
    base = tmp_path / "half"
    python_model(base / "1", DOUBLE)
    workers = WorkerDefaults(in_process=True)
    with (
        Server(options=options(base, workers=workers)) as server,
        closing(Client(server)) as client,
    ):
        assert client.predict(1) == 200
        python_model(base / "2", DOUBLE)
        eventually(lambda: total(client.scrape(), "headrace_run_seconds_count", version="1"), 0)
        assert client.predict(1) == 200
        samples = client.scrape()
        assert total(samples, "headrace_run_seconds_count", version="2") == 1
        assert total(samples, ":tensorflow:serving:runtime_latency_count") == 2
        assert total(samples, ":tensorflow:serving:batching_session:wrapped_run_count") == 2


def test_names_come_and_go_with_the_configuration(model: Path) -> None:
    workers = WorkerDefaults(in_process=True)
    configured = ["half"]

    def read() -> list[ModelSource]:
        return [ModelSource(name, model, poll_s=0.05) for name in configured]

    changes = {"workers": workers, "read_models": read, "read_models_every_s": 0.05}
    with Server(options=options(model, **changes)) as server, closing(Client(server)) as client:
        late = "/v1/models/late:predict"
        body = {"instances": [1]}
        name = "headrace_requests_total"
        assert client.ask("POST", late, body)[0] == 404
        configured.append("late")
        # The same request, over the same connection, is counted under its name from now on.
        eventually(lambda: client.ask("POST", late, body)[0], 200)
        assert total(client.scrape(), name, model="late", status="200") == 1
        configured.remove("late")
        eventually(lambda: client.ask("POST", late, body)[0], 404)
        samples = client.scrape()
        assert {of["model"] for of, _ in samples["headrace_requests"]} == {""}


def test_examples_are_counted_under_their_api(tmp_path: Path) -> None:
    base = tmp_path / "half"
    python_model(base / "1", SCORES)
    workers = WorkerDefaults(in_process=True)
    with (
        Server(options=options(base, workers=workers)) as server,
        closing(Client(server)) as client,
    ):
        for number in (1, 2):
            examples = {"examples": [{"x": 1.0}] * number}
            assert client.ask("POST", "/v1/models/half:classify", examples)[0] == 200
        samples = client.scrape()
        assert total(samples, ":tensorflow:serving:request_example_count_total", model="half") == 3
        assert total(samples, ":tensorflow:serving:request_example_counts_count", model="half") == 2
        assert total(samples, ":tensorflow:serving:runtime_latency_count", API="Classify") == 2
        assert total(samples, ":tensorflow:serving:request_latency_count", API="classify") == 2
        for stage in ("receive", "decode", "wait", "run", "encode"):
            assert total(samples, f"headrace_{stage}_seconds_count", api="classify") == 2


def test_process_is_described(client: Client) -> None:
    samples = client.scrape()
    assert total(samples, "process_resident_memory_bytes") > 10 << 20
    assert 3 < total(samples, "process_open_fds") < total(samples, "process_max_fds")
    assert abs(total(samples, "process_start_time_seconds") - time.time()) < 24 * 3600
    assert total(samples, "process_cpu_seconds_total") > 0
