"""What must not become one kernel, or must stay right beside one: cycles, other axes, control flow, odd types."""

import deepjit
import numpy as np
import pytest
from fused import Fused, assert_same, check, difference, feeds_of, model
from fusion_case import AXES, draw
from onnx import TensorProto, helper

LAST = {"last": np.array([-1])}


def origins(fused: Fused) -> list[list[str]]:
    return [region["origins"] for region in fused.regions]


def test_cycle_through_a_foreign_op():
    """a reaches y directly and through a MatMul: one region around the MatMul would be a cycle."""
    made = model(
        "g (float[N,4,4] x) => (float[N,4,4] y) { a = Sigmoid (x) m = MatMul (a, a) b = Tanh (m) y = Add (a, b) }"
    )
    fused = check(made, ({"N": 1}, {"N": 5}), disable=["fuse_epilogue"])
    assert fused.launches(feeds_of(made, {"N": 2})) == 3
    assert origins(fused) == [["Sigmoid_0"], ["Tanh_2", "Add_3"]]


def test_cycle_through_two_foreign_ops():
    made = model(
        "g (float[4,4] x, float[4,4] z) => (float[4,4] y, float[4,4] w)"
        "{ a = Sigmoid (x) b = Tanh (z) m = MatMul (a, b) c = Add (m, a) n = MatMul (c, b) d = Add (n, c)"
        " y = Mul (d, b) w = Sub (a, d) }"
    )
    check(made)


def test_cycle_between_regions():
    """Two chains that cross by ops of other axes."""
    made = model(
        "g (float[N,8] x, float[N,8] z) => (float[N,8] y, float[N,8] w)"
        "{ a = Exp (x) p = CumSum (a, one) b = Add (p, z) q = CumSum (b, one) y = Mul (q, a) w = Sub (p, b) }",
        {"one": np.array(1)},
    )
    check(made, ({"N": 1}, {"N": 9}))


def test_foreign_op_reads_an_inner_value():
    made = model(
        "g (float[N,6] x) => (float[N,6] y, float[N,6] s)"
        "{ a = Mul (x, x) b = Sqrt (a) s = CumSum (a, one) y = Add (b, x) }",
        {"one": np.array(1)},
    )
    fused = check(made, ({"N": 3},))
    assert fused.launches(feeds_of(made, {"N": 3})) == 2


@pytest.mark.parametrize("between", ["ArgMax <axis = 1>", "TopK", "NonZero"])
def test_region_around_data_dependent_ops(between):
    tail = {
        "ArgMax <axis = 1>": "i = ArgMax <axis = 1> (a) f = Cast <to = 1> (i) y = Mul (f, f)",
        "TopK": "v, i = TopK (a, k) f = Cast <to = 1> (i) y = Mul (f, v)",
        "NonZero": "i = NonZero (a) f = Cast <to = 1> (i) y = Mul (f, f)",
    }[between]
    made = model(f"g (float[N,6] x) => (float[P,Q] y) {{ a = Relu (x) {tail} }}", {"k": np.array([2])})
    check(made, ({"N": 1}, {"N": 7}), kernels=between != "NonZero")


def test_reductions_over_different_axes():
    made = model(
        "g (float[N,4,6] x) => (float[N,4,6] y)"
        "{ t = Tanh (x) a = ReduceMean (t, last) b = ReduceMean (t, one) c = Add (a, b) y = Sub (t, c) }",
        {**LAST, "one": AXES["one"]},
    )
    check(made, ({"N": 1}, {"N": 5}))


def test_reduction_of_a_reduction():
    made = model(
        "g (float[N,4,6] x) => (float[N,1,1] y)"
        "{ t = Tanh (x) a = ReduceMax (t, last) b = Exp (a) c = ReduceSum (b, one) y = Log (c) }",
        {**LAST, "one": AXES["one"]},
    )
    check(made, ({"N": 1}, {"N": 5}))


@pytest.mark.parametrize("axes", [[0], [1], [0, 1], [0, 2], [1, 2], [0, 1, 2], [-1, 0], [-3]], ids=str)
@pytest.mark.parametrize("keep", [0, 1])
def test_reduced_axes(axes, keep):
    rank = 3 if keep else 3 - len(axes)
    dims = ",".join("ABC"[:rank])
    text = (
        f"g (float[N,4,W] x) => (float[{dims}] y)"
        f"{{ a = Abs (x) m = ReduceSum <keepdims = {keep}> (a, axes) b = Sqrt (m) y = Neg (b) }}"
    )
    check(model(text, {"axes": np.array(axes)}), ({"N": 3, "W": 17}, {"N": 1, "W": 1}, {"N": 16, "W": 5}))


