"""LitServe: `litserve_app.py SAVED_MODEL PORT`.

Batching with a 1 ms window, and the ZeroMQ queue that its documentation advises above 100 requests
a second. Requests are left unannotated, which spares them a pydantic model. Batches of 16, two
workers and two API servers were tried too, but not in turn and while other work on the machine
grew, so the choice of 32 and one of each is not shown to be the best.
"""

import os
import sys

import litserve
import numpy as np
from saved_model import load, run_batched


class Predict(litserve.LitAPI):
    """One inference worker, which also decodes and encodes, as LitServe arranges it."""

    def setup(self, device: str) -> None:
        self.run = load(os.environ["SAVED_MODEL"])

    def decode_request(self, request) -> list:
        return request["instances"]

    def batch(self, inputs: list) -> list:
        return inputs  # joined in `predict`, which must know the rows of each to split them again

    def predict(self, batch: list) -> list[np.ndarray]:
        return run_batched(self.run, batch)

    def unbatch(self, output: list[np.ndarray]) -> list[np.ndarray]:
        return output

    def encode_response(self, output: np.ndarray) -> dict:
        return {"predictions": output.tolist()}


if __name__ == "__main__":
    os.environ["SAVED_MODEL"] = sys.argv[1]  # the worker is another process and reads it there
    api = Predict(max_batch_size=32, batch_timeout=0.001, api_path="/predict")
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1, fast_queue=True)
    server.run(
        host="127.0.0.1",
        port=int(sys.argv[2]),
        num_api_servers=1,
        log_level="warning",
        access_log=False,
        generate_client_file=False,
    )
