"""Models made to hurt: HOSTILE lists them with the error they must give, at once and in bounded memory.

Large ones are put together as protobuf bytes by hand: Python's protobuf would take longer than the importer, or refuse.
"""

import numpy as np
import onnx
from bad_models import INT64, BadModel, field, good, model, node, value, varint
from onnx import TensorProto, helper, numpy_helper

HOSTILE: list[BadModel] = []
OPSET = varint(1 << 3) + varint(8) + field(8, varint(2 << 3) + varint(17))


def hostile(code: int, *words: str):
    def register(make):
        HOSTILE.append(BadModel(make.__name__, code, words, make))
        return make

    return register


def graph_bytes(*fields: bytes) -> bytes:
    return OPSET + field(7, b"".join(fields))


def serialized(made: onnx.ModelProto) -> bytes:
    return made.SerializeToString()


# Counts: few bytes in the file, many in memory


@hostile(103, "nodes")
def a_million_nodes_of_two_bytes():
    return graph_bytes(field(1, b"") * 1_000_001)


@hostile(103, "parts")
def millions_of_empty_initializers():
    return graph_bytes(field(5, b"") * 4_000_001)


@hostile(103, "texts")
def millions_of_empty_names():
    return graph_bytes(field(1, field(1, b"") * 16_000_001))


@hostile(103, "parts")
def millions_of_dims():
    shape = field(2, field(1, b"") * 4_000_001)
    return graph_bytes(field(11, field(2, field(1, shape))))


# Depth


def nested(prefixes: list[bytes], levels: int, core: bytes) -> bytes:
    """`core` inside `levels` times prefix + length + ..., the innermost prefix first."""
    pieces, size = [core], len(core)
    for k in range(levels):
        head = prefixes[k % len(prefixes)] + varint(size)
        pieces.append(head)
        size += len(head)
    return b"".join(reversed(pieces))


def tag(number: int) -> bytes:
    return varint(number << 3 | 2)


@hostile(104)
def subgraphs_nested_10000_deep():
    attribute = field(1, b"then_branch") + varint(20 << 3) + varint(5) + tag(6)
    prefixes = [attribute, field(4, b"If") + tag(5), field(2, b"g") + tag(1)]
    return OPSET + tag(7) + (lambda g: varint(len(g)) + g)(nested(prefixes, 3 * 10_000, field(2, b"leaf")))


@hostile(104)
def types_nested_10000_deep():
    kind = nested([tag(1), tag(4)], 2 * 10_000, b"")
    return graph_bytes(field(11, field(1, b"x") + field(2, kind)))


@hostile(101)
def groups_nested_10000_deep():
    return graph_bytes(varint(99 << 3 | 3) * 10_000)


@hostile(104)
def nine_loops_in_each_other():
    return serialized(loops(9, 1))


@hostile(103, "loops")
def eight_loops_around_many_nodes():
    return serialized(loops(8, 400))


def loops(depth: int, work: int) -> onnx.ModelProto:
    def body(level: int):
        inputs = [value(f"i{level}", [], INT64), value(f"c{level}", [], TensorProto.BOOL)]
        nodes = [node("Identity", [f"c{level}"], [f"k{level}"], f"keep{level}")]
        if level + 1 < depth:
            nodes.append(node("Loop", ["n", ""], [f"y{level}"], f"loop{level}", body=body(level + 1)))
        else:
            nodes += [node("Neg", ["x"], [f"t{k}"], f"work{k}") for k in range(work)]
            nodes.append(node("Abs", ["x"], [f"y{level}"], "end"))
        outputs = [value(f"k{level}", [], TensorProto.BOOL), value(f"y{level}", None)]
        return helper.make_graph(nodes, f"body{level}", inputs, outputs)

    nodes = [node("Loop", ["n", ""], ["y"], "outer", body=body(0))]
    return model(nodes, [value("x", [2]), value("n", [], INT64)], [value("y", None)])


# Functions


def function(name: str, calls: list[str], extra=()):
    """A function of one input and output that calls others one after the other."""
    names = ["a"] + [f"t{k}" for k in range(len(calls) - 1)] + ["b"]
    nodes = list(extra)
    for k, call in enumerate(calls):
        domain = "" if call[0].isupper() else "my"
        nodes.append(helper.make_node(call, [names[k]], [names[k + 1]], name=f"call{k}", domain=domain))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    return helper.make_function("my", name, ["a"], ["b"], nodes, opsets)


def with_functions(functions) -> bytes:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    made = model(
        [helper.make_node("f0", ["x"], ["y"], domain="my")], [value("x", [2])], [value("y", [2])], opsets=opsets
    )
    made.functions.extend(functions)
    return serialized(made)


@hostile(201, "f0 -> f1 -> f2 -> f0")
def functions_in_a_ring():
    return with_functions([function(f"f{k}", [f"f{(k + 1) % 3}"]) for k in range(3)])


@hostile(201, "f0 -> f0")
def function_that_calls_itself_twice():
    return with_functions([function("f0", ["f0", "f0"])])


@hostile(103, "inlined")
def exponential_inlining():
    """2^40 nodes."""
    return with_functions([function(f"f{k}", [f"f{k + 1}"] * 2) for k in range(40)] + [function("f40", ["Relu"])])


