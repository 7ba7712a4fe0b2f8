"""FastAPI + orjson for a model with several outputs: `fastapi_large.py SAVED_MODEL PORT`.

As fastapi_app.py otherwise. The model runs in a session, through a callable made once: TensorFlow's
loader of today does not take SavedModels that hold an optimizer of Keras 2, and the callable is
faster besides. Each answer says how long the model took of it (`X-Model-Seconds`).
"""

import sys
import time

import numpy as np
import orjson
import tensorflow as tf
import uvicorn
from fastapi import FastAPI, Request, Response

v1 = tf.compat.v1


class SessionModel:
    """The signature `serving_default` with its one input."""

    def __init__(self, path: str) -> None:
        self._session = v1.Session(graph=tf.Graph())
        with self._session.graph.as_default():
            meta = v1.saved_model.load(self._session, ["serve"], path)
        signature = meta.signature_def["serving_default"]
        (fed,) = signature.inputs.values()
        self._names = sorted(signature.outputs)
        fetched = [self._tensor(signature.outputs[name].name) for name in self._names]
        self._call = self._session.make_callable(fetched, [self._tensor(fed.name)])

    def _tensor(self, name: str):
        return self._session.graph.get_tensor_by_name(name)

    def run(self, batch: np.ndarray) -> dict[str, np.ndarray]:
        return dict(zip(self._names, self._call(batch), strict=True))


def create_app(path: str) -> FastAPI:
    app = FastAPI()
    model = SessionModel(path)

    @app.post("/predict")
    async def predict(request: Request) -> Response:
        instances = orjson.loads(await request.body())["instances"]
        batch = np.asarray(instances, np.float32)
        began = time.perf_counter()
        outputs = model.run(batch)
        took = time.perf_counter() - began
        rows = [{name: array[row] for name, array in outputs.items()} for row in range(len(batch))]
        body = orjson.dumps({"predictions": rows}, option=orjson.OPT_SERIALIZE_NUMPY)
        headers = {"X-Model-Seconds": repr(took)}
        return Response(body, media_type="application/json", headers=headers)

    return app


if __name__ == "__main__":
    uvicorn.run(
        create_app(sys.argv[1]),
        host="127.0.0.1",
        port=int(sys.argv[2]),
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
    )
