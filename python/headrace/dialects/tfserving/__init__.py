"""TensorFlow Serving's REST API: its targets, its error bodies, its status and metadata answers.

Pure functions over the core's types; sockets, workers and the other dialects are unknown here.
Spec: the RESTful API as TensorFlow Serving 2.20 behaves, which its pages do not always say.
"""

from headrace.dialects.tfserving.errors import Failure, failure_of
from headrace.dialects.tfserving.routes import Route, parse_target

__all__ = ["Failure", "Route", "failure_of", "parse_target"]
