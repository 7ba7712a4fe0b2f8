"""JSON request bodies to tensors, and tensors to JSON response bodies."""

from headrace.codec.decode import PredictRequest, check_predict, decode_predict

__all__ = ["PredictRequest", "check_predict", "decode_predict"]
