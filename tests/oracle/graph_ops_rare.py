"""Makers of what is rarer: many dims, odd integer types, bfloat16, recurrent cells, norms and image ops."""

import numpy as np
from graph_builder import BFLOAT16, need
from graph_ops import maker
from graph_ops_linear import spatial, window
from graph_ops_shape import ANY, factorised
from onnx import helper


def type_of(dtype) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


# ---- many dims


@maker("Unsqueeze Reshape", 0.7)
def to_many_dims(g, op=None):
    x = g.pick(ANY, low=1, high=9)
    rank = g.integer(6, 9)
    need(x.rank < rank)
    if g.chance(0.5) and all(d for d in x.dims):
        sizes = factorised(g, int(np.prod(x.dims)))
        while len(sizes) < rank:
            sizes.insert(g.integer(0, len(sizes)), 1)
        return g.add("Reshape", [x, g.ints(*sizes)])
    axes = sorted(int(a) for a in g.rng.permutation(rank)[: rank - x.rank])
    return g.add("Unsqueeze", [x, g.ints(*axes)])


@maker("Transpose Slice Concat ReduceSum Add", 1.5)
def with_many_dims(g, op=None):
    x = g.pick("f", low=6, high=10)
    kind = g.integer(0, 5)
    if kind == 0:
        return g.add("Transpose", [x], perm=[int(a) for a in g.rng.permutation(x.rank)])
    if kind == 1:
        return g.add("Concat", [x, g.add("Neg", [x])], axis=g.integer(-x.rank, x.rank - 1))
    if kind == 2:
        axes = [int(a) for a in g.rng.permutation(x.rank)[: g.integer(1, 4)]]
        return g.add("ReduceSum", [x, g.ints(*axes)], keepdims=g.integer(0, 1))
    if kind == 3:
        return g.add(g.choice(["Add", "Mul", "Max"]), [x, g.partner(x)])
    if kind == 4:
        axes = [int(a) for a in g.rng.permutation(x.rank)[:2]]
        return g.add("Slice", [x, g.ints(0, -1), g.ints(100, -100), g.ints(*axes), g.ints(1, -1)])
    return g.add("Softmax", [x], axis=g.integer(-x.rank, x.rank - 1))


# ---- types


@maker("Cast Add Sub Mul BitwiseAnd", 1.2)
def odd_integers(g, op=None):
    """Sums and bits of 8, 16 and unsigned integers."""
    x = g.pick("iu")
    if g.chance(0.6):
        need(all(not a.size or (a.min() >= 0 and a.max() < 100) for a in x.arrays) or g.chance(0.5))
        target = g.choice([np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64])
        need(all(not a.size or np.can_cast(np.min_scalar_type(int(a.max())), target) for a in x.arrays))
        need(all(not a.size or a.min() >= 0 or np.dtype(target).kind == "i" for a in x.arrays))
        need(all(not a.size or np.abs(a.astype(np.int64)).max() < 100 for a in x.arrays))
        x = g.add("Cast", [x], to=type_of(target))
    c = g.constant(g.rng.integers(1, 7, ()).astype(x.dtype))
    if g.opset >= 18 and g.chance(0.5):
        name = g.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"])
        return g.add(name, [x] if name == "BitwiseNot" else [x, c])
    return g.add(g.choice(["Add", "Sub", "Mul", "Min", "Max", "Mod", "Div"]), [x, c])


@maker("Cast", 1.0)
def in_bfloat16(g, op=None):
    need(g.bfloat)
    x = g.add("Cast", [g.scaled(g.pick("f"))], to=type_of(BFLOAT16))
    for _ in range(g.integer(1, 3)):
        kind = g.integer(0, 4)
        if kind == 0:
            x = g.add(g.choice(["Relu", "Neg", "Abs", "Tanh", "Sigmoid", "Exp"]), [x])
        elif kind == 1:
            x = g.add(g.choice(["Add", "Mul", "Sub", "Max"]), [x, g.like(x)])
        elif kind == 2 and x.rank:
            x = g.add("Transpose", [x], perm=[int(a) for a in g.rng.permutation(x.rank)])
        elif kind == 3 and x.rank >= 1 and x.dims[-1] is not None:
            x = g.add("MatMul", [x, g.constant(g.random_array([x.dims[-1], 3], x.dtype))])
        else:
            x = g.add("Reshape", [x, g.ints(-1)])
    return g.add("Cast", [x], to=type_of(g.choice([np.float32, np.float16]))) if g.chance(0.8) else x


@maker("CastLike", 0.3)
def cast_like(g, op=None):
    need(g.opset >= 15)
    x, y = g.pick("fi"), g.pick("f")
    return g.add("CastLike", [x, y])


# ---- unary


@maker("Acos Asin Atanh Acosh Cosh Tan Shrink", 0.7)
def guarded(g, op=None):
    x = g.scaled(g.pick(dtype=np.float32))
    op = op if op != "Shrink" else None
    op = op or g.choice(["Acos", "Asin", "Atanh", "Acosh", "Cosh", "Tan", "Shrink"])
    if op == "Shrink":
        return g.add("Shrink", [x], lambd=g.choice([0.5, 0.2]), bias=g.choice([0.0, 0.25]))
    x = g.add("Mul", [g.add("Tanh", [x]), g.constant(np.array(0.9, np.float32))])
    if op == "Acosh":
        x = g.add("Add", [x, g.constant(np.array(2.5, np.float32))])
    return g.add(op, [x])


