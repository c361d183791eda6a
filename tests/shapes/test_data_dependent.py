"""Shapes that only the data tells: one engine with all dims open gives the right sizes at every run, down to none."""

import sys
from pathlib import Path

import deepjit
import numpy as np
import pytest
from onnx import helper

sys.path.insert(0, str(Path(__file__).parent))
from one_node import model  # noqa: E402

BUILDS = {"O0": {"level": 0, "tune": False}, "O3": {"tune": False}, "tuned": {"budget": 0.5}}


@pytest.fixture(params=BUILDS)
def build(request):
    return lambda made: deepjit.build(made, threads=1, **BUILDS[request.param])


def check(got: dict, **wants):
    for name, want in wants.items():
        assert got[name].shape == np.shape(want), name
        np.testing.assert_array_equal(got[name], want, name)


SHAPES = [(3, 4), (1, 1), (0, 5), (7, 2), (3, 4), (2, 0)]


def numbers(shape, seed):
    """Some zeros, some equal values."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


def test_non_zero(build):
    engine = build(model("NonZero", {"x": (np.float32, 2)}, {"y": np.int64}))
    for seed, shape in enumerate(SHAPES):
        x = numbers(shape, seed)
        check(engine.run({"x": x}), y=np.argwhere(x).T.reshape(2, -1))
    check(engine.run({"x": np.zeros((2, 2), np.float32)}), y=np.zeros((2, 0)))


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_compress(build, axis):
    attributes = {} if axis is None else {"axis": axis}
    inputs = {"x": (np.float32, 2), "c": (np.bool_, 1)}
    engine = build(model("Compress", inputs, {"y": np.float32}, **attributes))
    for seed, shape in enumerate(SHAPES):
        x = numbers(shape, seed)
        length = x.size if axis is None else x.shape[axis]
        for flags in (np.arange(length) % 2 == 0, np.zeros(length, bool), np.ones(max(0, length - 1), bool)):
            check(engine.run({"x": x, "c": flags}), y=np.compress(flags, x, axis))


@pytest.mark.parametrize("ordered", [0, 1])
def test_unique(build, ordered):
    outputs = {"y": np.float32, "first": np.int64, "inverse": np.int64, "counts": np.int64}
    engine = build(model("Unique", {"x": (np.float32, 2)}, outputs, sorted=ordered))
    for seed, shape in enumerate(SHAPES):
        x = numbers(shape, seed)
        values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
        order = np.arange(len(values)) if ordered else np.argsort(first, kind="stable")
        place = np.argsort(order, kind="stable")
        wants = {"y": values[order], "first": first[order], "counts": counts[order]}
        check(engine.run({"x": x}), **wants, inverse=place[inverse.reshape(-1)] if x.size else np.zeros(0))


def test_top_k_of_a_computed_k(build):
    inputs = {"x": (np.float32, 2), "k": (np.int64, 1)}
    engine = build(model("TopK", inputs, {"v": np.float32, "i": np.int64}, axis=1))
    for seed, (shape, k) in enumerate([((3, 4), 2), ((3, 4), 0), ((2, 6), 6), ((0, 5), 3), ((1, 1), 1), ((3, 4), 2)]):
        x = numbers(shape, seed)
        where = np.argsort(-x, 1, kind="stable")[:, :k]
        check(engine.run({"x": x, "k": np.array([k])}), v=np.take_along_axis(x, where, 1), i=where)
    with pytest.raises(deepjit.Error) as caught:
        engine.run({"x": numbers((2, 3), 1), "k": np.array([4])})
    assert caught.value.code // 100 in (2, 5)


def test_non_maximum_suppression(build):
    inputs = {
        "b": (np.float32, 3),
        "s": (np.float32, 3),
        "n": (np.int64, 1),
        "iou": (np.float32, 1),
        "t": (np.float32, 1),
    }
    engine = build(model("NonMaxSuppression", inputs, {"y": np.int64}))
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 5, 1, 6], [0, 5, 1, 6.2]]], np.float32)
    scores = np.array([[[0.9, 0.75, 0.6, 0.95], [0.1, 0.8, 0.3, 0.2]]], np.float32)
    limits = {"iou": np.array([0.5], np.float32)}
    places = [
        (4, 0.0, [[0, 0, 3], [0, 0, 0], [0, 1, 1], [0, 1, 2]]),
        (1, 0.0, [[0, 0, 3], [0, 1, 1]]),
        (4, 0.78, [[0, 0, 3], [0, 0, 0], [0, 1, 1]]),
        (4, 0.99, np.zeros((0, 3))),
        (0, 0.0, np.zeros((0, 3))),
    ]
    for most, threshold, want in places:
        feeds = {"b": boxes, "s": scores, "n": np.array([most]), "t": np.array([threshold], np.float32), **limits}
        check(engine.run(feeds), y=want)
    none = {"b": boxes[:, :0], "s": scores[:, :, :0], "n": np.array([3]), "t": np.array([0.0], np.float32), **limits}
    check(engine.run(none), y=np.zeros((0, 3)))


def test_what_follows_takes_the_size(build):
    """Values above a threshold, scaled, summed and counted: every later shape hangs on the first."""
    nodes = [
        helper.make_node("Greater", ["x", "zero"], ["above"]),
        helper.make_node("NonZero", ["above"], ["at"]),
        helper.make_node("Transpose", ["at"], ["rows"], perm=[1, 0]),
        helper.make_node("GatherND", ["x", "rows"], ["picked"]),
        helper.make_node("Exp", ["picked"], ["y"]),
        helper.make_node("Shape", ["picked"], ["shape"]),
        helper.make_node("Expand", ["one", "shape"], ["ones"]),
        helper.make_node("ReduceSum", ["ones"], ["count"], keepdims=0),
    ]
    info = lambda n, shape: helper.make_tensor_value_info(n, 1, shape)  # noqa: E731
    constants = [helper.make_tensor("zero", 1, [], [0.0]), helper.make_tensor("one", 1, [1], [1.0])]
    graph = helper.make_graph(nodes, "g", [info("x", ["a", "b"])], [info("y", ["k"]), info("count", [])], constants)
    engine = build(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    for seed, shape in enumerate(SHAPES):
        x = numbers(shape, seed)
        got = engine.run({"x": x})
        np.testing.assert_allclose(got["y"], np.exp(x[x > 0]), rtol=1e-6)
        assert got["count"] == (x > 0).sum()
