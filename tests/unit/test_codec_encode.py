"""What ``headrace.codec``'s encoders promise beyond TF Serving's own answers."""

from __future__ import annotations

import gc
import json
import math
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from headrace import EncodeError, _core
from headrace.codec import encode_classify, encode_error, encode_predict, encode_regress

LIMITS = [
    (dtype, limit)
    for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    for limit in (np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1)
]


def one(values: Any, **options: Any) -> Any:
    return json.loads(encode_predict({"y": values}, "columnar", **options))["outputs"]


def raised(outputs: Any, format: Any = "row", **options: Any) -> EncodeError:
    with pytest.raises(EncodeError) as caught:
        encode_predict(outputs, format, **options)
    return caught.value


# Layout


def test_row_with_one_output_is_a_list_of_values() -> None:
    assert encode_predict({"y": np.float32([[1, 2], [3, 4.5]])}, "row") == (
        b'{"predictions":[[1.0,2.0],[3.0,4.5]]}'
    )


def test_row_with_several_outputs_is_a_list_of_objects_sorted_by_name() -> None:
    outputs = {"b": np.int32([[1], [2]]), "a": np.array(["x", "y"])}
    assert encode_predict(outputs, "row") == (
        b'{"predictions":[{"a":"x","b":[1]},{"a":"y","b":[2]}]}'
    )


def test_columnar_with_several_outputs_is_an_object_of_any_shapes() -> None:
    outputs = {"b": np.int32([[1], [2]]), "a": np.float64(0.5), "c": np.zeros((0, 3))}
    assert encode_predict(outputs, "columnar") == b'{"outputs":{"a":0.5,"b":[[1],[2]],"c":[]}}'


def test_only_one_of_several_outputs_stands_without_its_name() -> None:
    outputs = {"a": [1], "b": [2], "c": [3]}
    assert encode_predict(outputs, "row", only=["b"]) == b'{"predictions":[2]}'
    assert encode_predict(outputs, "row", only=["c", "a"]) == b'{"predictions":[{"a":1,"c":3}]}'


def test_output_names_are_escaped() -> None:
    body = encode_predict({'a"\n': [1], "b\u00e9": [2]}, "columnar")
    assert json.loads(body) == {"outputs": {'a"\n': [1], "b\u00e9": [2]}}


def test_rank_64_is_written() -> None:
    body = encode_predict({"y": np.float32(1).reshape((1,) * 64)}, "row", pretty=True)
    assert b"[" * 64 + b"1.0" in body
    body = encode_predict({"y_bytes": np.array(b"x").reshape((1,) * 64)}, "columnar", pretty=True)
    assert body.count(b"[") == 64
    json.loads(body)


def test_zero_rows_give_an_empty_list() -> None:
    assert encode_predict({"a": np.zeros((0, 2)), "b": np.zeros(0)}, "row") == b'{"predictions":[]}'


# Values


@pytest.mark.parametrize(("dtype", "limit"), LIMITS)
def test_integers_are_written_to_their_limits(dtype: str, limit: int) -> None:
    assert one(np.array([limit], dtype)) == [int(limit)]


def test_every_power_of_ten_keeps_its_digits() -> None:
    values = [10**k + d for k in range(20) for d in (-1, 0, 1)]
    assert one(np.array(values, np.uint64)) == values
    small = [v for v in values if v < 2**63]
    assert one(-np.array(small, np.int64)) == [-v for v in small]


def test_all_float16_and_bfloat16_read_back() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    for dtype, infinity in ((np.float16, 0x7C00), (ml_dtypes.bfloat16, 0x7F80)):
        values = bits[bits & infinity != infinity].view(dtype)
        assert (np.array(one(values), dtype).view(np.uint16) == values.view(np.uint16)).all()


def test_float64_is_spelled_as_python_spells_it() -> None:
    values = [0.1, 1e16, 123456789012345.0, 1e15, 1e-4, 1e-5, 5e-324, -0.0, 1.7976931348623157e308]
    body = encode_predict({"y": np.array(values)}, "row")
    assert body == b'{"predictions":[' + ",".join(map(repr, values)).encode() + b"]}"


def test_int64_as_string_quotes_64_bit_integers_only() -> None:
    outputs = {"a": np.int64([-(2**63)]), "b": np.uint64([2**64 - 1]), "c": np.int32([7])}
    assert encode_predict(outputs, "columnar", int64_as_string=True) == (
        b'{"outputs":{"a":["-9223372036854775808"],"b":["18446744073709551615"],"c":[7]}}'
    )


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_non_finite_policies(dtype: Any) -> None:
    outputs = {"y": np.array([np.nan, np.inf, -np.inf, 1], dtype)}
    written = {
        policy: encode_predict(outputs, "row", non_finite=policy)
        for policy in ("token", "null", "string")
    }
    assert written == {
        "token": b'{"predictions":[NaN,Infinity,-Infinity,1.0]}',
        "null": b'{"predictions":[null,null,null,1.0]}',
        "string": b'{"predictions":["NaN","Infinity","-Infinity",1.0]}',
    }