@pytest.mark.parametrize("axis", [0, 1, 2, -3])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_softmax_axes(op, axis):
    made = model(
        f"g (float[N,4,W] x) => (float[N,4,W] y) {{ a = Neg (x) b = {op} <axis = {axis}> (a) y = Mul (b, x) }}"
    )
    check(made, ({"N": 3, "W": 17}, {"N": 16, "W": 1}), kernels=False)


def test_two_softmaxes_over_different_axes():
    made = model(
        "g (float[N,5,5] x) => (float[N,5,5] y){ a = Softmax <axis = 1> (x) b = Softmax <axis = 2> (x) y = Mul (a, b) }"
    )
    check(made, ({"N": 4},), kernels=False)


@pytest.mark.parametrize("perm", [[0, 2, 1], [2, 1, 0], [1, 2, 0], [2, 0, 1], [1, 0, 2]], ids=str)
def test_transposed(perm):
    out = ",".join("NMW"[p] for p in perm)
    made = model(
        f"g (float[N,M,W] x, float[{out}] b) => (float[{out}] y)"
        f"{{ a = Tanh (x) t = Transpose <perm = {perm}> (a) y = Add (t, b) }}"
    )
    check(made, ({"N": 3, "M": 5, "W": 17}, {"N": 1, "M": 1, "W": 1}, {"N": 17, "M": 16, "W": 2}))


def test_a_square_and_its_transpose():
    made = model("g (float[N,N] x) => (float[N,N] y) { a = Tanh (x) t = Transpose <perm = [1, 0]> (a) y = Sub (a, t) }")
    check(made, ({"N": 1}, {"N": 5}, {"N": 17}))


def test_a_value_beside_itself_unsqueezed():
    made = model(
        "g (float[N] x) => (float[N,N] y) { a = Tanh (x) u = Unsqueeze (a, one) y = Sub (u, a) }",
        {"one": AXES["one"]},
    )
    check(made, ({"N": 1}, {"N": 5}, {"N": 17}))


@pytest.mark.parametrize("shape", [[6, 4], [24], [2, 2, 6], [4, 1, 6], [1, 24], [4, 2, 3]], ids=str)
def test_reshaped(shape):
    dims = ",".join(map(str, shape))
    made = model(
        f"g (float[4,6] x, float[{dims}] b) => (float[{dims}] y)"
        "{ a = Tanh (x) r = Reshape (a, shape) y = Mul (r, b) }",
        {"shape": np.array(shape)},
    )
    check(made)


def test_reshape_that_swaps_open_dims():
    """[N,M] read as [M,N] is no transposition."""
    made = model(
        "g (float[N,M] x, float[M,N] b) => (float[M,N] y)"
        "{ a = Tanh (x) s = Shape (b) r = Reshape (a, s) y = Add (r, b) }"
    )
    check(made, ({"N": 3, "M": 5}, {"N": 4, "M": 4}, {"N": 1, "M": 9}))


def test_broadcast_known_only_at_run_time():
    """M is N or 1."""
    made = model(
        "g (float[N,W] x, float[M,V] b) => (float[P,Q] y) { a = Tanh (x) c = Exp (b) d = Mul (a, c) y = Sub (d, a) }"
    )
    sizes = [(3, 5, 3, 5), (3, 5, 1, 5), (3, 5, 3, 1), (3, 5, 1, 1), (1, 5, 3, 1), (1, 1, 3, 17)]
    check(made, [dict(zip("NWMV", s, strict=True)) for s in sizes])


@pytest.mark.parametrize("fed", [(3, 5), (1, 5), (3, 1)], ids=str)
def test_expanded_to_a_fed_shape(fed):
    made = model("g (float[N,W] x, int64[2] s) => (float[P,Q] y) { a = Tanh (x) e = Expand (a, s) y = Mul (e, e) }")
    fused = Fused(made)
    feeds = {"x": draw(*fed), "s": np.array([3, 5])}
    assert_same(fused.engine.run(feeds), fused.ort(feeds), "ONNX Runtime")


