"""The grammar of request targets, against vectors and against what arbitrary targets do."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.dialects.tfserving import Failure, Route, parse_target

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "vectors/tfserving-paths.jsonl")
    .read_text()
    .splitlines()
]


@pytest.mark.parametrize("case", VECTORS, ids=lambda c: f"{c['method']} {c['target'][:60]}")
def test_target_reads_as_tensorflow_serving_reads_it(case):
    route = parse_target(case["method"], case["target"])
    if "error" in case:
        assert isinstance(route, Failure)
        assert route.status == 400
        assert case["error"] in route.message
    else:
        assert route == Route(case["verb"], case["model"], case["version"], case["label"])


@given(st.sampled_from(["GET", "POST", "HEAD", "PUT"]), st.text(st.characters(max_codepoint=255)))
def test_any_target_gives_a_route_or_a_strict_json_failure(method, tail):
    parsed = parse_target(method, "/v1/" + tail)
    if isinstance(parsed, Failure):
        assert parsed.status == 400
        assert json.loads(parsed.body())["error"] == parsed.message


@given(st.text(min_size=1).filter(lambda s: s.isprintable()))
def test_a_name_survives_percent_encoding(name):
    from urllib.parse import quote

    parsed = parse_target("POST", f"/v1/models/{quote(name, safe='')}:predict")
    assert parsed == Route("predict", name)


def test_version_beyond_int64_is_refused_however_long():
    for digits in ("9223372036854775808", "9" * 100_000):
        parsed = parse_target("GET", f"/v1/models/m/versions/{digits}")
        assert isinstance(parsed, Failure)
        assert parsed.message.startswith("Failed to convert version: 9")
        assert len(parsed.message) < 200
    zeros = "0" * 5000
    assert parse_target("GET", f"/v1/models/m/versions/{zeros}7") == Route("status", "m", 7)
