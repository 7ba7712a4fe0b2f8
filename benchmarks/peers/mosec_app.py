"""Mosec: `mosec_app.py SAVED_MODEL PORT [WORKERS]`.

Dynamic batching as its documentation recommends for models: a batch leaves with `max_batch_size`
requests or after `max_wait_time`, whose smallest value is 1 ms. orjson both ways. WORKERS (default
1) each hold a copy of the model.

32 requests a batch is a compromise from a rough trial (two runs each, not in turn): at 32
connections 8, 16 and 32 were close on half_plus_three, 16 and 32 on the perceptron; 64 was slower
there and faster at 128 connections. Two workers were faster on half_plus_three at 32 connections.
"""

import os
import sys

import numpy as np
import orjson
from mosec import Server, Worker
from saved_model import load, run_batched


class Predict(Worker):
    """One process: decodes, runs a batch, encodes."""

    def __init__(self) -> None:
        super().__init__()
        self.run = load(os.environ["SAVED_MODEL"])

    def deserialize(self, data: bytes) -> list:
        return orjson.loads(data)["instances"]

    def forward(self, data: list[list]) -> list[np.ndarray]:
        return run_batched(self.run, data)

    def serialize(self, data: np.ndarray) -> bytes:
        return orjson.dumps({"predictions": data}, option=orjson.OPT_SERIALIZE_NUMPY)


if __name__ == "__main__":
    path, port, workers = sys.argv[1], sys.argv[2], int((sys.argv[3:] or [1])[0])
    os.environ["SAVED_MODEL"] = path  # workers are spawned and read it there
    sys.argv[1:] = ["--address=127.0.0.1", f"--port={port}", "--log-level=warning"]
    server = Server()
    # Two workers share what waits, so each is given half of it.
    server.append_worker(
        Predict, num=workers, max_batch_size=32 // workers, max_wait_time=1, route="/predict"
    )
    server.run()