def test_output_smaller_than_the_box():
    made = model(
        "g (float[4,1] x, float[N,4,6] z) => (float[4,1] a, float[N,4,6] y) "
        "{ a = Tanh (x) b = Mul (a, z) y = Relu (b) }"
    )
    fused = check(made, ({"N": 1}, {"N": 5}))
    assert origins(fused) == [["Tanh_0"], ["Mul_1", "Relu_2"]]


def test_reduced_output_beside_a_smaller_one():
    made = model(
        "g (float[W] w, float[N,W] x) => (float[N,W] y, float[W] v)"
        "{ v = Softmax (w) a = Mul (x, v) m = ReduceSum (a, last) y = Sub (a, m) }",
        LAST,
    )
    check(made, ({"N": 3, "W": 5}, {"N": 1, "W": 33}), kernels=False)


def test_reduction_of_a_value_that_does_not_move_along_the_row():
    made = model(
        "g (float[N,1] x, float[N,8] z) => (float[N,8] y)"
        "{ t = Tanh (x) e = Expand (t, shape) s = ReduceSum (e, last) m = ReduceMax (e, last) a ="
        " Add (s, m) b = Abs (z)"
        " y = Mul (b, a) }",
        {**LAST, "shape": np.array([1, 8])},
    )
    check(made, ({"N": 3}, {"N": 17}))


SHAPE_MATH = "s = Shape (x) f = Cast <to = 1> (s) h = Mul (f, half)"


def test_shape_arithmetic_beside_data():
    """The sizes are known when shapes are bound, the data is not; a kernel may read both."""
    made = model(
        f"g (float[N,2] x) => (float[N,2] y, float[2] h) {{ {SHAPE_MATH} a = Mul (x, h) b = Tanh (a) y = Add (b, h) }}",
        {"half": np.float32(0.5)},
    )
    check(made, ({"N": 1}, {"N": 4}, {"N": 31}), kernels=False)


def test_shape_arithmetic_that_comes_back():
    """Sizes computed as floats beside the data give the shape of a Reshape."""
    made = model(
        f"g (float[N,2] x) => (float[P,Q] z)"
        f"{{ {SHAPE_MATH} a = Mul (x, h) b = Tanh (a) two = Mul (h, four) c = Cast <to = 7> (two)"
        " e = Expand (one, c) r = ReduceSum <keepdims = 0> (e) z = Mul (b, r) }",
        {"half": np.float32(0.5), "four": np.float32(4), "one": np.ones((1, 1), np.float32)},
    )
    check(made, ({"N": 1}, {"N": 4}), kernels=False)


def test_known_and_unknown_outputs_of_one_region():
    made = model(
        f"g (float[N,2] x) => (float[N,2] y, float[2] h, float[2] g)"
        f"{{ {SHAPE_MATH} g = Sqrt (h) a = Mul (x, g) y = Sub (a, h) }}",
        {"half": np.float32(0.5)},
    )
    fused = check(made, ({"N": 1}, {"N": 4}), kernels=False)
    feeds = feeds_of(made, {"N": 9})
    first = fused.engine.run(feeds)
    assert_same(fused.engine.run(feeds), first, "the run before")


def test_layer_norm_with_its_statistics():
    made = model(
        "g (float[N,9] x, float[9] s) => (float[N,9] y, float[N,1] m, float[N,1] i)"
        "{ a = Neg (x) y, m, i = LayerNormalization (a, s) }"
    )
    check(made, ({"N": 3},), kernels=False)


@pytest.mark.parametrize("count", [255, 300])
def test_many_operands(count):
    names = "".join(f", b{i}" for i in range(count))
    made = model(
        f"g (float[N,W] x) => (float[N,W] y) {{ y = Sum (x{names}) }}",
        {f"b{i}": draw(1, 1 + 0 * i, seed=i) for i in range(count)},
    )
    check(made, ({"N": 3, "W": 5},), kernels=False)
    text = ",".join(f"float[N,1] b{i}" for i in range(count))
    made = model(f"g (float[N,W] x, {text}) => (float[N,W] y) {{ y = Sum (x{names}) }}")
    check(made, ({"N": 3, "W": 5},), kernels=False)


