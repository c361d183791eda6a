"""Makers of shapes that depend on data, and of operands (k, sizes, pads, repeats) that are computed at run time."""

import numpy as np
from graph_builder import need
from graph_ops import maker
from graph_ops_shape import ANY, dim_of
from onnx import helper


def reduced(g, op, x, axes, keepdims=0):
    if g.opset >= (13 if op == "ReduceSum" else 18):
        return g.add(op, [x, g.ints(*axes)], keepdims=keepdims)
    return g.add(op, [x], axes=axes, keepdims=keepdims)


def number(g, value, dtype=np.int64):
    return g.constant(np.array(value, dtype))


def counted(g, x, most: int):
    """How many values of x are above a threshold, as int64 [1], at most `most`."""
    g.mark_data_sized()
    above = g.add("Greater", [x, number(g, g.choice([0, 0.5, -0.5]), x.dtype)])
    flat = g.add("Reshape", [g.add("Cast", [above], to=7), g.ints(-1)])
    total = reduced(g, "ReduceSum", flat, [0], 1)
    return g.add("Min", [total, g.ints(most)])


@maker("Compress", 0.7)
def compress(g, op=None):
    x = g.pick("f", low=1, high=4)
    axis = g.integer(0, x.rank - 1)
    if g.chance(0.3):
        size = min(a.size for a in x.arrays)
        need(size)  # flags beyond the data mean nothing
        flags = g.constant(g.rng.random(g.integer(1, size)) < 0.6)
        return g.add("Compress", [x, flags])
    rest = [a for a in range(x.rank) if a != axis]
    strength = reduced(g, "ReduceMax", x, rest) if rest else x
    mask = g.add("Greater", [strength, number(g, 0.3, x.dtype)])
    target = x if g.chance(0.6) else g.pick(ANY, where=lambda v: v.rank > axis and same_size(v, x, axis))
    return g.add("Compress", [target, mask], axis=axis - (target.rank if g.chance(0.3) else 0))


def same_size(v, x, axis):
    return all(a.shape[axis] == b.shape[axis] for a, b in zip(v.arrays, x.arrays, strict=True))


@maker("Unique", 0.7)
def unique(g, op=None):
    x = g.pick("fi", low=1, high=3)
    if x.dtype.kind == "f":
        x = g.add("Floor", [x])
    attributes = {"sorted": g.integer(0, 1)}
    if g.chance(0.4):
        attributes["axis"] = g.integer(0, x.rank - 1)
    return g.add("Unique", [x], outputs=g.integer(1, 4), **attributes)


@maker("NonMaxSuppression", 0.6)
def suppression(g, op=None):
    """Boxes and scores made of one value, and the survivors gathered."""
    x = g.pick(dtype=np.float32, low=1, high=4, where=lambda v: 0 < v.elements < 400)
    c = lambda v: number(g, v, np.float32)  # noqa: E731
    flat = g.add("Reshape", [x, g.ints(1, -1, 1)])
    left = g.add("Mul", [flat, c(0.5)])
    boxes = g.add("Concat", [flat, left, g.add("Add", [flat, c(1.0)]), g.add("Add", [left, c(1.5)])], axis=2)
    scores = g.add("Reshape", [x, g.ints(1, 1, -1)])
    limit = g.choice([g.ints(3), number(g, 5), dim_of(g, scores, 2)])
    chosen = g.add(
        "NonMaxSuppression",
        [boxes, scores, limit, c(g.choice([0.3, 0.7])), c(g.choice([0.0, -1.0]))],
        center_point_box=g.integer(0, 1),
    )
    rows = g.add("Gather", [chosen, g.ints(2)], axis=1)
    rows = g.add("Reshape", [rows, g.ints(-1)])
    return g.add("Gather", [boxes, rows], axis=1)


@maker("TopK", 0.7)
def run_time_top_k(g, op=None):
    x = g.pick("f" if g.chance(0.8) else "i", low=1, high=4)
    axis = g.integer(-x.rank, x.rank - 1)
    if g.chance(0.5):
        k = g.add("Min", [dim_of(g, x, axis % x.rank), g.ints(g.integer(0, 5))])
    else:
        k = counted(g, g.pick("f", low=1, high=4), min(a.shape[axis] for a in x.arrays))
    return g.add("TopK", [x, k], outputs=2, axis=axis, largest=g.integer(0, 1))


@maker("GatherND NonZero", 0.7)
def masked_select(g, op=None):
    x = g.pick("f", low=1, high=4)
    mask = g.add("Greater", [x, number(g, g.choice([0, 1]), x.dtype)])
    where = g.add("Transpose", [g.add("NonZero", [mask])], perm=[1, 0])
    picked = g.add("GatherND", [x, where])
    if g.chance(0.4):
        return g.add("ScatterND", [x, where, g.add("Neg", [picked])])
    return picked


