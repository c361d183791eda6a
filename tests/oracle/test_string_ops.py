"""Ops that move or compare elements, on strings: NumPy says what comes out. Each also runs on a constant, so folded."""

import deepjit
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

X = np.array([["a", "B\u00e9", ""], ["long enough for the heap, surely", "c", "d"]], dtype=object)

# op, attributes, further inputs, what comes out
CASES = {
    "reshape": ("Reshape", {}, [np.array([3, -1])], X.reshape(3, 2)),
    "squeeze": ("Squeeze", {}, [], X),
    "unsqueeze": ("Unsqueeze", {}, [np.array([0, 3])], X[None, ..., None]),
    "flatten": ("Flatten", {"axis": 2}, [], X.reshape(6, 1)),
    "transpose": ("Transpose", {}, [], X.T),
    "slice": ("Slice", {}, [np.array([2, 0]), np.array([-4, 2]), np.array([1, 0]), np.array([-2, 1])], X[:, ::-2]),
    "concat": ("Concat", {"axis": 1}, [X], np.concatenate([X, X], axis=1)),
    "expand": ("Expand", {}, [np.array([2, 1, 3])], np.broadcast_to(X, (2, 2, 3))),
    "tile": ("Tile", {}, [np.array([1, 2])], np.tile(X, (1, 2))),
    "pad": ("Pad", {}, [np.array([0, 1, 0, 0])], np.insert(X, 0, "", axis=1)),
    "pad value": ("Pad", {}, [np.array([1, 0, 0, 0]), np.array("p", dtype=object)], np.insert(X, 0, "p", axis=0)),
    "gather": ("Gather", {"axis": 1}, [np.array([[2, 0], [-1, 1]])], X[:, [[2, 0], [-1, 1]]]),
    "gather elements": ("GatherElements", {"axis": 0}, [np.array([[1, 0, 1]])], X[[[1, 0, 1]], [[0, 1, 2]]]),
    "gather nd": ("GatherND", {}, [np.array([[1, 2], [0, 0]])], X[[1, 0], [2, 0]]),
    "scatter nd": ("ScatterND", {}, [np.array([[1]]), X[:1]], X[[0, 0]]),
    "scatter elements": (
        "ScatterElements",
        {"axis": 1},
        [np.array([[2]]), np.array([["new"]], dtype=object)],
        np.array([["a", "B\u00e9", "new"], X[1]], dtype=object),
    ),
    "compress": ("Compress", {"axis": 1}, [np.array([True, False, True])], X[:, [0, 2]]),
    "equal": ("Equal", {}, [np.array(["a", "c", ""], dtype=object)], np.array(["a", "c", ""], dtype=object) == X),
    "unique": ("Unique", {}, [], np.array(sorted(X.ravel(), key=lambda s: s.encode()), dtype=object)),
    "reverse": (
        "ReverseSequence",
        {"batch_axis": 0, "time_axis": 1},
        [np.array([3, 2])],
        np.array([X[0, ::-1], X[1, [1, 0, 2]]]),
    ),
    "trilu": ("Trilu", {"upper": 1}, [], np.array([X[0], ["", "c", "d"]], dtype=object)),
    "shape": ("Shape", {}, [], np.array([2, 3])),
    "size": ("Size", {}, [], np.array(6)),
    "identity": ("Identity", {}, [], X),
}  # fmt: skip


def type_of(array: np.ndarray) -> int:
    return TensorProto.STRING if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype)


def engine_for(op: str, attributes: dict, more: list[np.ndarray], constant: bool, dims):
    names = ["x", *(f"i{k}" for k in range(len(more)))]
    initializers = [numpy_helper.from_array(a, n) for n, a in zip(names[1:], more, strict=True)]
    inputs = []
    if constant:
        initializers.append(numpy_helper.from_array(X, "x"))
    else:
        inputs.append(helper.make_tensor_value_info("x", TensorProto.STRING, dims))
    node = helper.make_node(op, names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")], initializers)
    return deepjit.build(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


@pytest.mark.parametrize("dims", [(2, 3), ("N", "M"), None, "constant"], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_strings(name, dims):
    op, attributes, more, want = CASES[name]
    engine = engine_for(op, attributes, more, dims == "constant", dims)
    for _ in range(2):
        got = engine.run({} if dims == "constant" else {"x": X})["y"]
        assert got.dtype == want.dtype and got.shape == want.shape
        assert got.tolist() == want.tolist()


def test_where_and_one_hot():
    nodes = [
        helper.make_node("Where", ["c", "x", "other"], ["w"]),
        helper.make_node("OneHot", ["at", "depth", "values"], ["o"]),
    ]
    inputs = [
        helper.make_tensor_value_info("c", TensorProto.BOOL, ["N", 1]),
        helper.make_tensor_value_info("x", TensorProto.STRING, ["N", "M"]),
        helper.make_tensor_value_info("at", TensorProto.INT64, ["K"]),
    ]
    initializers = [
        numpy_helper.from_array(np.array(["-"], dtype=object), "other"),
        numpy_helper.from_array(np.array(["off", "on"], dtype=object), "values"),
        numpy_helper.from_array(np.array(3), "depth"),
    ]
    outputs = [helper.make_tensor_value_info(n, TensorProto.STRING, None) for n in ("w", "o")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    engine = deepjit.build(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    got = engine.run({"c": np.array([[True], [False]]), "x": X, "at": np.array([2, 0])})
    assert got["w"].tolist() == [X[0].tolist(), ["-"] * 3]
    assert got["o"].tolist() == [["off", "off", "on"], ["on", "off", "off"]]
