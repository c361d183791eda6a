"""Models with one known reason each for an edge between two kernels, and models without such an edge."""

from dataclasses import dataclass, field

import numpy as np
from fused import model
from fusion_case import draw
from onnx import TensorProto, helper

LAST = np.array([-1])


@dataclass
class Blocked:
    name: str
    rule: str
    edge: tuple[str, str]  # the ops of producer and consumer
    text: str  # the model, or what makes it
    constants: dict = field(default_factory=dict)
    ranges: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)
    says: tuple = ()  # words of the reason or the fix
    opset: int = 21

    def __str__(self):
        return self.name

    def model(self):
        return self.text() if callable(self.text) else model(self.text, self.constants, self.opset)


def lone(op: str, node: str, rule: str = "op-not-generated", **more) -> Blocked:
    """An op that no kernel takes, between two that any would: t is what it reads, z what it gives."""
    text = f"g (float[N,8,16] x) => (float[{more.pop('out', 'N,8,16')}] y) {{ t = Tanh (x) {node} y = Exp (z) }}"
    return Blocked(more.pop("name", op), rule, ("Tanh", op), text, ranges={"x": (2, 8, 16)}, says=(op,), **more)


def loop(op: str) -> Blocked:
    value = helper.make_tensor_value_info
    inside = [helper.make_node("Add", ["v", "t"], ["w"]), helper.make_node("Identity", ["go"], ["on"])]
    carried = [value("v", TensorProto.FLOAT, ["N", 8])]
    if op == "Loop":
        body = helper.make_graph(
            inside,
            "body",
            [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), *carried],
            [value("on", TensorProto.BOOL, []), value("w", TensorProto.FLOAT, ["N", 8])],
        )
        node = helper.make_node("Loop", ["n", "", "t"], ["z"], body=body)
        fed = [value("x", TensorProto.FLOAT, ["N", 8]), value("n", TensorProto.INT64, [])]
    elif op == "If":
        body = helper.make_graph([helper.make_node("Add", ["t", "t"], ["a"])], "a", [], [value("a", 1, ["N", 8])])
        other = helper.make_graph([helper.make_node("Neg", ["t"], ["b"])], "b", [], [value("b", 1, ["N", 8])])
        node = helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=other)
        fed = [value("x", TensorProto.FLOAT, ["N", 8]), value("c", TensorProto.BOOL, [])]
    else:
        body = helper.make_graph(
            [helper.make_node("Add", ["s", "row"], ["w"]), helper.make_node("Neg", ["w"], ["out"])],
            "body",
            [value("s", TensorProto.FLOAT, [8]), value("row", TensorProto.FLOAT, [8])],
            [value("w", TensorProto.FLOAT, [8]), value("out", TensorProto.FLOAT, [8])],
        )
        node = helper.make_node("Scan", ["s0", "t"], ["last", "z"], num_scan_inputs=1, body=body)
        fed = [value("x", TensorProto.FLOAT, ["N", 8]), value("s0", TensorProto.FLOAT, [8])]
    nodes = [helper.make_node("Tanh", ["x"], ["t"]), node, helper.make_node("Exp", ["z"], ["y"])]
    graph = helper.make_graph(nodes, "g", fed, [value("y", TensorProto.FLOAT, ["N", 8])])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


def controlled(op: str) -> Blocked:
    return Blocked(op, "control-flow", ("Tanh", op), lambda: loop(op), ranges={"x": (2, 8)}, says=(op,))


RNN = {"w": draw(1, 64, 16), "r": draw(1, 64, 16)}
GRU = {"w": draw(1, 48, 16), "r": draw(1, 48, 16)}
SQUARE = {"w": draw(16, 16), "v": draw(16, 16)}
IN = {"x": (2, 8, 16)}
OPEN = "g (float[N,8,16] x) => (float[N,8,16] y)"
CHAIN = " ".join(f"v{i + 1} = {'Sub' if i % 2 else 'Mul'} (v{i}, k)" for i in range(250))