def test_non_finite_error_names_output_index_and_path() -> None:
    outputs = {"a": [[1.0, 2.0]] * 3, "y": [[1.0, 2.0], [1.0, math.inf], [math.nan, 1.0]]}
    error = raised(outputs, non_finite="error")
    assert error.code == "non_finite"
    assert error.path == "predictions[1].y[1]"
    assert '"y"' in error.message
    assert "[1,1]" in error.message
    assert raised(outputs, "columnar", non_finite="error").path == "outputs.y[1][1]"
    alone = {"y": outputs["y"]}
    assert raised(alone, non_finite="error").path == "predictions[1][1]"
    assert raised(alone, "columnar", non_finite="error").path == "outputs[1][1]"


# Strings


def test_strings_of_every_kind_of_array() -> None:
    for array in (
        np.array([b"a", b"bc"]),
        np.array(["a", "bc"]),
        np.array([b"a", "bc"], object),
        np.array(["a", "bc"], np.dtypes.StringDType()),
        [b"a", b"bc"],
    ):
        assert one(array) == ["a", "bc"]


def test_every_byte_below_128_is_escaped_as_it_must_be() -> None:
    text = bytes(range(128))
    for start in range(9):  # every place within a word of eight bytes
        assert one(np.array([text[start:]], object)) == [text[start:].decode()]
    assert encode_predict({"y": ['\x00\x1f/\x7f\b\f\n\r\t"\\']}, "row") == (
        b'{"predictions":["\\u0000\\u001F/\x7f\\b\\f\\n\\r\\t\\"\\\\"]}'
    )


def test_bytes_outputs_are_base64() -> None:
    values = np.array([bytes(range(n)) for n in range(7)], object)
    body = json.loads(encode_predict({"y_bytes": values}, "row"))
    assert [entry["b64"] for entry in body["predictions"]] == [
        "", "AA==", "AAE=", "AAEC", "AAECAw==", "AAECAwQ=", "AAECAwQF",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"ab\x80"]
)
def test_invalid_utf8_is_an_error_or_base64(bad: bytes) -> None:
    outputs = {"y": np.array([["fine", bad]], object)}
    error = raised(outputs)
    assert error.code == "invalid_utf8"
    assert error.path == "predictions[0][1]"
    assert '"y"' in error.message
    assert "_bytes" in error.message
    body = json.loads(encode_predict(outputs, "row", invalid_utf8="b64"))
    assert body["predictions"][0][0] == "fine"
    assert list(body["predictions"][0][1]) == ["b64"]


def test_a_character_split_over_two_strings_is_invalid() -> None:
    error = raised({"y": np.array([b"\xc3", b"\xa9"], object)})
    assert error.code == "invalid_utf8"
    assert error.path == "predictions[0]"


# Errors


def test_scalar_in_row_format_says_to_use_inputs() -> None:
    error = raised({"y": np.float32(1)})
    assert error.message.startswith("Tensor name: y has no shape information ")
    assert "'inputs'" in error.message
    assert error.code == "shape"


def test_unequal_batch_sizes_say_so_in_tfservings_words() -> None:
    error = raised({"p": [1.0], "q": [1, 2]})
    assert error.message.startswith("Tensor name: q has inconsistent batch size: 2 expecting: 1")
    assert error.code == "batch_size"


def test_unknown_outputs_are_listed_with_the_known_ones() -> None:
    error = raised({"a": [1], "b": [1]}, only=["a", "x", "z"])
    assert error.code == "unknown_output"
    for name in ("a", "b", "x", "z"):
        assert f'"{name}"' in error.message


def test_no_outputs_are_an_error() -> None:
    assert raised({}).code == "structure"


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "datetime64[s]", "longdouble"])
def test_dtypes_without_json_are_refused_unless_empty(dtype: str) -> None:
    error = raised({"y": np.zeros(2, dtype)})
    assert error.code == "unsupported_dtype"
    assert error.message.startswith("Failed to write JSON value for tensor type: ")
    assert np.dtype(dtype).name in error.message
    assert encode_predict({"y": np.zeros(0, dtype)}, "row") == b'{"predictions":[]}'


def test_an_object_array_of_other_things_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"element 1 .* is int"):
        encode_predict({"y": np.array([b"a", 5], object)}, "row")
    with pytest.raises(UnicodeEncodeError):
        encode_predict({"y": np.array(["\ud800"], object)}, "row")


def test_unknown_format_and_policies_are_refused() -> None:
    assert raised({"y": [1]}, "rows").message.startswith("Invalid request format")
    with pytest.raises(ValueError, match="token, null, string, error"):
        encode_predict({"y": [1]}, "row", non_finite="nul")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="error, b64"):
        encode_predict({"y": [1]}, "row", invalid_utf8="x")  # type: ignore[arg-type]


