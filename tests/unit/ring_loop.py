"""A front end and a worker in one process: what the tests of the ports are written in."""

import itertools
import json
import select
import threading
import time

from headrace import Signature, TensorSpec, _core
from headrace.tensors import compile_signatures

DECODE = _core.DecodeOptions()
ENCODE = _core.EncodeOptions()
WAIT_S = 30


def vector_signatures():
    """One signature, `x` to `y`, float32 vectors: batchable."""
    spec = {"x": TensorSpec("float32", (None,))}
    return compile_signatures(
        {"serving_default": Signature(inputs=spec, outputs={"y": TensorSpec("float32", (None,))})}
    )


def body_of(values, signature=None):
    body = {"instances": values}
    if signature is not None:
        body["signature_name"] = signature
    return json.dumps(body).encode()


class Loop:
    """A channel with both ends; `collect` plays the worker, `take` the front end."""

    def __init__(
        self,
        signatures=None,
        *,
        request_bytes=1 << 20,
        reply_bytes=1 << 20,
        max_payload_bytes=64 << 20,
        max_reply_bytes=64 << 20,
        max_rows=1024,
    ):
        self.signatures = signatures or vector_signatures()
        self.channel = _core.Channel(request_bytes=request_bytes, reply_bytes=reply_bytes)
        self.port = _core.FrontPort(
            self.channel,
            self.signatures,
            max_payload_bytes=max_payload_bytes,
            max_reply_bytes=max_reply_bytes,
        )
        self.worker_port = _core.WorkerPort(
            self.channel.worker_fds(), self.signatures, max_reply_bytes=max_reply_bytes
        )
        self.collector = _core.Collector([self.worker_port], _core.BatchSettings(max_rows=max_rows))
        self.ids = itertools.count(1)

    def submit(self, body, *, encode=ENCODE, deadline_ns=0, request_id=None):
        if request_id is None:
            request_id = next(self.ids)
        self.port.submit(request_id, body, decode=DECODE, encode=encode, deadline_ns=deadline_ns)
        return request_id

    def collect(self, timeout_ms=0):
        return self.collector.collect(timeout_ms=timeout_ms)

    def take(self, count=1):
        """Replies by id, waiting for `count` of them at the doorbell."""
        replies = {}
        deadline = time.monotonic() + WAIT_S
        while len(replies) < count:
            assert time.monotonic() < deadline, f"{len(replies)} of {count} replies came"
            select.select([self.port.doorbell], [], [], 1)
            for request_id, kind, payload in self.port.take_replies():
                assert request_id not in replies
                replies[request_id] = (kind, payload)
        return replies

    def close(self):
        self.port.close()


class WorkerThread:
    """Runs `model(inputs) -> outputs` on what a loop's collector yields, until it is closed."""

    def __init__(self, loop, model):
        self._loop = loop
        self._model = model
        self.batches = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while True:
            try:
                batch = self._loop.collector.collect()
            except EOFError:
                return
            self.batches.append(batch.size)
            batch.reply(self._model(batch.inputs))

    def join(self):
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