@maker("Hardmax LpNormalization MeanVarianceNormalization", 0.5)
def along_axis(g, op=None):
    x = g.pick(dtype=np.float32, low=2, where=lambda v: all(a.size for a in v.arrays))
    kind = g.integer(0, 2)
    if kind == 0:
        return g.add("Hardmax", [x], axis=g.integer(-x.rank, x.rank - 1))
    if kind == 1:
        return g.add("LpNormalization", [x], axis=g.integer(-x.rank, x.rank - 1), p=g.integer(1, 2))
    need(x.rank == 4)
    return g.add("MeanVarianceNormalization", [x], axes=g.choice([[0, 2, 3], [2, 3]]))


# ---- norms, pools, images, cells


@maker("LRN LpPool GlobalLpPool GroupNormalization RMSNormalization", 0.7)
def more_norms(g, op=None):
    x = spatial(g, 3, 4)
    need(x.dtype == np.float32)
    c, kind = x.dims[1], g.integer(0, 4)
    if kind == 0:
        return g.add("LRN", [x], size=g.choice([1, 3]), alpha=0.1, bias=1.5)
    if kind == 1:
        return g.add("LpPool", [x], p=g.integer(1, 2), **window(g, x.rank - 2))
    if kind == 2:
        return g.add("GlobalLpPool", [x], p=g.integer(1, 2))
    if kind == 3:
        need(g.opset >= 21 and c >= 2)
        groups = g.choice([d for d in range(1, c + 1) if c % d == 0])
        affine = [g.constant(g.random_array([c])) for _ in range(2)]
        return g.add("GroupNormalization", [x, *affine], num_groups=groups, epsilon=1e-2)
    need(g.opset >= 23 and x.dims[-1] is not None)
    return g.add("RMSNormalization", [x, g.constant(g.random_array([x.dims[-1]]))], epsilon=1e-2)


@maker("LSTM GRU RNN", 0.8)
def recurrent(g, op=None):
    x = g.scaled(g.pick(dtype=np.float32, low=3, high=3, where=lambda v: v.dims[2] is not None))
    need(all(a.size for a in x.arrays))
    op = op or g.choice(["LSTM", "GRU", "RNN"])
    gates, hidden, both = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], g.choice([1, 2, 4]), g.chance(0.3)
    ways = 2 if both else 1
    half = np.float32(0.5)
    inputs = [
        x,
        g.constant(g.random_array([ways, gates * hidden, x.dims[2]]) * half),
        g.constant(g.random_array([ways, gates * hidden, hidden]) * half),
        g.constant(g.random_array([ways, 2 * gates * hidden])) if g.chance(0.6) else None,
    ]
    attributes = {"hidden_size": hidden, "direction": "bidirectional" if both else g.choice(["forward", "reverse"])}
    if op == "GRU" and g.chance(0.5):
        attributes["linear_before_reset"] = 1
    steps, batch = x.dims[:2]
    if None not in (steps, batch) and g.chance(0.4):
        state = lambda: g.constant(g.random_array([ways, batch, hidden]) * half) if g.chance(0.6) else None  # noqa: E731
        lengths = g.constant(g.rng.integers(1, steps + 1, batch).astype(np.int32)) if g.chance(0.6) else None
        inputs += [lengths, state()]
        if op == "LSTM":
            peepholes = g.constant(g.random_array([ways, 3 * hidden]) * half) if g.chance(0.5) else None
            inputs += [state(), peepholes]
    if op != "LSTM" and g.chance(0.3):  # the cell of ONNX Runtime's LSTM escapes the threshold
        attributes["clip"] = g.choice([0.25, 0.5, 2.0])
    return g.add(op, inputs, outputs=3 if op == "LSTM" else 2, **attributes)


@maker("GridSample CenterCropPad DepthToSpace", 0.5)
def image(g, op=None):
    x = g.pick(dtype=np.float32, low=4, high=4, where=lambda v: all(a.size for a in v.arrays))
    if g.chance(0.5):
        need(g.opset >= 18)
        return g.add("CenterCropPad", [x, g.ints(g.integer(1, 7), g.integer(1, 7))], axes=[2, 3])
    need(g.opset >= 20 and x.dims[0] is not None)
    grid = g.constant((g.rng.random([x.dims[0], 3, 4, 2]) * 2.2 - 1.1).astype(np.float32))
    return g.add(
        "GridSample",
        [x, grid],
        mode=g.choice(["linear", "nearest"]),
        padding_mode=g.choice(["zeros", "border"]),
        align_corners=g.integer(0, 1),
    )


@maker("Einsum", 0.4)
def more_einsum(g, op=None):
    x = g.pick("f", low=2, high=3, where=lambda v: v.dims[-1] is not None)
    square = g.add("MatMul", [x, g.add("Transpose", [x], perm=[*range(x.rank - 2), x.rank - 1, x.rank - 2])])
    letters = "ij" if x.rank == 2 else "bij"
    equation = g.choice(["...ii->...i", "...ij->...ji", f"{letters}->j", f"{letters},{letters}->{letters[:-1]}"])
    return g.add("Einsum", [square] * (2 if "," in equation else 1), equation=equation)