@pytest.mark.parametrize("count", [95, 96, 97, 250])
def test_long_chains(count):
    body = " ".join(f"v{i + 1} = {'Sub' if i % 2 else 'Mul'} (v{i}, k)" for i in range(count))
    made = model(f"g (float[N,W] v0) => (float[N,W] v{count}) {{ {body} }}", {"k": draw(1)})
    fused = check(made, ({"N": 3, "W": 5},))
    assert fused.launches(feeds_of(made, {"N": 3, "W": 5})) == -(-count // 96)


def test_outputs_that_nobody_reads():
    made = model("g (float[N,W] x) => (float[N,W] y) { a = Exp (x) dead = Log (a) gone = Tanh (dead) y = Neg (a) }")
    check(made, ({"N": 3, "W": 5},), disable=["dead_code"])


def test_one_value_as_several_outputs():
    made = model(
        "g (float[N,W] x) => (float[N,W] y, float[N,W] z, float[N,W] x2) "
        "{ y = Exp (x) z = Identity (y) x2 = Identity (x) }"
    )
    check(made, ({"N": 3, "W": 5},))


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare"])
def test_reductions_of_nothing(op):
    made = model(f"g (float[N,W] x) => (float[N,1] y) {{ a = Neg (x) b = {op} (a, last) y = Neg (b) }}", LAST)
    fused = Fused(made, ort=False)
    for n, w in ((3, 0), (0, 3), (0, 0)):
        feeds = feeds_of(made, {"N": n, "W": w})
        assert_same(fused.engine.run(feeds), fused.level_0.run(feeds), "level 0")


def test_reduction_with_empty_axes():
    for noop in (0, 1):
        out = "N,4" if noop else "1,1"
        made = model(
            f"g (float[N,4] x) => (float[{out}] y)"
            f"{{ a = Neg (x) b = ReduceSum <noop_with_empty_axes = {noop}> (a, none) y = Exp (b) }}",
            {"none": np.zeros(0, np.int64)},
        )
        check(made, ({"N": 3},), kernels=False)


def test_axes_fed_at_run_time():
    made = model(
        "g (float[N,4] x, int64[1] axes) => (float[P,Q] y) { a = Neg (x) b = ReduceSum (a, axes) y = Exp (b) }"
    )
    fused = Fused(made)
    for axis in (0, 1, -1):
        feeds = {"x": draw(3, 4), "axes": np.array([axis])}
        assert_same(fused.engine.run(feeds), fused.ort(feeds), "ONNX Runtime")


@pytest.mark.parametrize("where", ["output", "inner"])
def test_shapes_declared_wrong(where):
    """What a model says of inner shapes does not make dims equal that are not."""
    out = "N,W" if where == "output" else "P,Q"
    made = model(
        f"g (float[N,W] x, int64[2] s) => (float[{out}] y) {{ a = Relu (x) e = Expand (a, s) y = Mul (e, a) }}"
    )
    if where == "inner":
        made.graph.value_info.append(helper.make_tensor_value_info("e", TensorProto.FLOAT, ["N", "W"]))
    fused = Fused(made, ort=False)
    feeds = {"x": draw(1, 5), "s": np.array([3, 5])}
    a = np.maximum(feeds["x"], 0)
    assert difference(fused.engine.run(feeds)["y"], np.broadcast_to(a, (3, 5)) * a) == ""


def test_a_mask_that_is_too_small():
    """A mask is cut to a size that is open: where it has fewer rows, no kernel reads beyond them."""
    made = model(
        "g (float[N,S,S] x) => (float[N,S,S] y)"
        "{ h = Shape (x) n = Gather (h, axes) m = Slice (mask, zero, n, axes) a = Mul (x, x) y = Where (m, a, x) }",
        {"axes": np.array([1, 2]), "zero": np.array([0, 0]), "mask": np.tril(np.ones((1, 20, 20), bool))},
    )
    fused = check(made, ({"N": 2, "S": 20}, {"N": 1, "S": 1}, {"N": 3, "S": 0}))
    assert fused.launches(feeds_of(made, {"N": 2, "S": 7})) == 1
    for engine in (fused.engine, fused.level_0):
        with pytest.raises(deepjit.Error) as caught:
            engine.run(feeds_of(made, {"N": 2, "S": 21}))
        assert caught.value.name == "SHAPE_MISMATCH"
    fused.compare(feeds_of(made, {"N": 2, "S": 20}))
