"""Makers of data movement and of shape arithmetic with symbolic dims."""

import numpy as np
from graph_builder import MAX_ELEMENTS, need
from graph_ops import maker
from onnx import helper, numpy_helper

ANY = "fiub"


@maker("Transpose", 2.5)
def transpose(g, op=None):
    x = g.pick(ANY)
    if g.chance(0.15):
        return g.add("Transpose", [x])
    need(x.rank)
    perm = [int(a) for a in g.rng.permutation(x.rank)]
    y = g.add("Transpose", [x], perm=perm)
    if g.chance(0.3) and x.dtype.kind == "f":
        y = g.add(g.choice(["Relu", "Neg"]), [y])
        y = g.add("Transpose", [y], perm=[int(a) for a in np.argsort(perm)])
    return y


@maker("Reshape", 2)
def reshape(g, op=None):
    x = g.pick(ANY)
    dims = []
    if x.rank and g.chance(0.6):
        keep = g.integer(0, x.rank)
        dims = [0] * keep
        rest = x.dims[keep:]
    else:
        rest = x.dims
    if all(d is not None for d in rest) and g.chance(0.6):
        total = int(np.prod(rest))
        need(total > 0)
        factors = factorised(g, total)
        if g.chance(0.4):
            factors[g.integer(0, len(factors) - 1)] = -1
        dims += factors
    else:
        dims.append(-1)
        if g.chance(0.3):
            dims.append(1)
    return g.add("Reshape", [x, g.ints(*dims)])


def factorised(g, total: int) -> list:
    factors = []
    while total > 1 and len(factors) < 4:
        f = g.choice([d for d in range(1, total + 1) if total % d == 0])
        factors.append(f)
        total //= f
    if total > 1 or not factors:
        factors.append(total)
    return factors


@maker("Flatten", 0.7)
def flatten(g, op=None):
    x = g.pick(ANY)
    return g.add("Flatten", [x], axis=g.integer(-x.rank, x.rank))


@maker("Squeeze", 0.7)
def squeeze(g, op=None):
    x = g.pick(ANY, where=lambda v: 1 in v.dims)
    axes = [i for i, d in enumerate(x.dims) if d == 1 and g.chance(0.7)]
    need(axes)
    return g.add("Squeeze", [x, g.ints(*[a - x.rank if g.chance(0.3) else a for a in axes])])


@maker("Unsqueeze", 0.8)
def unsqueeze(g, op=None):
    x = g.pick(ANY, high=4)
    rank = x.rank + g.integer(1, 2)
    axes = [int(a) for a in g.rng.permutation(rank)[: rank - x.rank]]
    return g.add("Unsqueeze", [x, g.ints(*[a - rank if g.chance(0.3) else a for a in axes])])


@maker("Slice", 2)
def slice_(g, op=None):
    x = g.pick(ANY, low=1)
    axes = [a for a in range(x.rank) if g.chance(0.5)] or [0]
    starts, ends, steps = [], [], []
    for axis in axes:
        size = min(a.shape[axis] for a in x.arrays)
        step = g.choice([1, 1, 2, -1, -1, -2, 3])
        low, high = sorted((g.integer(0, max(size - 1, 0)), g.integer(0, size)))
        if step > 0:
            start, end = low, g.choice([high, high - size, 1 << 31, np.iinfo(np.int64).max])
            end = end if end else max(high, 1)
        else:
            start, end = g.choice([max(high - 1, 0), -1, 1 << 40]), g.choice([low - 1 - size, -100, -(1 << 63) + 1])
        starts.append(start)
        ends.append(end)
        steps.append(step)
    inputs = [x, g.ints(*starts), g.ints(*ends), g.ints(*[a - x.rank if g.chance(0.3) else a for a in axes])]
    if any(s != 1 for s in steps) or g.chance(0.4):
        inputs.append(g.ints(*steps))
    return g.add("Slice", inputs)