@hostile(103, "inlined")
def exponential_inlining_of_data():
    """A megabyte, 2^14 times."""
    data = helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.ones(1 << 18, np.float32)))
    chain = [function(f"f{k}", [f"f{k + 1}"] * 2) for k in range(14)]
    return with_functions([*chain, function("f14", ["Relu"], [data])])


@hostile(104)
def calls_nested_200_deep():
    return with_functions([function(f"f{k}", [f"f{k + 1}"]) for k in range(200)] + [function("f200", ["Relu"])])


# Dims


def shape_arithmetic(steps, inputs, start: str = "s0") -> bytes:
    """`steps` on the shape of x, then a tensor of the shape they give."""
    nodes = [node("Shape", [name], [f"s{k}"], f"shape{k}") for k, name in enumerate(inputs)]
    nodes += steps + [node("ConstantOfShape", [steps[-1].output[0]], ["y"], "end")]
    return serialized(model(nodes, [value(n, [f"D{n}"]) for n in inputs], [value("y", None)]))


@hostile(103, "symbolic")
def dims_squared_40_times():
    names = ["s0"] + [f"m{k}" for k in range(40)]
    steps = [node("Mul", [names[k]] * 2, [names[k + 1]], names[k + 1]) for k in range(40)]
    return shape_arithmetic(steps, ["x"])


@hostile(103, "symbolic")
def dims_of_a_million_terms():
    """(a0 + b0) (a1 + b1) ... expanded."""
    inputs = [f"x{k}" for k in range(40)]
    steps = [node("Add", [f"s{2 * k}", f"s{2 * k + 1}"], [f"p{k}"], f"p{k}") for k in range(20)]
    steps += [node("Mul", ["p0" if k == 1 else f"q{k - 1}", f"p{k}"], [f"q{k}"], f"q{k}") for k in range(1, 20)]
    return shape_arithmetic(steps, inputs)


@hostile(103, "symbolic")
def dims_divided_by_each_other():
    """q = (q + 1) / q doubles the text of q each time."""
    one = node("Constant", [], ["one"], "one", value_ints=[1])
    steps = [one]
    last = "s0"
    for k in range(40):
        steps += [node("Add", [last, "one"], [f"a{k}"], f"a{k}"), node("Div", [f"a{k}", last], [f"d{k}"], f"d{k}")]
        last = f"d{k}"
    return shape_arithmetic(steps, ["x"])


def constant_data(dims, raw: bytes = b"") -> bytes:
    broken = good()
    broken.graph.initializer[0].dims[:] = dims
    broken.graph.initializer[0].raw_data = raw
    return serialized(broken)


@hostile(207)
def initializer_whose_size_wraps_to_zero():
    return constant_data([1 << 32, 1 << 32])


@hostile(207)
def initializer_whose_size_wraps_to_its_data():
    """2^62 + 3 floats are 12 bytes, modulo 2^64."""
    return constant_data([(1 << 62) + 3], b"\0" * 12)


@hostile(207)
def empty_initializer_with_large_strides():
    return constant_data([0, 1 << 40, 1 << 40])


@hostile(103, "rank")
def initializer_of_rank_1000():
    return constant_data([1] * 1000, b"\0" * 4)


@hostile(102)
def raw_data_longer_than_the_file():
    tensor = field(8, b"w") + varint(2 << 3) + varint(1) + tag(9) + varint(1 << 62)
    return OPSET + tag(7) + varint(1 << 62) + tag(5) + varint(1 << 61) + tensor


# Sparse tensors


def sparse(dims, count: int = 1) -> bytes:
    made = good()
    for k in range(count):
        values = numpy_helper.from_array(np.ones(1, np.float32), f"sparse{k}")
        indices = numpy_helper.from_array(np.zeros(1, np.int64), f"indices{k}")
        made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, dims))
    return serialized(made)


@hostile(103, "expanded")
def sparse_tensor_of_a_terabyte():
    return sparse([1 << 38])


@hostile(207)
def sparse_tensor_whose_size_overflows():
    return sparse([1 << 40, 1 << 40])


@hostile(103, "expanded")
def sparse_tensors_of_a_terabyte_together():
    return sparse([1 << 24], 1 << 14)


# Names


BAD_UTF8 = {
    "lone_continuation": b"\x80abc",
    "overlong": b"\xc0\xafab",
    "surrogate": b"\xed\xa0\x80a",
    "above_unicode": b"\xf4\x90\x80\x80",
    "cut_short": b"abc\xe2",
}
HOSTILE += [
    BadModel(f"value_name_{name}", 105, (), lambda text=text: graph_bytes(field(1, field(2, text) + field(4, b"Relu"))))
    for name, text in BAD_UTF8.items()
]


@hostile(105)
def operator_not_utf8():
    return graph_bytes(field(1, field(2, b"y") + field(4, b"Re\xfflu")))


@hostile(105)
def domain_not_utf8():
    return graph_bytes(field(1, field(2, b"y") + field(4, b"Relu") + field(7, b"\xff")))


@hostile(105)
def dimension_not_utf8():
    kind = field(1, varint(1 << 3) + varint(1) + field(2, field(1, field(2, b"N\xff"))))
    return graph_bytes(field(11, field(1, b"x") + field(2, kind)))


@hostile(105)
def graph_name_not_utf8():
    return graph_bytes(field(2, b"\xfe\xfe"))


@hostile(103, "bytes long")
def name_of_70000_bytes():
    return serialized(model([node("Relu", ["x"], ["y"], "n" * 70_000)], [value("x", [2])], [value("y", [2])]))
