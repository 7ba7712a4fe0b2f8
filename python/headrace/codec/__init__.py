"""JSON bodies to tensors and back."""

from headrace.codec.encode import encode_classify, encode_error, encode_predict, encode_regress

__all__ = [
    "encode_classify",
    "encode_error",
    "encode_predict",
    "encode_regress",
]