@maker("Concat", 2)
def concat(g, op=None):
    x = g.pick(ANY, low=1)
    axis = g.integer(-x.rank, x.rank - 1)

    def fits(v):
        if v.dtype != x.dtype or v.rank != x.rank:
            return False
        return all(
            np.delete(a.shape, axis).tolist() == np.delete(b.shape, axis).tolist()
            for a, b in zip(x.arrays, v.arrays, strict=True)
        )

    found = [v for v in g.visible() if fits(v)]
    parts = [x] + [g.choice(found) for _ in range(g.integer(0, 2))]
    if g.chance(0.3) and all(d is not None for d in x.dims):
        dims = list(x.dims)
        dims[axis] = g.integer(0, 2)
        parts.insert(g.integer(0, len(parts)), g.constant(g.random_array(dims, x.dtype)))
    return g.add("Concat", parts, axis=axis)


@maker("Split", 1)
def split(g, op=None):
    x = g.pick(ANY, low=1)
    axis = g.integer(0, x.rank - 1)
    size = x.dims[axis]
    need(size is not None and size >= 2)
    if g.chance(0.5):
        first = g.integer(0 if g.chance(0.2) else 1, size - 1)
        return g.add("Split", [x, g.ints(first, size - first)], outputs=2, axis=axis)
    pieces = g.choice([2, 3])
    if g.opset >= 18:
        return g.add("Split", [x], outputs=pieces, axis=axis - x.rank, num_outputs=pieces)
    need(size % pieces == 0)
    return g.add("Split", [x], outputs=pieces, axis=axis)


@maker("Pad", 1.5)
def pad(g, op=None):
    x = g.pick("fi", low=1, high=4)
    mode = g.choice(["constant", "constant", "reflect", "edge"] + (["wrap"] if g.opset >= 19 else []))
    small = [min(a.shape[i] for a in x.arrays) for i in range(x.rank)]
    limit = [s - 1 if mode == "reflect" else s if mode == "wrap" else 2 for s in small]
    amounts = [g.integer(0, max(0, min(2, n))) if g.chance(0.5) else 0 for n in limit * 2]
    if mode == "constant" and g.chance(0.2):
        amounts = [-1 if n == 0 and small[i % x.rank] > 3 and g.chance(0.3) else n for i, n in enumerate(amounts)]
    inputs = [x, g.ints(*amounts)]
    if mode == "constant" and g.chance(0.5):
        inputs.append(g.constant(np.array(g.choice([0, 1, -2]), x.dtype)))
    return g.add("Pad", inputs, mode=mode)


@maker("Gather GatherElements GatherND", 1.5)
def gather(g, op=None):
    x = g.pick(ANY, low=1)
    axis = g.integer(-x.rank, x.rank - 1)
    size = min(a.shape[axis] for a in x.arrays)
    need(size > 0)
    kind = g.rng.random()
    dtype = g.choice([np.int64, np.int32])
    if kind < 0.7:
        shape = g.choice([(), (1,), (3,), (2, 2), (0,)] if g.chance(0.3) else [(), (2,), (1, 3)])
        indices = g.constant(g.rng.integers(-size, size, shape).astype(dtype))
        return g.add("Gather", [x, indices], axis=axis)
    if kind < 0.85:
        need(all(d is not None for d in x.dims))
        shape = list(x.dims)
        shape[axis] = g.integer(1, 3)
        return g.add("GatherElements", [x, g.constant(g.rng.integers(-size, size, shape).astype(dtype))], axis=axis)
    first = min(a.shape[0] for a in x.arrays)
    return g.add("GatherND", [x, g.constant(g.rng.integers(0, first, (g.integer(1, 3), 1)).astype(np.int64))])


@maker("Gather ArgMax", 0.5)
def data_gather(g, op=None):
    """Indices that depend on the data."""
    x = g.pick("f", low=2)
    indices = g.add("ArgMax", [x], axis=0, keepdims=0)
    return g.add("Gather", [x, indices], axis=0)


@maker("Gather OneHot", 0.4)
def one_hot(g, op=None):
    indices = g.pick("i", high=3, where=lambda v: all(a.size and a.min() >= -4 and a.max() < 6 for a in v.arrays))
    return g.add(
        "OneHot",
        [indices, g.constant(np.array(6, np.int64)), g.constant(np.array([0, 1], np.float32))],
        axis=g.integer(-indices.rank - 1, indices.rank),
    )


