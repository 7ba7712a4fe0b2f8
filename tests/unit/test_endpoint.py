"""Admission, delivery, expiry and re-push, over rings that are played by a list."""

import pytest

from headrace.errors import (
    DeadlineExceeded,
    EncodeError,
    ModelNotReady,
    OverloadError,
    RunFailed,
)
from headrace.serving.endpoint import Endpoint
from headrace.tensors import GivenTensors


class Port:
    """What `Endpoint` uses of a front port."""

    def __init__(self, capacity=8):
        self.capacity = capacity
        self.requests = {}
        self.replies = []
        self.cancelled = []
        self.dead = []
        self.on_fast_path = []
        self.doorbell = id(self)

    @property
    def in_flight_rows(self):
        return sum(len(body) for body in self.requests.values())

    in_flight_bytes = in_flight_rows

    def submit(self, request_id, body, *, decode, encode, deadline_ns, api, receive_ns):
        if len(self.requests) == self.capacity:
            raise OverloadError("the ring is full")
        self.requests[request_id] = body
        return len(body)

    def submit_tensors(self, request_id, signature, tensors, *, format, **options):
        self.submit(request_id, tensors["x"], decode=None, **options)
        self.given = (signature, format)
        return len(tensors["x"])

    def prepare_tensors(self, signature, tensors, *, format):
        return signature, tensors, format

    def take_replies(self):
        replies, self.replies = self.replies, []
        for request_id, *_ in replies:
            self.requests.pop(request_id, None)
        return replies

    def carried(self, deadline_ns):
        return [one for one in self.on_fast_path if one.deadline_ns <= deadline_ns]

    @property
    def carried_count(self):
        return len(self.on_fast_path)

    def cancel(self, request_id):
        self.cancelled.append(request_id)
        return True

    def unanswered(self):
        return self.dead

    def continue_metrics(self, dead):
        self.continues = dead

    def push_again(self, dead, request_id, *, alone):
        if len(self.requests) == self.capacity:
            raise OverloadError("the ring is full")
        self.requests[request_id] = (dead.requests[request_id], alone)


class Connection:
    """One whose request a port carries: a call of the endpoint's once it is unfolded."""

    def __init__(self, endpoint, port, request_id, deadline_ns=0):
        self.call = Call(deadline_ns)
        self.deadline_ns = deadline_ns or (1 << 64) - 1
        self._adopt = lambda: endpoint.adopt(self.call, request_id)
        self._port = port
        port.requests[request_id] = b"x"
        port.on_fast_path.append(self)

    def unfold(self):
        self._port.on_fast_path.remove(self)
        self._adopt()


class Call:
    def __init__(self, deadline_ns=0):
        self.deadline_ns = deadline_ns
        self.answers = []

    def succeed(self, body):
        self.answers.append(body)

    def succeed_large(self, reply):
        self.answers.append(("large", reply))

    def fail(self, error):
        self.answers.append(error)

    @property
    def error(self):
        (answer,) = self.answers
        return answer


@pytest.fixture
def port():
    return Port()


@pytest.fixture
def endpoint(port):
    return Endpoint(1, {}, port, max_in_flight_rows=10, max_in_flight_bytes=100)


def submit(endpoint, body=b"x", deadline_ns=0):
    call = Call(deadline_ns)
    return call, endpoint.submit(call, body, None, None)


def test_each_kind_of_reply_reaches_its_own_call_once(endpoint, port):
    calls = [submit(endpoint) for _ in range(4)]
    port.replies = [
        (calls[2][1], 0, b"two"),
        (calls[0][1], 1, "reply"),
        (calls[1][1], 2, ("invalid_argument", "", "bad input")),
        (calls[3][1], 2, ("non_finite", "predictions[0]", "NaN")),
        (999_999_999, 0, b"an answer that nobody waits for"),
    ]
    endpoint.deliver()
    assert calls[2][0].answers == [b"two"]
    assert calls[0][0].answers == [("large", "reply")]
    assert isinstance(calls[1][0].error, RunFailed)
    assert calls[1][0].error.kind == "invalid_argument"
    assert isinstance(calls[3][0].error, EncodeError)
    assert calls[3][0].error.code == "non_finite"
    assert len(endpoint) == 0


def test_tensors_are_admitted_and_answered_as_bodies_are(endpoint, port):
    given = GivenTensors("other", {"x": [0] * 10}, "columnar")
    call = Call()
    request_id = endpoint.submit_tensors(call, given, None)
    assert port.given == ("other", "columnar")
    with pytest.raises(OverloadError, match="10 rows of 10"):
        endpoint.submit_tensors(Call(), given, None)
    port.replies = [(request_id, 0, b"answer")]
    endpoint.deliver()
    assert call.answers == [b"answer"]


def test_tensors_are_prepared_by_the_port(endpoint):
    given = GivenTensors("other", {"x": [1]}, "columnar")
    assert endpoint.prepare_tensors(given) == ("other", {"x": [1]}, "columnar")


