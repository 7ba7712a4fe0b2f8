"""JSON request bodies to tensors, and tensors to JSON response bodies."""

from headrace.codec.decode import PredictRequest, check_predict, decode_predict
from headrace.codec.encode import encode_classify, encode_error, encode_predict, encode_regress
from headrace.codec.examples import ExamplesRequest, check_examples, decode_examples

__all__ = [
    "ExamplesRequest",
    "PredictRequest",
    "check_examples",
    "check_predict",
    "decode_examples",
    "decode_predict",
    "encode_classify",
    "encode_error",
    "encode_predict",
    "encode_regress",
]
