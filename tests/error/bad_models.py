"""Models that are wrong in one way each: BAD_MODELS lists them with the error they must give.

Every entry is (name, code, words the message must hold, function that makes the bytes). bad_nodes.py adds those with
wrong nodes.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
CULPRIT = "the_culprit"  # the name of the wrong node


class BadModel(NamedTuple):
    name: str
    code: int
    words: tuple[str, ...]
    make: Callable[[], bytes]


BAD_MODELS: list[BadModel] = []


def bad(code: int, *words: str):
    """Registers the decorated function, which returns bytes or a ModelProto."""

    def register(make):
        def serialized() -> bytes:
            made = make()
            return made if isinstance(made, bytes) else made.SerializeToString()

        BAD_MODELS.append(BadModel(make.__name__, code, words, serialized))
        return make

    return register


def value(name: str, shape, dtype: int = FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def node(op: str, inputs: list[str], outputs: list[str], name: str = CULPRIT, **attributes):
    return helper.make_node(op, inputs, outputs, name=name, **attributes)


def model(nodes, inputs, outputs, initializers=(), opset: int = 17, ir: int = 8, opsets=None) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    opsets = opsets if opsets is not None else [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir)


def one(op: str, *shapes, dtype: int = FLOAT, opset: int = 17, constants: dict | None = None, **attributes):
    """A model of one node: inputs a, b, c ... of the given shapes, then the constants, output y."""
    inputs = [value(chr(ord("a") + k), shape, dtype) for k, shape in enumerate(shapes)]
    constants = constants or {}
    made = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    names = [i.name for i in inputs] + list(constants)
    return model([node(op, names, ["y"], **attributes)], inputs, [value("y", None)], made, opset)


def good() -> onnx.ModelProto:
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    nodes = [node("MatMul", ["x", "w"], ["h"], "first"), node("Relu", ["h"], ["y"], "second")]
    return model(nodes, [value("x", ["N", 3])], [value("y", ["N", 4])], [numpy_helper.from_array(weights, "w")])


# Bytes


@bad(101)
def empty():
    return b""


@bad(101)
def text_instead_of_model():
    return b"this is not a model\n" * 20


@bad(101)
def noise():
    return np.random.default_rng(3).integers(128, 256, 4096, dtype=np.uint8).tobytes()


@bad(101)
def web_page():
    return b"<!DOCTYPE html><html><body>404 Not Found</body></html>"


@bad(101)
def no_graph():
    return onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)])


@bad(102)
def truncated_in_the_middle():
    data = good().SerializeToString()
    return data[: len(data) // 2]


@bad(102)
def truncated_by_one_byte():
    return good().SerializeToString()[:-1]


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


@bad(104)
def nested_too_deep():
    """300 subgraphs, one in the other, written by hand as Python's protobuf refuses them."""
    graph = field(2, b"leaf")
    for _ in range(300):
        attribute = field(1, b"then_branch") + field(6, graph) + varint(20 << 3) + varint(5)
        graph = field(1, field(4, b"If") + field(5, attribute)) + field(2, b"g")
    return varint(1 << 3) + varint(8) + field(8, varint(2 << 3) + varint(17)) + field(7, graph)


def patched(old: bytes, new: bytes) -> bytes:
    assert len(old) == len(new)
    data = good().SerializeToString()
    assert old in data
    return data.replace(old, new)


@bad(105)
def node_name_not_utf8():
    return patched(b"second", b"se\xff\xfend")


@bad(105)
def value_name_not_utf8():
    broken = good()
    for n in broken.graph.node:
        for k, name in enumerate(n.input):
            n.input[k] = "hidden" if name == "h" else name
        for k, name in enumerate(n.output):
            n.output[k] = "hidden" if name == "h" else name
    return broken.SerializeToString().replace(b"hidden", b"hid\xc3\x28n")


# Names and order


@bad(201)
def two_nodes_in_a_cycle():
    nodes = [node("Add", ["x", "q"], ["p"], "first"), node("Relu", ["p"], ["q"], "second")]
    return model(nodes, [value("x", [2])], [value("q", [2])])


@bad(201)
def node_that_reads_itself():
    return model([node("Add", ["x", "y"], ["y"])], [value("x", [2])], [value("y", [2])])


@bad(202, "x")
def two_inputs_of_one_name():
    return model([node("Relu", ["x"], ["y"])], [value("x", [2]), value("x", [2])], [value("y", [2])])


@bad(202, "w")
def two_initializers_of_one_name():
    twins = [numpy_helper.from_array(np.full(2, k, np.float32), "w") for k in (1, 2)]
    return model([node("Add", ["x", "w"], ["y"])], [value("x", [2])], [value("y", [2])], twins)


@bad(202, "y")
def two_nodes_that_write_one_value():
    nodes = [node("Relu", ["x"], ["y"], "first"), node("Neg", ["x"], ["y"], "second")]
    return model(nodes, [value("x", [2])], [value("y", [2])])


@bad(202, "x")
def node_that_writes_an_input():
    return model([node("Relu", ["x"], ["x"])], [value("x", [2])], [value("x", [2])])


@bad(202, "w")
def node_that_writes_an_initializer():
    made = [numpy_helper.from_array(np.ones(2, np.float32), "w")]
    return model([node("Relu", ["x"], ["w"])], [value("x", [2])], [value("w", [2])], made)


@bad(202, "p")
def node_with_one_output_twice():
    return model([node("Split", ["x"], ["p", "p"], axis=0)], [value("x", [4])], [value("p", [2])])


@bad(204, "ghost")
def node_reads_undefined_value():
    return model([node("Add", ["x", "ghost"], ["y"])], [value("x", [2])], [value("y", [2])])


@bad(204, "ghost")
def output_that_nobody_makes():
    return model([node("Relu", ["x"], ["y"])], [value("x", [2])], [value("ghost", [2])])


# Constant data


@bad(210)
def raw_data_too_short():
    broken = good()
    broken.graph.initializer[0].raw_data = b"\0" * 20
    return broken


@bad(210)
def raw_data_too_long():
    broken = good()
    broken.graph.initializer[0].raw_data = b"\0" * 52
    return broken


@bad(210)
def float_data_count_differs():
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[3, 4], float_data=[1.0, 2.0])
    broken = good()
    broken.graph.initializer[0].CopyFrom(tensor)
    return broken


@bad(210)
def negative_dim():
    broken = good()
    broken.graph.initializer[0].dims[:] = [-3, 4]
    return broken