def test_beyond_the_bound_in_rows_nothing_is_accepted(endpoint, port):
    submit(endpoint, b"x" * 10)
    with pytest.raises(OverloadError, match="10 rows of 10"):
        submit(endpoint)
    assert len(port.requests) == 1


def test_a_full_ring_leaves_no_trace(port):
    port.capacity = 0
    endpoint = Endpoint(1, {}, port, max_in_flight_rows=10, max_in_flight_bytes=100)
    with pytest.raises(OverloadError, match="full"):
        submit(endpoint)
    assert len(endpoint) == 0


def test_calls_past_their_deadline_fail_and_are_cancelled(endpoint, port):
    early, early_id = submit(endpoint, deadline_ns=100)
    late, _ = submit(endpoint, deadline_ns=200)
    endpoint.expire(150)
    assert isinstance(early.error, DeadlineExceeded)
    assert port.cancelled == [early_id]
    assert late.answers == []
    port.replies = [(early_id, 0, b"too late")]
    endpoint.deliver()
    assert len(early.answers) == 1


def test_deadlines_hold_on_the_fast_path_and_beside_it(endpoint, port):
    later, _ = submit(endpoint, deadline_ns=300)
    early = Connection(endpoint, port, 7, deadline_ns=100)
    late = Connection(endpoint, port, 8, deadline_ns=200)
    endless = Connection(endpoint, port, 9)
    endpoint.expire(150)
    assert isinstance(early.call.error, DeadlineExceeded)
    assert port.on_fast_path == [late, endless]
    late.unfold()  # behind a call whose deadline comes after its own
    endpoint.expire(200)
    assert isinstance(late.call.error, DeadlineExceeded)
    assert later.answers == endless.call.answers == []


def test_what_the_fast_path_carries_survives_a_death_like_the_rest(endpoint, port):
    answered, running = (Connection(endpoint, port, number) for number in (7, 8))
    port.replies = [(7, 0, b"just in time")]
    port.dead = [(8, True, 1)]
    successor = Port()
    endpoint.replace(successor)
    assert answered.call.answers == [b"just in time"]
    assert successor.requests == {8: (b"x", True)}
    successor.replies = [(8, 0, b"after all")]
    endpoint.deliver()
    assert running.call.answers == [b"after all"]


def test_endpoint_is_busy_with_what_the_fast_path_carries_and_fails_it_when_it_closes(
    endpoint, port
):
    connection = Connection(endpoint, port, 7)
    assert endpoint.is_busy
    endpoint.close("the version is being unloaded")
    assert isinstance(connection.call.error, ModelNotReady)
    assert not endpoint.is_busy


def test_a_cancelled_call_hears_nothing_more(endpoint, port):
    call, request_id = submit(endpoint)
    endpoint.cancel(request_id)
    endpoint.cancel(request_id)
    port.replies = [(request_id, 0, b"late")]
    endpoint.deliver()
    assert call.answers == []
    assert port.cancelled == [request_id]


def test_after_a_death_answers_are_taken_and_the_rest_is_pushed_again(endpoint, port):
    answered, running, waiting, poison, gone = (submit(endpoint) for _ in range(5))
    port.replies = [(answered[1], 0, b"just in time")]
    port.dead = [
        (running[1], True, 1),
        (waiting[1], False, 0),
        (poison[1], True, 2),
        (gone[1], True, 1),
    ]
    endpoint.cancel(gone[1])
    successor = Port()
    endpoint.replace(successor)
    assert answered[0].answers == [b"just in time"]
    assert successor.requests == {running[1]: (b"x", True), waiting[1]: (b"x", False)}
    assert isinstance(poison[0].error, RunFailed)
    assert endpoint.poisonous == 1
    assert endpoint.doorbell == successor.doorbell


def test_what_does_not_fit_the_successor_is_told_so(endpoint, port):
    call, request_id = submit(endpoint)
    port.dead = [(request_id, False, 0)]
    endpoint.replace(Port(capacity=0))
    assert isinstance(call.error, OverloadError)


def test_closing_fails_what_waits_and_refuses_more(endpoint):
    call, _ = submit(endpoint)
    endpoint.close("the version is being unloaded")
    assert isinstance(call.error, ModelNotReady)
    with pytest.raises(ModelNotReady):
        submit(endpoint)


def test_endpoint_is_busy_while_a_call_waits_or_is_about_to(endpoint, port):
    assert not endpoint.is_busy
    endpoint.hold()
    assert endpoint.is_busy
    endpoint.release()
    assert not endpoint.is_busy
    _, request_id = submit(endpoint)
    assert endpoint.is_busy
    port.replies = [(request_id, 0, b"")]
    endpoint.deliver()
    assert not endpoint.is_busy


def test_while_no_worker_can_be_started_requests_are_refused_at_once(endpoint, port):
    call, request_id = submit(endpoint)
    endpoint.suspend("the file is gone")
    assert isinstance(call.error, ModelNotReady)
    assert port.cancelled == [request_id]
    with pytest.raises(ModelNotReady, match="the file is gone"):
        submit(endpoint)
    endpoint.resume()
    submit(endpoint)
