"""Models and versions that come and go behind the routes, with real workers."""

from __future__ import annotations

import http.client
import json
import threading
from pathlib import Path

import pytest

import headrace
from headrace.server.front_end import FrontEndOptions, WorkerDefaults
from headrace.server.models import ModelSource
from model_builders import python_model
from server_process import NUMBERED, PATIENCE_S, replace_file, served

PREDICT = {"instances": [1.0]}


def add_version(base_path: Path, number: int, code: str = NUMBERED) -> None:
    """A version that appears as a whole."""
    hidden = python_model(base_path / f".{number}", code)
    hidden.rename(base_path / str(number))


class Client(threading.Thread):
    """Asks again and again on one connection, and notes the versions that answered."""

    def __init__(self, url: str, rows: int) -> None:
        super().__init__()
        self.versions: list[int] = []
        self.failures: list[str] = []
        self._enough = threading.Event()
        self._address = url.removeprefix("http://")
        self._rows = rows
        self._body = json.dumps({"instances": [1.5] * rows})

    def run(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=PATIENCE_S)
        while not self._enough.is_set():
            connection.request("POST", "/v1/models/m:predict", self._body)
            response = connection.getresponse()
            answer = json.loads(response.read())
            versions = set(answer.get("predictions", ()))
            if response.status == 200 and len(versions) == 1:
                self.versions += versions
            else:
                self.failures.append(f"{response.status} {str(answer)[:200]}")
        connection.close()

    def finish(self) -> None:
        self._enough.set()
        self.join(PATIENCE_S)


@pytest.mark.parametrize("in_process", [False, True])
def test_versions_switch_under_load_without_a_failed_request(
    tmp_path: Path, in_process: bool
) -> None:
    add_version(tmp_path, 1)
    options = FrontEndOptions(
        models=[ModelSource("m", tmp_path, poll_s=0.05)],
        listen=[("127.0.0.1", 0)],
        workers=WorkerDefaults(in_process=in_process),
    )
    with headrace.Server(options=options) as server:
        # Small ones, and ones whose body and answer are handled off the loop.
        clients = [Client(server.url, rows) for rows in (1, 3, 40_000)]
        for client in clients:
            client.start()
        for number in (2, 3, 4):
            add_version(tmp_path, number)
            _until_all_meet(clients, number)
        for client in clients:
            client.finish()
    for client in clients:
        assert client.failures == []
        assert client.versions == sorted(client.versions)


def _until_all_meet(clients: list[Client], number: int) -> None:
    """Wait until each client has had an answer of this version, or a failure."""
    done = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):
        if all(number in client.versions or client.failures for client in clients):
            return
        done.wait(0.01)
    raise AssertionError([client.versions[-3:] for client in clients])


def test_models_versions_and_labels_of_a_config_file(tmp_path: Path) -> None:
    for number in (1, 2):
        add_version(tmp_path / "m", number)
    add_version(tmp_path / "broken", 7, "raise OSError('weights are missing')")
    file = tmp_path / "models.config"
    file.write_text(
        f"""
        model_config_list {{
          config {{
            name: "m" base_path: "{tmp_path}/m"
            model_version_policy {{ all {{}} }}
            version_labels {{ key: "stable" value: 1 }}
            version_labels {{ key: "later" value: 3 }}
          }}
          config {{ name: "broken" base_path: "{tmp_path}/broken" }}
          config {{ name: "missing" base_path: "{tmp_path}/missing" }}
        }}"""
    )
    with served(f"--model_config_file={file}", "--max_num_load_retries=0") as server:

        def version(path: str) -> object:
            status, answer, _ = server.ask(f"/v1/models/{path}:predict", PREDICT)
            return answer["predictions"][0] if status == 200 else (status, answer["error"])

        assert [version(path) for path in ("m", "m/versions/1", "m/labels/stable")] == [2, 1, 1]
        assert version("m/labels/later") == (
            404,
            "Servable not found for request: Specific(m, 3)",
        )
        assert version("m/labels/nope") == (
            400,
            "Unrecognized servable version label: nope (labels of this model: later, stable)",
        )
        status, error = version("broken")  # type: ignore[misc]
        assert status == 404
        assert "weights are missing" in error
        assert "cannot be read: No such file or directory" in str(version("missing"))
        status, said, _ = server.ask("/readyz")
        assert status == 503
        assert [line.split(":")[0] for line in said.decode().splitlines()] == ["broken", "missing"]
        # What the label waits for comes, and so does the model that was missing.
        add_version(tmp_path / "m", 3)
        add_version(tmp_path / "missing", 1)
        server.wait_for("model m: version 3 is available")
        server.wait_for("model missing: version 1 is available")
        assert [version(path) for path in ("m/labels/later", "missing")] == [3, 1]


