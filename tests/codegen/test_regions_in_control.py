"""Regions in the bodies of If, Loop and Scan, and around them."""

import numpy as np
import onnx
import pytest
from fused import Fused, assert_same, check, model
from fusion_case import UNKNOWN, draw
from onnx import TensorProto, helper


def if_model(outer: str, then: str, other: str, after: str) -> onnx.ModelProto:
    """x -> outer -> a; If c: y is then(a, x), else other(a, x); after gives z."""

    def body(op: str, name: str):
        nodes = [
            helper.make_node("Exp", ["a"], [name + "1"]),
            helper.make_node(op, [name + "1", "x"], [name + "2"]),
            helper.make_node("Neg", [name + "2"], [name]),
        ]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])

    made = model(f"g (float[N,7] x, bool c) => (float[N,7] z, float[N,7] y) {{ a = {outer} (x) z = Tanh (a) }}")
    del made.graph.node[1]
    made.graph.node.append(
        helper.make_node("If", ["c"], ["y"], then_branch=body(then, "t"), else_branch=body(other, "e"))
    )
    made.graph.node.extend(model(f"h (float a, float y) => (float z) {{ {after} }}").graph.node)
    return made


def test_if_between():
    """A region around an If would run before and after it; both branches hold regions that read outer values."""
    made = if_model("Sigmoid", "Add", "Mul", "q = Mul (a, y) z = Tanh (q)")
    fused = Fused(made)
    for c in (True, False):
        for n in (1, 4):
            fused.compare({"x": draw(n, 7), "c": np.array(c)})


@pytest.mark.parametrize("what", ["If", "NonZero"])
@pytest.mark.xfail(strict=True, reason=UNKNOWN)
def test_regions_behind_unknown_shapes_are_kernels(what):
    if what == "If":
        made = if_model("Sigmoid", "Add", "Mul", "q = Mul (a, y) z = Tanh (q)")
    else:
        made = model("g (float[N] x) => (float[P,Q] y) { i = NonZero (x) f = Cast <to = 1> (i) y = Mul (f, f) }")
    Fused(made).assert_generated()


@pytest.mark.parametrize(
    "computed",
    [False, True],
    ids=["fed", "computed"],
)
def test_branches_read_outer_values(computed):
    """With a computed condition the branches are bound as blocks of their own."""
    made = if_model("Sigmoid", "Add", "Mul", "q = Mul (a, y) z = Tanh (q)")
    if computed:
        made.graph.node.insert(0, helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0))
        made.graph.node.insert(1, helper.make_node("Cast", ["most"], ["c2"], to=TensorProto.BOOL))
        next(n for n in made.graph.node if n.op_type == "If").input[0] = "c2"
    fused = Fused(made, ort=False)
    for x in (draw(3, 7), -np.abs(draw(3, 7)), np.zeros((2, 7), np.float32)):
        fused.compare({"x": x, "c": np.array(True)})


def test_branch_that_gives_an_outer_value():
    made = model("g (float[N,7] x, bool c) => (float[N,7] z) { a = Exp (x) b = Neg (a) z = Tanh (b) }")
    del made.graph.node[2]
    info = helper.make_tensor_value_info
    then = helper.make_graph([helper.make_node("Identity", ["b"], ["t"])], "t", [], [info("t", 1, None)])
    other = helper.make_graph([helper.make_node("Identity", ["a"], ["e"])], "e", [], [info("e", 1, None)])
    made.graph.node.append(helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other))
    made.graph.node.append(helper.make_node("Tanh", ["y"], ["z"]))
    fused = Fused(made)
    for c in (True, False):
        fused.compare({"x": draw(3, 7), "c": np.array(c)})