@maker("Range ConstantOfShape Expand", 0.7)
def data_sized(g, op=None):
    """Lengths that only the data tells."""
    count = counted(g, g.pick("f", low=1, high=4), 9)
    kind = g.integer(0, 3)
    if kind == 0:
        scalar = g.add("Squeeze", [count, g.ints(0)])
        ids = g.add("Range", [number(g, 0), scalar, number(g, 1)])
        return g.add("Cast", [ids], to=1) if g.chance(0.5) else ids
    if kind == 1:
        filler = helper.make_tensor("v", 1, [1], [1.5])
        return g.add("ConstantOfShape", [g.add("Concat", [g.ints(2), count], axis=0)], value=filler)
    if kind == 2:
        x = g.pick(ANY, high=3)
        return g.add("Expand", [x, g.add("Concat", [count, *([g.ints(1)] * x.rank)], axis=0)])
    x = g.pick(ANY, low=1, high=4)
    return g.add("Slice", [x, g.ints(0), count, g.ints(g.integer(0, x.rank - 1))])


@maker("Tile Pad Split", 0.8)
def computed_operands(g, op=None):
    x = g.pick("f", low=1, high=4)
    axis = g.integer(0, x.rank - 1)
    size = dim_of(g, x, axis)
    kind = g.integer(0, 2)
    if kind == 0:
        times = g.add("Min", [size, g.ints(2)])
        return g.add(
            "Tile", [x, g.add("Concat", [g.ints(1)] * axis + [times] + [g.ints(1)] * (x.rank - axis - 1), axis=0)]
        )
    if kind == 1:  # up to a multiple of four
        missing = g.add("Mod", [g.add("Sub", [g.ints(0), size]), g.ints(4)])
        zeros = [g.ints(0)] * (2 * x.rank - 1)
        pads = g.add("Concat", zeros[: x.rank + axis] + [missing] + zeros[x.rank + axis :], axis=0)
        return g.add("Pad", [x, pads, number(g, 0.5, x.dtype)])
    half = g.add("Div", [size, g.ints(2)])
    parts = g.add("Concat", [half, g.add("Sub", [size, half])], axis=0)
    return g.add("Split", [x, parts], outputs=2, axis=axis)


@maker("Resize", 0.5)
def resize_to_computed(g, op=None):
    x = g.pick(dtype=np.float32, low=3, high=4, where=lambda v: all(a.size for a in v.arrays))
    sizes = g.add(
        "Concat",
        [dim_of(g, x, a) if a < 2 else g.add("Mul", [dim_of(g, x, a), g.ints(2)]) for a in range(x.rank)],
        axis=0,
    )
    mode = g.choice(["nearest", "linear"])
    return g.add(
        "Resize",
        [x, None, None, sizes],
        mode=mode,
        coordinate_transformation_mode=g.choice(["half_pixel", "asymmetric"]),
    )


@maker("Where Range", 0.6)
def causal_mask(g, op=None):
    """Positions compared with positions, as transformers write their masks."""
    x = g.pick(dtype=np.float32, low=2, high=4)
    ids = [
        g.add("Range", [number(g, 0), g.add("Squeeze", [dim_of(g, x, a), g.ints(0)]), number(g, 1)])
        for a in (x.rank - 2, x.rank - 1)
    ]
    mask = g.add("LessOrEqual", [g.add("Unsqueeze", [ids[1], g.ints(0)]), g.add("Unsqueeze", [ids[0], g.ints(1)])])
    masked = g.add("Where", [mask, x, number(g, -100.0, np.float32)])
    return g.add("Softmax", [masked], axis=-1) if g.chance(0.6) else masked


@maker("ReverseSequence EyeLike OneHot", 0.4)
def by_length(g, op=None):
    x = g.pick("f", low=2, high=4, where=lambda v: v.dims[0] is not None and all(a.size for a in v.arrays))
    if g.chance(0.5):
        longest = min(a.shape[1] for a in x.arrays)
        lengths = g.constant(g.rng.integers(1, longest + 1, x.dims[0]).astype(np.int64))
        return g.add("ReverseSequence", [x, lengths], batch_axis=0, time_axis=1)
    y = g.pick("f", low=2, high=2)
    return g.add("EyeLike", [y], k=g.integer(-1, 1))


@maker("ScatterND ScatterElements", 0.5)
def accumulate(g, op=None):
    """Several updates meet in one place."""
    x = g.pick("f", low=1, high=3, where=lambda v: all(d is not None and d > 0 for d in v.dims))
    reduction = g.choice(["add", "mul"] + (["max", "min"] if g.opset >= 18 else []))
    need(g.opset >= 16)
    if g.chance(0.5):
        rows = g.rng.integers(-x.dims[0], x.dims[0], (3, 1))
        updates = g.constant(g.random_array([3, *x.dims[1:]], x.dtype))
        return g.add("ScatterND", [x, g.constant(rows.astype(np.int64)), updates], reduction=reduction)
    axis = g.integer(0, x.rank - 1)
    shape = list(x.dims)
    shape[axis] = 2
    where = g.constant(g.rng.integers(-x.dims[axis], x.dims[axis], shape).astype(np.int64))
    return g.add(
        "ScatterElements", [x, where, g.constant(g.random_array(shape, x.dtype))], axis=axis, reduction=reduction
    )
