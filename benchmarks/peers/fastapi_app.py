"""FastAPI + TensorFlow: `fastapi_app.py SAVED_MODEL PORT [WORKERS]`.

Written as an experienced user would: orjson both ways on the raw body (no pydantic model of 784
floats), uvloop and httptools, no access log. The model is called in the event
loop; a plain `def` in the thread pool is the usual alternative and was not measured. FastAPI has no
batching of its own.
WORKERS processes (default 1) each hold a copy of the model.
"""

import os
import sys

import numpy as np
import orjson
import uvicorn
from fastapi import FastAPI, Request, Response
from saved_model import load


def create_app() -> FastAPI:
    """The application of one worker process; uvicorn calls it there."""
    app = FastAPI()
    run = load(os.environ["SAVED_MODEL"])

    @app.post("/predict")
    async def predict(request: Request) -> Response:
        instances = orjson.loads(await request.body())["instances"]
        predictions = run(np.asarray(instances, np.float32))
        body = orjson.dumps({"predictions": predictions}, option=orjson.OPT_SERIALIZE_NUMPY)
        return Response(body, media_type="application/json")

    return app


if __name__ == "__main__":
    os.environ["SAVED_MODEL"] = sys.argv[1]
    uvicorn.run(
        "fastapi_app:create_app",
        factory=True,
        host="127.0.0.1",
        port=int(sys.argv[2]),
        workers=int(sys.argv[3]) if len(sys.argv) > 3 else 1,
        timeout_worker_healthcheck=60,  # a worker that still imports TensorFlow answers no ping
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
    )