def loop_model(grows: bool) -> onnx.ModelProto:
    """v = x; n times: v = tanh(v * w) + v (and, when it grows, x is appended); what each turn saw is collected."""
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Mul", ["v", "w"], ["m"]),
        helper.make_node("Tanh", ["m"], ["t"]),
        helper.make_node("Add", ["t", "v"], ["s"]),
        helper.make_node("Concat", ["s", "x"] if grows else ["s"], ["v_out"], axis=0),
        helper.make_node("ReduceMax", ["s"], ["seen"], keepdims=0),
        helper.make_node("Identity", ["go"], ["go_out"]),
    ]
    inputs = [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("v", 1, ["R", 5])]
    outputs = [info("go_out", TensorProto.BOOL, []), info("v_out", 1, ["S", 5]), info("seen", 1, [])]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    made = model("g (float[N,5] x, float[5] w, int64 n) => (float[P,5] y, float[Q] c) { y = Exp (x) }")
    del made.graph.node[0]
    made.graph.node.extend(
        [
            helper.make_node("Exp", ["x"], ["e"]),
            helper.make_node("Neg", ["e"], ["first"]),
            helper.make_node("Loop", ["n", "", "first"], ["last", "c"], body=body),
            helper.make_node("Relu", ["last"], ["r"]),
            helper.make_node("Sub", ["r", "last"], ["y"]),
        ]
    )
    return made


@pytest.mark.parametrize("grows", [False, True], ids=["fixed", "growing"])
def test_regions_in_loops(grows):
    fused = Fused(loop_model(grows))
    for turns in (0, 1, 4):
        for n in (1, 3):
            feeds = {"x": draw(n, 5), "w": draw(5, seed=1), "n": np.array(turns)}
            assert_same(fused.engine.run(feeds), fused.level_0.run(feeds), "level 0")
            assert_same(fused.engine.run(feeds), fused.ort(feeds), "ONNX Runtime")


def test_scan():
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Add", ["s", "row"], ["a"]),
        helper.make_node("Tanh", ["a"], ["s_out"]),
        helper.make_node("Mul", ["s_out", "row"], ["b"]),
        helper.make_node("Softmax", ["b"], ["out"]),
    ]
    body = helper.make_graph(
        nodes, "body", [info("s", 1, [6]), info("row", 1, [6])], [info("s_out", 1, [6]), info("out", 1, [6])]
    )
    made = model("g (float[N,6] x, float[6] s) => (float[6] y, float[N,6] z) { y = Exp (s) }")
    del made.graph.node[0]
    made.graph.node.append(helper.make_node("Scan", ["s", "x"], ["y", "z"], body=body, num_scan_inputs=1))
    check(made, ({"N": 1}, {"N": 9}), kernels=False)


@pytest.mark.parametrize("dim", ["N", "R", None])
def test_body_dims_declared_wrong(dim):
    """The body says that v has the rows of u; v grows, and u has one row."""
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Tanh", ["u"], ["t"]),
        helper.make_node("Mul", ["v", "t"], ["m"]),
        helper.make_node("Neg", ["m"], ["s"]),
        helper.make_node("Concat", ["s", "u"], ["v_out"], axis=0),
        helper.make_node("Identity", ["u"], ["u_out"]),
        helper.make_node("Identity", ["go"], ["go_out"]),
    ]
    inputs = [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, [])]
    outputs = [info("go_out", TensorProto.BOOL, []), info("v_out", 1, [None, 5]), info("u_out", 1, [dim, 5])]
    body = helper.make_graph(nodes, "b", [*inputs, info("v", 1, [dim, 5]), info("u", 1, [dim, 5])], outputs)
    made = model("g (float[N,5] x, int64 n) => (float[P,5] y) { y = Exp (x) }")
    del made.graph.node[0]
    made.graph.node.append(helper.make_node("Loop", ["n", "", "x", "x"], ["y", "z"], body=body))
    fused = Fused(made, ort=False)
    for turns in (1, 3, 6):
        feeds = {"x": draw(1, 5), "n": np.array(turns)}
        assert_same(fused.engine.run(feeds), fused.level_0.run(feeds), "level 0")