BLOCKED = [
    # Sizes that data decides.
    lone("NonZero", "i = NonZero (t) z = Cast <to = 1> (i)", "data-dependent-shape", out="3,P"),
    Blocked(
        "Compress",
        "data-dependent-shape",
        ("Tanh", "Compress"),
        "g (float[N,8,16] x, bool[8] some) => (float[N,P,16] y)"
        "{ t = Tanh (x) z = Compress <axis = 1> (t, some) y = Exp (z) }",
        ranges=IN,
        says=("Compress", "from data"),
    ),
    lone("Unique", "z, i, j, c = Unique (t)", "data-dependent-shape", out="P"),
    Blocked(
        "Tile by a fed count",
        "data-dependent-shape",
        ("Tanh", "Tile"),
        "g (float[N,8] x, int64[2] r) => (float[P,Q] y) { t = Tanh (x) z = Tile (t, r) y = Exp (z) }",
        ranges={"x": (2, 8)},
        says=("Tile",),
    ),
    # Operators that no kernel takes.
    lone(
        "LSTM",
        "s, h, c = LSTM <hidden_size = 16> (t, w, r) z = Squeeze (s, one)",
        constants={**RNN, "one": LAST * 0 + 1},
    ),
    lone("GRU", "s, h = GRU <hidden_size = 16> (t, w, r) z = Squeeze (s, one)", constants={**GRU, "one": LAST * 0 + 1}),
    lone("TopK", "z, i = TopK (t, k)", constants={"k": np.array([16])}),
    lone("CumSum", "z = CumSum (t, one)", constants={"one": np.array(1)}),
    lone("LRN", "z = LRN <size = 3> (t)"),
    Blocked(
        "DFT",
        "op-not-generated",
        ("DFT", "ReduceSum"),
        OPEN + "{ u = Unsqueeze (x, last) d = DFT (u) z = ReduceSum <keepdims = 0> (d, last) y = Exp (z) }",
        {"last": LAST},
        IN,
    ),
    lone(
        "ScatterElements",
        "z = ScatterElements <axis = 1> (t, i, u)",
        constants={"i": np.zeros((1, 1, 1), np.int64), "u": draw(1, 1, 1)},
    ),
    lone("RandomUniformLike", "z = RandomUniformLike <seed = 1.0> (t)"),
    Blocked(
        "Det",
        "op-not-generated",
        ("Tanh", "Det"),
        "g (float[N,8,8] x) => (float[N] y) { t = Tanh (x) z = Det (t) y = Exp (z) }",
        ranges={"x": (2, 8, 8)},
    ),
    # Bodies.
    controlled("If"),
    controlled("Loop"),
    controlled("Scan"),
    # Libraries.
    Blocked(
        "into a MatMul",
        "library-input",
        ("Tanh", "MatMul"),
        OPEN + "{ t = Tanh (x) y = MatMul (t, w) }",
        SQUARE,
        IN,
        says=("MatMul", "epilogue"),
    ),
    Blocked(
        "into a Conv",
        "library-input",
        ("Tanh", "Conv"),
        OPEN + "{ t = Tanh (x) y = Conv (t, w) }",
        {"w": draw(8, 8, 1)},
        IN,
        {"disable": ["layout_nhwc"]},
    ),
    Blocked(
        "MatMul, Softmax",
        "library-epilogue",
        ("MatMul", "Softmax"),
        OPEN + "{ m = MatMul (x, w) y = Softmax (m) }",
        SQUARE,
        IN,
        says=("Softmax",),
    ),
    Blocked(
        "MatMul, a larger Add",
        "library-epilogue",
        ("MatMul", "Add"),
        "g (float[8,16] x, float[N,8,16] b) => (float[N,8,16] y) { m = MatMul (x, w) y = Add (m, b) }",
        SQUARE,
        {"b": (2, 8, 16)},
        says=("[8,16]", "[2,8,16]"),
    ),
    Blocked(
        "MatMul, to half",
        "library-epilogue",
        ("MatMul", "Cast"),
        "g (float[N,8,16] x) => (float16[N,8,16] y) { m = MatMul (x, w) y = Cast <to = 10> (m) }",
        SQUARE,
        IN,
        says=("float16",),
    ),
    Blocked(
        "MatMul that is an output",
        "library-shared",
        ("MatMul", "Tanh"),
        "g (float[N,8,16] x) => (float[N,8,16] y, float[N,8,16] m) { m = MatMul (x, w) y = Tanh (m) }",
        SQUARE,
        IN,
        says=("output",),
    ),
    Blocked(
        "MatMul with two readers",
        "library-shared",
        ("MatMul", "Tanh"),
        OPEN + "{ m = MatMul (x, w) t = Tanh (m) e = Exp (m) y = Add (t, e) }",
        SQUARE,
        IN,
        says=("2 nodes",),
    ),
    Blocked(
        "MatMul, MatMul",
        "library-pair",
        ("MatMul", "MatMul"),
        OPEN + "{ m = MatMul (x, w) y = MatMul (m, v) }",
        SQUARE,
        IN,
    ),
    # Dims.
    Blocked(
        "N and M",
        "dims-not-equal",
        ("Tanh", "Mul"),
        "g (float[N,16] x, float[M,16] b) => (float[P,16] y) { t = Tanh (x) e = Exp (b) y = Mul (t, e) }",
        {},
        {"x": ((1, 16), (8, 16), (9, 16)), "b": ((1, 16), (8, 16), (9, 16))},
        says=("dim 0 of input x (N)", "dim 0 of input b (M)"),
    ),
    Blocked(
        "N and 8",
        "dims-not-equal",
        ("Tanh", "Mul"),
        "g (float[N,16] x, float[8,16] b) => (float[8,16] y) { t = Tanh (x) y = Mul (t, b) }",
        {},
        {"x": ((1, 16), (8, 16), (8, 16))},
        says=("make dim 0 of input x (N) static at 8",),
    ),
    Blocked(
        "unknown rank",
        "unknown-rank",
        ("Tanh", "Exp"),
        "g (float[N,16] x, int64[K] s) => (float y)"
        "{ t = Tanh (x) r = Reshape (t, s) e = Exp (r) n = Neg (e) y = ReduceSum <keepdims = 0> (n) }",
        {},
        {"x": (2, 16)},
        says=("rank",),
    ),
    # Types.
    Blocked(
        "Exp in double",
        "type-not-generated",
        ("Exp", "Mul"),
        "g (double[N,16] x) => (double[N,16] y) { e = Exp (x) y = Mul (e, x) }",
        {},
        {"x": (2, 16)},
        says=("float64",),
    ),
    Blocked(
        "strings",
        "type-not-generated",
        ("Equal", "Cast"),
        "g (string[N] s, string[N] r) => (float[N] y) { q = Equal (s, r) c = Cast <to = 1> (q) y = Neg (c) }",
        {},
        {"s": (4,), "r": (4,)},
        says=("string",),
    ),
    Blocked(
        "float8",
        "type-not-generated",
        ("Tanh", "Cast"),
        OPEN + "{ t = Tanh (x) h = Cast <to = 17> (t) b = Cast <to = 1> (h) y = Exp (b) }",
        {},
        IN,
        says=("float8",),
    ),
    # Rows.
    Blocked(
        "axes that are fed",
        "axes-not-constant",
        ("Neg", "ReduceSum"),
        "g (float[N,16] x, int64[1] a) => (float[P,Q] y) { n = Neg (x) r = ReduceSum (n, a) y = Exp (r) }",
        {},
        {"x": (2, 16)},
        says=("constant",),
    ),
    Blocked(
        "statistics of a norm",
        "several-outputs",
        ("Neg", "LayerNormalization"),
        "g (float[N,16] x, float[16] s) => (float[N,16] y, float[N,1] m)"
        "{ n = Neg (x) y, m = LayerNormalization (n, s) }",
        {},
        {"x": (2, 16)},
    ),
    Blocked(
        "a norm and a softmax",
        "reductions-differ",
        ("LayerNormalization", "Softmax"),
        OPEN + "{ n = LayerNormalization <axis = -2> (x, s) y = Softmax (n) }",
        {"s": draw(8, 16)},
        IN,
        says=("Softmax", "LayerNormalization"),
    ),
    Blocked(
        "a softmax and a sum",
        "reductions-differ",
        ("Softmax", "ReduceSum"),
        "g (float[N,8,16] x) => (float[N,1,1] y) { s = Softmax (x) y = ReduceSum (s, two) }",
        {"two": np.array([1, 2])},
        IN,
        says=("[1,2]",),
    ),
    Blocked(
        "a fed exponent",
        "exponent",
        ("Tanh", "Pow"),
        "g (float[N,16] x, float[N,16] p) => (float[N,16] y) { t = Tanh (x) y = Pow (t, p) }",
        {},
        {"x": (2, 16), "p": (2, 16)},
    ),
    Blocked(
        "250 operators",
        "region-too-large",
        ("Sub", "Mul"),
        f"g (float[N,16] v0) => (float[N,16] v250) {{ {CHAIN} }}",
        {"k": draw(1)},
        {"v0": (2, 16)},
        says=("96",),
    ),
    # What was asked for.
    Blocked(
        "regions off",
        "fusion-off",
        ("Tanh", "Exp"),
        OPEN + "{ t = Tanh (x) y = Exp (t) }",
        {},
        IN,
        {"disable": ["regions"]},
    ),
    Blocked("no tuning", "not-tuned", ("Tanh", "Exp"), OPEN + "{ t = Tanh (x) y = Exp (t) }", {}, IN, {"tune": False}),
    Blocked(
        "the reference forced",
        "tactic-forced",
        ("Tanh", "Exp"),
        OPEN + "{ t = Tanh (x) y = Exp (t) }",
        {},
        IN,
        {"force_tactic": "reference"},
    ),
]

CLEAN = {
    "a chain": (OPEN + "{ t = Tanh (x) e = Exp (t) y = Mul (e, x) }", {}),
    "a norm with neighbours": (
        OPEN + "{ t = Relu (x) n = LayerNormalization (t, s) y = Add (n, x) }",
        {"s": draw(16)},
    ),
    "a product with its epilogue": (
        OPEN + "{ m = MatMul (x, w) b = Add (m, c) y = Relu (b) }",
        {"w": draw(16, 16), "c": draw(16)},
    ),
    "one operator": (OPEN + "{ y = Softmax (x) }", {}),
    "sizes from shapes": (
        "g (float[N,8,16] x) => (float[N,128] y)"
        "{ s = Shape <start = 0, end = 1> (x) d = Concat <axis = 0> (s, rest) t = Tanh (x) y = Reshape (t, d) }",
        {"rest": np.array([-1])},
    ),
    "views at the ends": (
        "g (float[N,8,16] x) => (float[N,8,16,1] y)"
        "{ f = Flatten (x) t = Tanh (f) r = Reshape (t, s) y = Unsqueeze (r, l) }",
        {"s": np.array([-1, 8, 16]), "l": LAST},
    ),
}
