"""Sixteen dims, the most there are, work in every family of ops; seventeen are refused, as is what would make them."""

import sys
from pathlib import Path

import deepjit
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from one_node import model_for  # noqa: E402

MOST = 16
SHAPE = (1, 2, 1, 3, 1, 1, 2, 1, 1, 2, 1, 2, 1, 1, 3, 2)
BUILDS = {"O0": {"level": 0, "tune": False}, "O3": {"tune": False}, "tuned": {"budget": 0.5}}


def x(*shape):
    shape = shape or SHAPE
    return np.random.default_rng(len(shape)).uniform(-2, 2, shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def softmax(a, axis):
    e = np.exp(a - a.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


PERM = [int(i) for i in np.random.default_rng(1).permutation(MOST)]
WIDE = x(*SHAPE[:-2], 2, 5)
CASES = {
    "Add": ({"a": x(), "b": x(*SHAPE[8:])}, lambda a, b: a + b, {}),
    "Sub": ({"a": x(), "b": x(1, 2, 1, 1, *SHAPE[4:])}, lambda a, b: a - b, {}),
    "Relu": ({"a": x()}, lambda a: np.maximum(a, 0), {}),
    "Transpose": ({"a": x()}, lambda a: a.transpose(PERM), {"perm": PERM}),
    "Reshape": ({"a": x(), "s": ints(3, 2, -1)}, lambda a, s: a.reshape(3, 2, -1), {}),
    "Unsqueeze": (
        {"a": x(2, 3), "s": ints(*range(1, 15))},
        lambda a, s: a.reshape(2, *[1] * 14, 3),
        {},
    ),
    "Squeeze": ({"a": x()}, lambda a: a.squeeze(), {}),
    "ReduceSum": ({"a": x(), "s": ints(1, -1, 6)}, lambda a, s: a.sum((1, 6, 15), keepdims=True), {}),
    "ReduceMax": ({"a": x(), "s": ints(3, 9)}, lambda a, s: a.max((3, 9)), {"keepdims": 0}),
    "Slice": (
        {"a": x(), "b": ints(1, -1), "e": ints(9, -9), "s": ints(3, 14), "t": ints(1, -1)},
        lambda a, b, e, s, t: a[:, :, :, 1:][..., ::-1, :],
        {},
    ),
    "Concat": ({"a": x(), "b": x()}, lambda a, b: np.concatenate([a, b], 7), {"axis": 7}),
    "Where": ({"c": x() > 0, "a": x(), "b": x(1)}, lambda c, a, b: np.where(c, a, b), {}),
    "Expand": ({"a": x(3, 1), "s": ints(*SHAPE)}, lambda a, s: np.broadcast_to(a, SHAPE), {}),
    "Tile": ({"a": x(), "s": ints(*[2] + [1] * 14 + [2])}, lambda a, s: np.tile(a, s), {}),
    "Pad": (
        {"a": x(), "s": ints(*[0] * 15, 1, 1, *[0] * 15)},
        lambda a, s: np.pad(a, [(0, 1), *[(0, 0)] * 14, (1, 0)]),
        {},
    ),
    "Gather": ({"a": x(), "i": ints(1, -3)}, lambda a, i: np.take(a, i, 3), {"axis": 3}),
    "ArgMax": ({"a": x()}, lambda a: a.argmax(14), {"axis": 14, "keepdims": 0}),
    "Softmax": ({"a": x()}, lambda a: softmax(a, 3), {"axis": 3}),
    "MatMul": ({"a": x(), "b": WIDE}, np.matmul, {}),
    "CumSum": ({"a": x(), "s": np.array(14, np.int64)}, lambda a, s: a.cumsum(14), {}),
    "Flatten": ({"a": x()}, lambda a: a.reshape(int(np.prod(SHAPE[:9])), -1), {"axis": 9}),
}


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("op", CASES)
def test_sixteen_dims(op, build):
    feeds, formula, attributes = CASES[op]
    want = formula(*feeds.values())
    model = model_for(op, feeds, {"y": want.dtype}, **attributes)
    got = deepjit.build(model, threads=1, **BUILDS[build]).run(feeds)["y"]
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_one_more_is_refused():
    feeds = {"a": x(*SHAPE, 1)}
    with pytest.raises(deepjit.Error) as caught:
        deepjit.build(model_for("Relu", feeds, {"y": np.float32}))
    assert caught.value.code == 103


def test_making_one_more_is_refused():
    feeds = {"a": x(), "s": ints(0)}
    with pytest.raises(deepjit.Error) as caught:
        deepjit.build(model_for("Unsqueeze", feeds, {"y": np.float32})).run(feeds)
    assert caught.value.code == 103
