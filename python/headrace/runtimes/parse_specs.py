"""What a graph expects in the serialized Examples that it is fed: the features it parses as floats.

JSON does not tell ``1`` from ``1.0`` where a client writes numbers as they come, but an Example
does, and a graph refuses an integer where it parses a float. Knowing the graph's parse operations,
a server can send what the client meant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import types_pb2

__all__ = ["ParseSpecs"]

_PASSING = ("Identity", "IdentityN", "Placeholder", "PlaceholderWithDefault", "EnsureShape")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


class ParseSpecs:
    """The parse operations of one GraphDef, those within functions included."""

    def __init__(self, graph_def: Any) -> None:
        self._functions = {each.signature.name: each for each in graph_def.library.function}
        self._bodies: dict[str, _Body] = {}
        self._graph_def = graph_def

    def float_features(self, tensor: str) -> frozenset[str]:
        """Features that are parsed as floats, and as nothing else, out of a tensor such as ``x:0``.

        Empty where that cannot be told.
        """
        floats: set[str] = set()
        others: set[str] = set()
        waiting = [("", tensor.partition(":")[0])]
        seen = set(waiting)
        while waiting:
            function, name = waiting.pop()
            body = self._body(function)
            for node, position in body.consumers[name]:
                found: list[tuple[str, str]] = []
                if node.op in _PASSING:
                    found = [(function, node.name)]
                elif node.op in _CALLS:
                    found = self._argument(node.attr["f"].func.name, position)
                elif position == 0:
                    for key, dtype in body.parsed(node):
                        (floats if dtype == types_pb2.DT_FLOAT else others).add(key)
                waiting += [place for place in found if place not in seen]
                seen.update(found)
        return frozenset(floats - others)

    def _body(self, function: str) -> _Body:
        if function not in self._bodies:
            nodes = self._functions[function].node_def if function else self._graph_def.node
            self._bodies[function] = _Body(nodes)
        return self._bodies[function]

    def _argument(self, function: str, position: int) -> list[tuple[str, str]]:
        if function not in self._functions:
            return []
        return [(function, self._functions[function].signature.input_arg[position].name)]


class _Body:
    """The nodes of a graph or of a function."""

    def __init__(self, nodes: Iterable[Any]) -> None:
        self.consumers: dict[str, list[tuple[Any, int]]] = defaultdict(list)
        self._nodes = {}
        for node in nodes:
            self._nodes[node.name] = node
            for position, name in enumerate(node.input):
                self.consumers[_producer(name)].append((node, position))

    def parsed(self, node: Any) -> Iterator[tuple[str, int]]:
        """Features that a node parses out of its first input, and the number of each one's type."""
        attr = node.attr
        match node.op:
            case "ParseExample":
                sparse_end = 2 + attr["Nsparse"].i
                sparse = self._strings(node.input[2:sparse_end])
                dense = self._strings(node.input[sparse_end : sparse_end + attr["Ndense"].i])
                ragged = []
            case "ParseExampleV2":
                sparse, dense, ragged = (self._strings([name]) for name in node.input[2:5])
            case "ParseSingleExample":
                sparse, dense = _list(attr["sparse_keys"]), _list(attr["dense_keys"])
                ragged = []
            case _:
                return
        for keys, types in (
            (sparse, "sparse_types"),
            (dense, "Tdense"),
            (ragged, "ragged_value_types"),
        ):
            yield from zip(keys, attr[types].list.type, strict=False)

    def _strings(self, names: Iterable[str]) -> list[str]:
        """The strings that constants hold; none if one of them is no constant."""
        found: list[str] = []
        for name in names:
            node = self._nodes.get(_producer(name))
            if node is None or node.op != "Const":
                return []
            array = tf.make_ndarray(node.attr["value"].tensor)
            found += [key.decode("utf-8", "replace") for key in array.ravel()]
        return found


def _producer(name: str) -> str:
    return name.removeprefix("^").partition(":")[0]


def _list(attr: Any) -> list[str]:
    return [key.decode("utf-8", "replace") for key in attr.list.s]
