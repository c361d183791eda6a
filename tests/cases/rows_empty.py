"""The row about dims of size zero: shapes hold, sums of nothing are neutral."""

import itertools

import formulas
import numpy as np
from case import FLOATS, data, one, row

F32 = np.dtype(np.float32)


@row("zero_sized_dims")
def zero_sized_dims():
    for dtype, axis in itertools.product([*FLOATS, np.dtype(np.int64), np.dtype(np.bool_)], [0, 1]):
        x, y = data(dtype, *((0, 3) if axis == 0 else (3, 0))), data(dtype, *((2, 3) if axis == 0 else (3, 2)))
        want = y if dtype.kind in "ib" else formulas.wide(y)
        yield one(f"Concat_{axis}_{dtype}", "Concat", [x, y], [want], attributes={"axis": axis}, terms=0)
    yield one(
        "Concat_1d",
        "Concat",
        [np.zeros(0, np.float32), data(F32, 2)],
        [formulas.wide(data(F32, 2))],
        attributes={"axis": 0},
        terms=0,
    )
    for dtype in FLOATS:
        yield one(f"MatMul_{dtype}", "MatMul", [data(dtype, 2, 0), data(dtype, 0, 3)], [np.zeros((2, 3))], terms=0)
        yield one(f"MatMul_batch_{dtype}", "MatMul", [data(dtype, 0, 2, 3), data(dtype, 3, 4)], [np.zeros((0, 2, 4))])
        yield one(
            f"MatMul_3d_{dtype}", "MatMul", [data(dtype, 2, 3, 0), data(dtype, 2, 0, 1)], [np.zeros((2, 3, 1))], terms=0
        )
        yield one(f"MatMul_rows_{dtype}", "MatMul", [data(dtype, 0, 3), data(dtype, 3, 4)], [np.zeros((0, 4))])
        c = data(dtype, 3)
        want = np.broadcast_to(formulas.wide(c), (2, 3))
        yield one(f"Gemm_{dtype}", "Gemm", [data(dtype, 2, 0), data(dtype, 0, 3), c], [want], params=(1, 2), terms=0)
    for dtype, op in itertools.product(
        FLOATS[:1], ["Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool"]
    ):
        x, w = data(dtype, 0, 2, 5, 5), data(dtype, 2, 2, 3, 3)
        shape = {"Conv": (0, 2, 3, 3), "ConvTranspose": (0, 2, 7, 7), "GlobalAveragePool": (0, 2, 1, 1)}.get(
            op, (0, 2, 3, 3)
        )
        attributes = {"kernel_shape": [3, 3]} if "Pool" in op and "Global" not in op else {}
        inputs = [x, w] if "Conv" in op else [x]
        yield one(
            f"{op}_batch0", op, inputs, [np.zeros(shape)], params=(1,) if "Conv" in op else (), attributes=attributes
        )
    neutral = {
        "ReduceMax": -np.inf,
        "ReduceMin": np.inf,
        "ReduceSum": 0,
        "ReduceProd": 1,
        "ReduceL1": 0,
        "ReduceL2": 0,
        "ReduceSumSquare": 0,
        "ReduceLogSumExp": -np.inf,
    }
    for (op, value), keep, shape in itertools.product(neutral.items(), [0, 1], [(2, 0, 3), (0,), (0, 2, 0)]):
        axis = shape.index(0)
        left = [d for k, d in enumerate(shape) if k != axis or keep]
        left = [1 if keep and k == axis else d for k, d in enumerate(left)] if keep else left
        attributes = {"keepdims": keep}
        yield one(
            f"{op}_{list(shape)}_{keep}",
            op,
            [data(F32, *shape), np.array([axis])],
            [np.full(left, value)],
            params=(1,),
            attributes=attributes,
            opset=20,
            terms=0,
        )
    for dtype, bound in [
        (np.int32, np.iinfo(np.int32)),
        (np.int64, np.iinfo(np.int64)),
        (np.uint8, np.iinfo(np.uint8)),
    ]:
        for op, value in [("ReduceMax", bound.min), ("ReduceMin", bound.max)]:
            want = np.full(2, value, dtype)
            yield one(
                f"{op}_{np.dtype(dtype)}",
                op,
                [data(dtype, 2, 0), np.array([1])],
                [want],
                params=(1,),
                attributes={"keepdims": 0},
                opset=20,
            )
    for op in ["Relu", "Softmax", "Transpose", "Identity", "Exp", "LayerNormalization"]:
        x = data(F32, 0, 3)
        inputs = [x, data(F32, 3)] if op == "LayerNormalization" else [x]
        yield one(f"{op}_empty", op, inputs, [np.zeros((3, 0) if op == "Transpose" else (0, 3))])
    yield one("Gather_none", "Gather", [data(F32, 3, 2), np.zeros(0, np.int64)], [np.zeros((0, 2))], params=(1,))
    yield one(
        "TopK_none",
        "TopK",
        [data(F32, 2, 3), np.array([0])],
        [np.zeros((2, 0))] * 2,
        params=(1,),
        dtypes=[F32, np.int64],
    )
    yield one(
        "Resize_batch0",
        "Resize",
        [data(F32, 0, 1, 2, 2), None, np.array([1, 1, 2, 2], np.float32)],
        [np.zeros((0, 1, 4, 4))],
        params=(2,),
        attributes={"mode": "linear"},
    )
    yield one("Expand_to_none", "Expand", [data(F32, 1, 3), np.array([0, 3])], [np.zeros((0, 3))], params=(1,))
    yield one(
        "Pad_from_none",
        "Pad",
        [data(F32, 0, 2), np.array([1, 0, 1, 0]), np.array(7, np.float32)],
        [np.full((2, 2), 7.0)],
        params=(1, 2),
    )