@pytest.mark.parametrize("form", ["text", "toml"])
def test_models_follow_their_file(tmp_path: Path, form: str) -> None:
    for name in "abc":
        add_version(tmp_path / name, 1)
    add_version(tmp_path / "b", 2)
    file = tmp_path / f"models.{form}"

    def write(**policies: int) -> None:
        """Models by name, each with the number of versions to serve."""
        if form == "toml":
            tables = (
                f'[[model]]\nname = "{name}"\nbase_path = "{tmp_path / name}"\n'
                f"versions = {{ latest = {count} }}\n"
                for name, count in policies.items()
            )
            replace_file(file, "".join(tables))
            return
        configs = (
            f"config {{ name: '{name}' base_path: '{tmp_path / name}' "
            f"model_version_policy {{ latest {{ num_versions: {count} }} }} }}\n"
            for name, count in policies.items()
        )
        replace_file(file, f"model_config_list {{\n{''.join(configs)}}}")

    write(a=1, b=1)
    flag = "config" if form == "toml" else "model_config_file"
    with served(f"--{flag}={file}", "--model_config_file_poll_wait_seconds=1") as server:
        write(b=2, c=1)
        server.wait_for("model a: version 1 is unloaded")
        server.wait_for("model b: version 1 is available")
        server.wait_for("model c: version 1 is available")
        statuses = [
            server.ask(f"/v1/models/{path}:predict", PREDICT)[0]
            for path in ("a", "b", "b/versions/1", "b/versions/2", "c")
        ]
        assert statuses == [404, 200, 200, 200, 200]
        # A mistake changes nothing, and is told with its place, once.
        replace_file(file, "\n  nonsense = {}")
        server.wait_for(r"the models stay as they are: .*line 2")
        server.hang_up()
        server.wait_for(r"the models stay as they are: .*line 2", times=2)
        assert server.ask("/v1/models/c:predict", PREDICT)[0] == 200
        write(c=1)
        server.wait_for("the models' configuration can be used again")
        server.wait_for("model b: version 2 is unloaded")
        assert server.count("model c: version 1 is available") == 1


def test_hangup_reads_the_models_where_nothing_is_polled(tmp_path: Path) -> None:
    add_version(tmp_path / "m", 1)
    file = tmp_path / "headrace.toml"
    table = f'[[model]]\nbase_path = "{tmp_path / "m"}"\nname = '
    file.write_text(table + '"old"')
    with served(f"--config={file}") as server:
        replace_file(file, table + '"new"')
        server.hang_up()
        server.wait_for("model new: version 1 is available")
        assert server.ask("/v1/models/new:predict", PREDICT)[1] == {"predictions": [1]}
        assert server.ask("/v1/models/old:predict", PREDICT)[0] == 404


def test_failed_loads_leave_no_process_behind(tmp_path: Path) -> None:
    add_version(tmp_path, 1, "raise OSError('weights are missing')")
    arguments = [
        *["--model_name=m", f"--model_base_path={tmp_path}"],
        *["--max_num_load_retries=3", "--load_retry_interval_micros=1000"],
    ]
    with served(*arguments) as server:
        server.wait_for("version 1: .*weights are missing", times=4)
        task = Path(f"/proc/{server.pid}/task/{server.pid}/children")
        assert task.read_text().split() == []