def test_options_are_read_only() -> None:
    options = _core.EncodeOptions(
        pretty=True, non_finite="null", int64_as_string=True, invalid_utf8="b64", outputs=["a"]
    )
    assert options.pretty is True
    assert options.non_finite == "null"
    assert options.int64_as_string is True
    assert options.invalid_utf8 == "b64"
    assert options.outputs == ["a"]
    with pytest.raises(AttributeError):
        options.pretty = False  # type: ignore[misc]


# Classify, regress, error bodies


def test_classify_of_tensors() -> None:
    scores = np.float32([[0.25, 0.75]])
    assert encode_classify([["a", "b"]], scores) == b'{"results":[[["a",0.25],["b",0.75]]]}'
    assert encode_classify(None, scores) == b'{"results":[[["",0.25],["",0.75]]]}'
    assert encode_classify([["a"], ["b"]], None) == b'{"results":[[["a",0.0]],[["b",0.0]]]}'


def test_classify_errors_say_where() -> None:
    with pytest.raises(EncodeError) as caught:
        encode_classify(np.array([[b"a", b"\xff"]], object), np.float32([[1, 2]]))
    assert caught.value.path == "results[0][1][0]"
    with pytest.raises(EncodeError) as caught:
        encode_classify(None, np.float32([[1], [np.nan]]), non_finite="error")
    assert caught.value.path == "results[1][0][1]"
    with pytest.raises(EncodeError, match="Expected 2 elements of type string"):
        encode_classify([["a"]], np.float32([[1, 2]]))
    with pytest.raises(EncodeError, match="of type float"):
        encode_classify(None, np.float64([[1, 2]]))
    with pytest.raises(ValueError, match="two dimensions"):
        encode_classify(None, np.float32([1]))


def test_regress_takes_a_column() -> None:
    assert encode_regress(np.float32([[1], [2.5]])) == b'{"results":[1.0,2.5]}'
    for bad in (np.float64([1]), np.float32([[1, 2]]), np.float32(1)):
        with pytest.raises(EncodeError, match="Expected type float"):
            encode_regress(bad)
    with pytest.raises(EncodeError) as caught:
        encode_regress(np.float32([1, np.inf]), non_finite="error")
    assert caught.value.path == "results[1]"


@pytest.mark.parametrize(
    ("message", "read"),
    [
        ("Malformed request: GET /v1/x", "Malformed request: GET /v1/x"),
        ('JSON Value: "a\\b"\n\t\x01', 'JSON Value: "a\\b"\n\t\x01'),
        ("caf\u00e9 \U0001f600", "caf\u00e9 \U0001f600"),
        ("", ""),
        (b"\xff", "\ufffd"),
        (b"a\xc3(b", "a\ufffd(b"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"\xf0\x9f\x98", "\ufffd"),
        (b"\xf0\x9f\x98x\xe2\x82", "\ufffdx\ufffd"),
        (b"\xc0\x80\xf5", "\ufffd\ufffd\ufffd"),
        ("\ud800x", "?x"),
    ],
)
def test_error_body_is_strict_json_whatever_the_message(message: str | bytes, read: str) -> None:
    body = encode_error(message)
    assert json.loads(body.decode("utf-8")) == {"error": read}
    assert body.startswith(b'{\n    "error": "')
    assert body.endswith(b'"\n}')


def test_replacement_agrees_with_pythons_for_all_pairs_and_some_triples() -> None:
    firsts = (0x41, 0x7F, 0x80, 0xBF, 0xC1, 0xC2, 0xDF, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF)
    for first in firsts:
        for second in range(0x20, 256):
            for tail in (b"", b"\x80", b"\x90\xbf\x41", b'"\xc2'):
                message = bytes([first, second]) + tail
                assert json.loads(encode_error(message))["error"] == message.decode(
                    errors="replace"
                )


# The border


def test_arrays_of_any_layout_are_read_in_row_major_order() -> None:
    base = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    unaligned = np.frombuffer(b"\x00" + base.tobytes(), np.int32, 24, offset=1).reshape(2, 3, 4)
    for array in (base.T, base[:, ::-1], base.astype(">i4"), np.asfortranarray(base), unaligned):
        assert one(array) == array.tolist()
    assert one(np.broadcast_to(np.float32(2), (2, 2))) == [[2.0, 2.0], [2.0, 2.0]]


def test_arguments_keep_their_reference_counts() -> None:
    item = b"a string that nobody else has"
    array = np.array([item] * 10, object)
    numbers = np.arange(10.0)
    outputs = {"a": array, "b": numbers}
    before = [sys.getrefcount(o) for o in (item, array, numbers)]
    for _ in range(50):
        encode_predict(outputs, "row")
        raised(outputs, only=["x"])
    gc.collect()
    assert [sys.getrefcount(o) for o in (item, array, numbers)] == before


def test_many_threads_encode_at_once() -> None:
    arrays = [np.full((300, 100), i, np.float32) for i in range(16)]
    expected = [encode_predict({"y": array}, "row") for array in arrays]
    with ThreadPoolExecutor(8) as pool:
        bodies = list(pool.map(lambda a: encode_predict({"y": a}, "row"), arrays * 8))
    assert bodies == expected * 8