@maker("ScatterElements ScatterND", 0.4)
def scatter(g, op=None):
    x = g.pick("f", low=1, where=lambda v: all(d is not None and d > 0 for d in v.dims))
    if g.chance(0.5):
        axis = g.integer(0, x.rank - 1)
        shape = list(x.dims)
        shape[axis] = 1
        indices = g.rng.integers(-x.dims[axis], x.dims[axis], shape)
        return g.add("ScatterElements", [x, g.constant(indices), g.constant(g.random_array(shape, x.dtype))], axis=axis)
    rows = g.rng.permutation(x.dims[0])[: g.integer(1, 2)].reshape(-1, 1)
    updates = g.constant(g.random_array([len(rows), *x.dims[1:]], x.dtype))
    return g.add("ScatterND", [x, g.constant(rows.astype(np.int64)), updates])


@maker("Expand", 1)
def expand(g, op=None):
    x = g.pick(ANY, high=4)
    dims = [d if d is not None and d != 1 else 1 if d is None else g.choice([1, 2, 3]) for d in x.dims]
    dims = g.choice([dims, [2, *dims], [1, *dims], dims[len(dims) // 2 :]])
    return g.add("Expand", [x, g.ints(*dims)])


@maker("Tile", 0.7)
def tile(g, op=None):
    x = g.pick(ANY, low=1, high=4)
    return g.add("Tile", [x, g.ints(*[g.choice([1, 1, 2, 3]) for _ in range(x.rank)])])


@maker("DepthToSpace SpaceToDepth", 0.4)
def depth_to_space(g, op=None):
    x = g.pick(dtype=np.float32, low=4, high=4)
    if g.chance(0.5):
        return g.add("DepthToSpace", [x], blocksize=2, mode=g.choice(["DCR", "CRD"]))
    return g.add("SpaceToDepth", [x], blocksize=2)


@maker("Trilu", 0.3)
def trilu(g, op=None):
    need(g.opset >= 14)
    x = g.pick("f", low=2)
    return g.add("Trilu", [x, g.constant(np.array(g.integer(-2, 2), np.int64))], upper=g.integer(0, 1))


@maker("Resize", 1)
def resize(g, op=None):
    x = g.pick(dtype=np.float32, low=3, high=4)
    scales = [1.0, 1.0] + [g.choice([2.0, 0.5, 1.5, 1.0, 3.0]) for _ in range(x.rank - 2)]
    mode = g.choice(["nearest", "nearest", "linear", "cubic"])
    need(mode != "cubic" or x.rank == 4)
    attributes = {"mode": mode}
    attributes["coordinate_transformation_mode"] = g.choice(
        ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    )
    if mode == "nearest":
        attributes["nearest_mode"] = g.choice(["round_prefer_floor", "floor", "ceil", "round_prefer_ceil"])
    if g.chance(0.6) and attributes["coordinate_transformation_mode"] != "align_corners":
        return g.add("Resize", [x, None, g.constant(np.array(scales, np.float32))], **attributes)
    need(all(d is not None for d in x.dims))
    sizes = [*x.dims[:2], *[max(1, int(d * s)) for d, s in zip(x.dims[2:], scales[2:], strict=True)]]
    return g.add("Resize", [x, None, None, g.ints(*sizes)], **attributes)


# ---- shape arithmetic


def dim_of(g, x, axis: int):
    """The size of one axis as [1] int64, in one of the ways exporters write it."""
    if g.opset >= 15 and g.chance(0.2):
        return g.add("Shape", [x], start=axis, end=axis + 1)
    shape = g.add("Shape", [x], hidden=g.chance(0.5))
    if g.chance(0.4):
        return g.add("Slice", [shape, g.ints(axis), g.ints(axis + 1), g.ints(0)])
    if g.chance(0.5):
        return g.add("Gather", [shape, g.ints(axis if g.chance(0.7) else axis - x.rank)])
    scalar = g.add("Gather", [shape, g.constant(np.array(axis, np.int64))])
    return g.add("Unsqueeze", [scalar, g.ints(0)])


@maker("Reshape Shape Concat", 2)
def dynamic_reshape(g, op=None):
    x = g.pick(ANY, low=1, high=4)
    cut = g.integer(0, x.rank)
    parts = [dim_of(g, x, a) for a in range(cut)]
    rest = x.dims[cut:]
    if len(rest) >= 2 and g.chance(0.4):
        product = dim_of(g, x, cut)
        for a in range(cut + 1, x.rank):
            product = g.add("Mul", [product, dim_of(g, x, a)])
        parts.append(product)
    elif rest and all(d for d in rest) and g.chance(0.4):
        parts.append(g.ints(*factorised(g, int(np.prod(rest)))))
    else:
        parts.append(g.ints(-1) if g.chance(0.7) or not rest else g.ints(*[0 for _ in rest]))
    target = g.add("Concat", parts, axis=0)
    if g.chance(0.2):
        target = g.add("Cast", [g.add("Cast", [target], to=6)], to=7)
    return g.add("Reshape", [x, target])


@maker("Reshape Shape Div", 0.4)
def reshape_to_zero(g, op=None):
    """A computed size of 0 copies the input's dim."""
    x = g.pick(ANY, low=1, high=4)
    parts = [dim_of(g, x, a) for a in range(x.rank)]
    at = g.integer(0, x.rank - 1)
    parts[at] = g.add("Div", [parts[at], g.ints(MAX_ELEMENTS + 1)])
    other = g.integer(0, x.rank - 1)
    if other != at:
        parts[other] = g.ints(-1)
    return g.add("Reshape", [x, g.add("Concat", parts, axis=0)])


@maker("Expand Shape", 1)
def dynamic_expand(g, op=None):
    x, like = g.pick(ANY, high=4), g.pick(ANY, high=4)
    target = g.add("Shape", [like])
    if g.chance(0.3):
        target = g.add("Where", [g.add("Equal", [target, g.ints(-1)]), g.ints(1), target])
    return g.add("Expand", [x, target])


@maker("ConstantOfShape Shape", 0.8)
def filled(g, op=None):
    x = g.pick(low=1, high=4)
    number = numpy_helper.from_array(np.array([g.choice([0, 1, 2.5])], x.dtype))
    zeros = g.add("ConstantOfShape", [g.add("Shape", [x])], value=number)
    return g.add(g.choice(["Add", "Mul", "Max"]), [x, zeros])


@maker("Slice Shape", 1)
def dynamic_slice(g, op=None):
    x = g.pick(ANY, low=1, high=4)
    axis = g.integer(0, x.rank - 1)
    end = dim_of(g, x, axis)
    if g.chance(0.5):
        end = g.add("Div", [g.add("Add", [end, g.ints(1)]), g.ints(2)])
    else:
        end = g.add("Sub", [end, g.ints(g.integer(0, 1))])
    return g.add("Slice", [x, g.ints(0), end, g.ints(axis)])


@maker("Range Shape", 0.8)
def positions(g, op=None):
    x = g.pick(low=1, high=4)
    axis = g.integer(0, x.rank - 1)
    shape = g.add("Shape", [x])
    size = g.add("Gather", [shape, g.constant(np.array(axis, np.int64))])
    scalar = lambda v: g.constant(np.array(v, np.int64))  # noqa: E731
    ids = g.add("Range", [scalar(0), size, scalar(1)])
    if g.chance(0.5):
        return g.add("Gather", [x, g.add("Sub", [g.add("Sub", [size, scalar(1)]), ids])], axis=axis)
    numbers = g.add("Cast", [ids], to=int(helper.np_dtype_to_tensor_dtype(x.dtype)))
    if axis != x.rank - 1:
        numbers = g.add("Unsqueeze", [numbers, g.ints(*range(1, x.rank - axis))])
    return g.add("Add", [x, numbers])


@maker("Shape Size Cast Div", 0.6)
def mean_by_hand(g, op=None):
    x = g.pick(low=1)
    total = g.add("ReduceSum", [x], keepdims=0)
    count = g.add("Cast", [g.add("Size", [x])], to=int(helper.np_dtype_to_tensor_dtype(x.dtype)))
    need(all(a.size for a in x.arrays))
    return g.add("Div", [total, count])


@maker("NonZero", 0.4)
def non_zero(g, op=None):
    x = g.pick("fib", low=1, high=3)
    found = g.add("NonZero", [x])
    return g.add("Shape", [found]) if g.chance(0.4) else found
