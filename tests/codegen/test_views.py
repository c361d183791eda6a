"""Kernels by coordinates: shared out to threads, and places that must be refused or clamped."""

import numpy as np
import pytest
from cases import ALL
from cases_views import BACK, END, ints
from fused import Fused, assert_equal_bits, check, feeds_of, model

LARGE = {"N": 5, "W": 1031, "V": 517, "M": 3, "H": 37, "S": 211}
SHARED = [
    "inner dims turned",
    "split and merged elsewhere",
    "an open dim backwards",
    "open parts",
    "a table of indices",
    "the largest of a row",
    "softmax of channels",
    "the mean of a middle axis beside the values",
    "rotary embedding after the heads are split",
    "pre-processing of bytes",
    "channel shuffle",
    "box decoding without anchors",
    "the class of each pixel",
]


@pytest.mark.parametrize("name", SHARED)
def test_threads_share_a_kernel(name):
    """The work is large enough to be shared out; every thread count gives the same bits."""
    case = next(case for case in ALL if case.name == name)
    one, two = (Fused(case.model(), ort=case.ort, threads=n) for n in (1, 2))
    two.assert_generated()
    feeds = feeds_of(one.made, LARGE)
    assert_equal_bits(two.compare(feeds), one.engine.run(feeds))


@pytest.mark.parametrize("start", [-5, -1, 0, 2, 9, -END, END], ids=str)
@pytest.mark.parametrize("step", [1, 3, -1, -2])
def test_slices_of_open_dims(start, step):
    """Begins that lie outside of the dim at some sizes and inside at others."""
    made = model(
        "g (float[N,W] x) => (float[N,V] y) { a = Neg (x) c = Slice (a, s, e, last, step) y = Abs (c) }",
        ints(s=[start], e=[END if step > 0 else BACK], last=[-1], step=[step]),
    )
    check(made, [{"N": 2, "W": w} for w in (0, 1, 2, 3, 4, 5, 9, 10, 31)])


@pytest.mark.parametrize("end", [-3, 2, 7])
def test_slices_that_end_inside(end):
    made = model(
        "g (float[N,W] x) => (float[N,V] y) { a = Neg (x) c = Slice (a, s, e, last) y = Abs (c) }",
        ints(s=[1], e=[end], last=[-1]),
    )
    check(made, [{"N": 2, "W": w} for w in (0, 1, 2, 3, 4, 5, 9, 31)])


@pytest.mark.parametrize("pads", [[0, 0], [5, 0], [0, 5], [-2, 3], [3, -2], [-1, -1], [-4, 4]], ids=str)
def test_pads_of_open_dims(pads):
    made = model(
        "g (float[N,W] x) => (float[N,V] y) { a = Neg (x) p = Pad (a, pads, v, last) y = Abs (p) }",
        ints(pads=pads, last=[-1]) | {"v": np.float32(0.5)},
    )
    # ONNX Runtime refuses to cut off more than there is.
    check(made, [{"N": 2, "W": w} for w in (4, 5, 17, 64)])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "bool", "int32", "int64", "double"])
def test_values_of_types_stay_whole(dtype):
    """Extremes of each type go through views unchanged, next to a pad of the type's own."""
    numpy_type = np.dtype({"double": "float64"}.get(dtype, dtype))
    least, most = (0, 1) if dtype == "bool" else (-1.7e308, 1.7e308)
    if numpy_type.kind in "iu":
        least, most = np.iinfo(numpy_type).min, np.iinfo(numpy_type).max
    made = model(
        f"g ({dtype}[N,5] x) => ({dtype}[7,N] y)"
        "{ p = Pad (x, pads, v) t = Transpose <perm = [1, 0]> (p) y = Gather <axis = 0> (t, i) }",
        ints(pads=[0, 1, 0, 1], i=[6, 5, 4, 3, 2, 1, 0]) | {"v": np.array(most, numpy_type)},
    )
    fused = Fused(made, ort=False)
    fused.assert_generated()
    x = np.array([[least, most, 0, 1, most], [1, least, most, 0, least]]).astype(numpy_type)
    if numpy_type.kind in "iu":
        x[0, :2] = least, most
        x[1, 1:3] = least, most
    padded = np.pad(x, ((0, 0), (1, 1)), constant_values=numpy_type.type(most))
    assert_equal_bits(fused.engine.run({"x": x}), {"y": padded.T[::-1].copy()})


@pytest.mark.parametrize("select_last", [0, 1])
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_places_of_equal_values(op, axis, select_last):
    """The first of equal extremes, or the last; zeros of both signs are equal."""
    made = model(
        f"g (float[N,5,W] x) => (int64[A,B,C] y)"
        f"{{ a = Neg (x) y = {op} <axis = {axis}, select_last_index = {select_last}> (a) }}"
    )
    fused = Fused(made)
    rng = np.random.default_rng(3)
    for n, w in ((1, 1), (3, 17), (17, 64)):
        fused.compare({"x": rng.choice(np.float32([-1, -0.0, 0.0, 1]), (n, 5, w))})
        fused.compare({"x": np.zeros((n, 5, w), np.float32)})


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis", [1, 2])
def test_places_beside_nan(op, axis):
    """A NaN counts in the first place only."""
    made = model(f"g (float[N,5,W] x) => (int64[N,B,C] y) {{ a = Neg (x) y = {op} <axis = {axis}> (a) }}")
    fused = Fused(made, ort=False)
    rng = np.random.default_rng(4)
    for n, w in ((3, 5), (2, 33)):
        x = rng.choice(np.float32([np.nan, -np.inf, np.inf, -1, 0, 1]), (n, 5, w))
        got = fused.compare({"x": x})["y"]
        want = np.apply_along_axis(first_largest, axis, -x if op == "ArgMax" else x)
        assert np.array_equal(got.squeeze(axis), want)


def first_largest(row: np.ndarray) -> int:
    best = 0
    for i in range(1, len(row)):
        if row[i] > row[best]:
            best = i
    return best


@pytest.mark.parametrize("shape", [[5], [1, 5]], ids=str)
def test_a_reduction_along_its_own_row(shape):
    """The result fills the row that it was made of."""
    outer = "N," * (len(shape) - 1)
    made = model(
        f"g (float[{outer}5] x) => (float[{outer}5] y) {{ m = ReduceMax (x, last) y = Expand (m, shape) }}",
        ints(last=[-1], shape=shape),
    )
    check(made, ({"N": 0}, {"N": 1}, {"N": 3}))
