"""Ops that only move data take every small type; the values are NumPy's own of the same move."""

import deepjit
import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

TYPES = {
    "float4_e2m1fn": (TensorProto.FLOAT4E2M1, [0.5, -1, 6, -3, 0, 2]),
    "float8_e8m0fnu": (TensorProto.FLOAT8E8M0, [0.5, 1, 64, 2, 4, 0.125]),
    "float8_e4m3fn": (TensorProto.FLOAT8E4M3FN, [0.5, -1, 448, -3, 0, 2]),
    "int2": (TensorProto.INT2, [0, -1, 1, -2, 1, 0]),
    "uint2": (TensorProto.UINT2, [0, 1, 3, 2, 1, 3]),
    "int4": (TensorProto.INT4, [0, -1, 7, -8, 1, 5]),
    "uint4": (TensorProto.UINT4, [0, 1, 15, 8, 3, 7]),
}

# name: (nodes of x[2, 3] and the constants, what NumPy does)
MOVES = {
    "Transpose": ([("Transpose", ["x"], {})], lambda x: x.T),
    "Reshape": ([("Reshape", ["x", "six"], {})], lambda x: x.reshape(6)),
    "Slice": ([("Slice", ["x", "one", "three", "one"], {})], lambda x: x[:, 1:3]),
    "Concat": ([("Concat", ["x", "x"], {"axis": 1})], lambda x: np.concatenate([x, x], axis=1)),
    "Gather": ([("Gather", ["x", "picks"], {"axis": 1})], lambda x: x[:, [2, 0]]),
    "GatherElements": (
        [("GatherElements", ["x", "grid"], {"axis": 1})],
        lambda x: np.stack([x[0, [2, 1]], x[1, [0, 0]]]),
    ),
    "ScatterElements": (
        [("ScatterElements", ["x", "grid", "small"], {"axis": 1})],
        lambda x: np.array([[x[0, 0], x[0, 1], x[0, 0]], [x[1, 1], x[1, 1], x[1, 2]]]),
    ),
    "Tile": ([("Tile", ["x", "picks_up"], {})], lambda x: np.tile(x, (1, 2))),
    "Expand": ([("Expand", ["x", "cube"], {})], lambda x: np.broadcast_to(x, (2, 2, 3))),
    "Where": ([("Where", ["mask", "x", "x"], {})], lambda x: x),
    "Pad": ([("Pad", ["x", "pads", "corner"], {})], lambda x: np.pad(x, ((0, 0), (1, 0)), constant_values=x[0, 2])),
    "Squeeze": ([("Unsqueeze", ["x", "one"], {}), ("Squeeze", ["t0", "one"], {})], lambda x: x),
    "Identity": ([("Identity", ["x"], {})], lambda x: x),
}


def constants(x):
    ints = {"six": [6], "one": [1], "three": [3], "picks": [2, 0], "picks_up": [1, 2], "cube": [2, 2, 3],
            "pads": [0, 1, 0, 0], "grid": [[2, 1], [0, 0]]}  # fmt: skip
    tensors = [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in ints.items()]
    tensors.append(numpy_helper.from_array(np.array([[True, False, True]]), "mask"))
    tensors.append(numpy_helper.from_array(x[0, 2], "corner"))
    tensors.append(numpy_helper.from_array(np.array([[x[0, 0], x[0, 1]], [x[1, 0], x[1, 1]]]), "small"))
    return tensors


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("name", TYPES)
def test_moves(name, move):
    number, values = TYPES[name]
    x = np.array(values, np.float32).reshape(2, 3).astype(getattr(ml_dtypes, name))
    steps, expected = MOVES[move]
    nodes = [
        helper.make_node(op, ins, ["y" if i + 1 == len(steps) else f"t{i}"], **attributes)
        for i, (op, ins, attributes) in enumerate(steps)
    ]
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "moves",
        [helper.make_tensor_value_info("x", number, [2, 3])],
        [helper.make_tensor_value_info("y", number, None)],
        [t for t in constants(x) if t.name in used],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    got = deepjit.build(model.SerializeToString()).run({"x": x})["y"]
    want = expected(x)
    assert got.dtype == x.dtype and got.shape == want.shape
    assert got.tobytes() == want.tobytes()
