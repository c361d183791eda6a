"""Models for the tests of the profile: what each is made of is known, so that a profile can be checked against it."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

RNG = np.random.default_rng(7)


def text_model(text: str, **constants: np.ndarray) -> onnx.ModelProto:
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    for name, value in constants.items():
        made.graph.initializer.append(numpy_helper.from_array(value, name))
    for graph in graphs_of(made.graph):
        for i, node in enumerate(graph.node):
            node.name = node.name or f"{graph.name}_{node.op_type}_{i}"
    return made


def graphs_of(graph) -> list:
    """The graph and those of its bodies."""
    found = [graph]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                found += graphs_of(attribute.g)
    return found


def node_names(model: onnx.ModelProto) -> list[str]:
    return [node.name for graph in graphs_of(model.graph) for node in graph.node]


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def mlp() -> onnx.ModelProto:
    return text_model(
        "mlp (float[N,64] x) => (float[N,32] y)"
        "{ a = MatMul (x, w1) b = Add (a, b1) c = Relu (b) d = MatMul (c, w2) y = Softmax (d) }",
        w1=floats(64, 128), b1=floats(128), w2=floats(128, 32),
    )  # fmt: skip


def convolution() -> onnx.ModelProto:
    return text_model(
        "conv (float[N,3,32,32] x) => (float[N,8,16,16] y)"
        "{ a = Conv <pads = [1,1,1,1]> (x, w) b = Relu (a)"
        "  y = MaxPool <kernel_shape = [2,2], strides = [2,2]> (b) }",
        w=floats(8, 3, 3, 3),
    )  # fmt: skip


def chain() -> onnx.ModelProto:
    return text_model(
        "chain (float[N,256] x, float[256] s) => (float[N,256] y, float[N,1] m)"
        "{ a = Mul (x, s) b = Tanh (a) m = ReduceMean (b, last) y = Sub (b, m) }",
        last=np.array([-1]),
    )  # fmt: skip


def gathered() -> onnx.ModelProto:
    """A table that is only picked from, and results whose shape depends on data."""
    return text_model(
        "gathered (int64[N] ids, float[N] x) => (float[N,16] y, int64[1,K] z)"
        "{ y = Gather (table, ids) z = NonZero (x) }",
        table=floats(1000, 16),
    )  # fmt: skip


def loop(trips: int = 7) -> onnx.ModelProto:
    """y = x with its tanh added `trips` times, in a Loop."""
    f, b, i = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Tanh", ["state"], ["t"], name="body_tanh"),
            helper.make_node("Add", ["state", "t"], ["next"], name="body_add"),
            helper.make_node("Identity", ["going"], ["goes_on"], name="body_going"),
        ],
        "body",
        [info("i", i, []), info("going", b, []), info("state", f, ["N", 64])],
        [info("goes_on", b, []), info("next", f, ["N", 64])],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["trips", "", "x"], ["y"], name="the_loop", body=body)],
        "loop",
        [info("x", f, ["N", 64])],
        [info("y", f, ["N", 64])],
        [numpy_helper.from_array(np.array(trips), "trips")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def branches() -> onnx.ModelProto:
    """Which branch is taken depends on data."""
    f, b = TensorProto.FLOAT, TensorProto.BOOL
    info = helper.make_tensor_value_info

    def branch(name: str, op: str):
        return helper.make_graph(
            [helper.make_node(op, ["x"], [name], name=f"{name}_{op}")], name, [], [info(name, f, ["N", 64])]
        )

    graph = helper.make_graph(
        [
            helper.make_node(
                "If", ["way"], ["y"], name="the_if", then_branch=branch("t", "Exp"), else_branch=branch("e", "Neg")
            )
        ],
        "branches",
        [info("x", f, ["N", 64]), info("way", b, [1])],
        [info("y", f, ["N", 64])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def same() -> onnx.ModelProto:
    """An output that is an input is copied."""
    return text_model("same (float[N,4] x) => (float[N,4] y) { y = Identity (x) }")
