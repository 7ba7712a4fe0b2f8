from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.tensors import Signature, TensorSpec
from headrace.workers.control import MessageReader, send_message
from headrace.workers.spec import WorkerSpec, signatures_from_json, signatures_to_json

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    a, b = socket.socketpair()
    with a, b:
        yield a, b


def test_message_arrives_whole(pair: Pair) -> None:
    send_message(pair[0], {"op": "start", "text": "é"})
    message = MessageReader(pair[1]).receive()
    assert message is not None
    assert message.body == {"op": "start", "text": "é"}
    assert message.fds == []


def test_large_message_is_read_in_pieces(pair: Pair) -> None:
    body = {"names": ["n" * 100] * 20_000}  # beyond any socket buffer
    sender = threading.Thread(target=send_message, args=(pair[0], body))
    sender.start()
    message = MessageReader(pair[1]).receive()
    sender.join()
    assert message is not None
    assert message.body == body


def test_descriptors_go_with_their_own_message(pair: Pair, tmp_path: Path) -> None:
    names = []
    for i, count in enumerate((0, 2, 0, 1)):
        files = [os.open(tmp_path / f"{i}-{n}", os.O_CREAT | os.O_RDWR) for n in range(count)]
        names.append([os.readlink(f"/proc/self/fd/{fd}") for fd in files])
        send_message(pair[0], {"i": i}, files)
        for fd in files:
            os.close(fd)
    reader = MessageReader(pair[1])
    for i, expected in enumerate(names):
        message = reader.receive()
        assert message is not None
        assert message.body == {"i": i}
        assert [os.readlink(f"/proc/self/fd/{fd}") for fd in message.fds] == expected
        assert not any(os.get_inheritable(fd) for fd in message.fds)
        message.close_fds()
        assert message.fds == []


def test_ready_messages_are_taken_without_waiting(pair: Pair) -> None:
    reader = MessageReader(pair[1])
    assert reader.receive_ready() == ([], True)
    for i in range(3):
        send_message(pair[0], {"i": i})
    messages, is_open = reader.receive_ready()
    assert [message.body["i"] for message in messages] == [0, 1, 2]
    assert is_open


def test_end_of_the_peer_is_seen_after_its_last_message(pair: Pair) -> None:
    send_message(pair[0], {"last": True})
    pair[0].close()
    reader = MessageReader(pair[1])
    message = reader.receive()
    assert message is not None
    assert reader.receive() is None


def test_peer_that_closes_with_unread_data_is_just_gone(pair: Pair) -> None:
    send_message(pair[1], {"unread": True})
    pair[0].close()
    assert MessageReader(pair[1]).receive() is None


def test_message_cut_off_by_the_end_is_dropped_with_its_descriptors(pair: Pair) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    socket.send_fds(pair[0], [b"\0\0\0\xff\0\0\0\1{"], [null])
    os.close(null)
    pair[0].close()
    reader = MessageReader(pair[1])
    before = len(os.listdir("/proc/self/fd"))
    assert reader.receive() is None
    assert len(os.listdir("/proc/self/fd")) == before + 1
    reader.close_fds()
    assert len(os.listdir("/proc/self/fd")) == before


def test_sending_to_a_closed_peer_is_an_error_and_no_signal(pair: Pair) -> None:
    pair[1].close()
    with pytest.raises(OSError, match="Broken pipe"):
        send_message(pair[0], {})


def test_spec_survives_the_wire() -> None:
    spec = WorkerSpec("m", 3, Path("/models/m/3"), tags=("serve", "gpu"), device="gpu:1")
    assert WorkerSpec.from_json(spec.to_json()) == spec
    assert spec.name == "m/3"
    assert spec.runtime_options().device == "gpu:1"
    assert spec.runtime_options().tags == ("serve", "gpu")


def test_signatures_survive_the_wire() -> None:
    signatures = {
        "serving_default": Signature(
            {"a": TensorSpec("float32", (None, 3)), "b": TensorSpec("string", None)},
            {"c": TensorSpec("qint8", ()), "d": TensorSpec("bfloat16", (2,))},
            "tensorflow/serving/classify",
        ),
        "nothing": Signature({}, {}),
    }
    assert signatures_from_json(signatures_to_json(signatures)) == signatures
