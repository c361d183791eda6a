"""Rows about slices, reshapes, resizes and indices."""

import itertools

import formulas
import numpy as np
from case import BFLOAT16, FLOATS, data, many, node, one, row

F32 = np.dtype(np.float32)
MOVED = [np.dtype(t) for t in (np.float32, np.float16, np.float64, np.int64, np.int32, np.uint8, np.bool_)] + [BFLOAT16]


def wanted(x):
    """Data only moves: doubles for floats, the thing itself for integers."""
    return x if x.dtype.kind in "iub" else formulas.wide(x)


@row("slice_negative_steps")
def slice_negative_steps():
    lowest = -(1 << 63)
    literal = {
        (10, 9, 0, -1): [9, 8, 7, 6, 5, 4, 3, 2, 1],
        (20, 19, 0, -3): [19, 16, 13, 10, 7, 4, 1],
        (10, -1, -100, -4): [9, 5, 1],
        (10, 9, lowest + 1, -1): [9, 8, 7, 6, 5, 4, 3, 2, 1, 0],
        (10, 0, 5, -1): [],
    }
    for (size, *how), positions in literal.items():
        assert formulas.slice_positions(size, *how) == positions
    more = [(7, -2, 1, -2), (7, 100, lowest + 1, -3), (5, 4, -6, -1), (6, -100, 100, 4), (6, 5, 0, 2), (0, -1, -9, -1)]
    for (size, start, end, step), rank in itertools.product([*literal, *more], [1, 2, 3]):
        axis = rank - 1 if start % 2 else 0
        shape = [2] * rank
        shape[axis] = size
        for dtype in MOVED if rank == 2 and size == 10 else [F32]:
            x = data(dtype, *shape)
            want = np.take(x, formulas.slice_positions(size, start, end, step), axis)
            operands = [np.array([v], np.int64) for v in (start, end, axis - rank if rank == 3 else axis, step)]
            name = f"{size}_{start}_{end}_{step}_{rank}d_{dtype}"
            yield one(name, "Slice", [x, *operands], [wanted(want)], params=(1, 2, 3, 4), opset=11, terms=0)
    for steps in [(-1, -2), (-1, 1), (2, -1)]:  # two axes at once, operands of 32 bits
        x = data(F32, 5, 2, 6)
        starts = [0 if s > 0 else 100 for s in steps]
        ends = [100 if s > 0 else -(1 << 31) for s in steps]
        want = x
        for axis, start, end, step in zip((0, 2), starts, ends, steps, strict=True):
            want = np.take(want, formulas.slice_positions(x.shape[axis], start, end, step), axis)
        operands = [np.array(v, np.int32) for v in (starts, ends, (0, -1), steps)]
        yield one(f"two_axes_{steps}", "Slice", [x, *operands], [wanted(want)], params=(1, 2, 3, 4), terms=0)


def resized(x, positions, axes):
    for axis, where in zip(axes, positions, strict=True):
        x = np.take(x, where, axis)
    return wanted(x)


def resize_cases(rounding, pairs, literal):
    for (size, count), positions in literal.items():
        assert formulas.nearest_positions(size, count, rounding) == positions
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": rounding}
    for size, count in [*literal, *pairs]:
        where = formulas.nearest_positions(size, count, rounding)
        layouts = [
            ((size,), [0]),
            ((1, 2, size), [2]),
            ((1, 2, size, 3), [2]),
            ((1, 1, 3, size), [3]),
            ((size, 3), [0]),
        ]
        for shape, axes in layouts:
            x = data(F32, *shape)
            sizes = np.array([count if k in axes else d for k, d in enumerate(shape)])
            want = resized(x, [where], axes)
            for opset in (11, 19):
                roi = np.zeros(0, np.float32)
                inputs = [x, roi, roi, sizes] if opset == 11 else [x, None, None, sizes]
                params = (1, 2, 3) if opset == 11 else (3,)
                name = f"{size}_{count}_{list(shape)}_{opset}"
                case = one(name, "Resize", inputs, [want], params=params, attributes=attributes, opset=opset, terms=0)
                if opset == 11:
                    case.ways = ("run", "folded")  # whether scales are left out must be known
                yield case
        for dtype in (np.uint8, np.int32, np.float16, np.float64):
            x = data(dtype, 1, 1, size, size)
            want = resized(x, [where, where], (2, 3))
            inputs = [x, None, None, np.array([1, 1, count, count])]
            yield one(
                f"{size}_{count}_{np.dtype(dtype)}",
                "Resize",
                inputs,
                [want],
                params=(3,),
                attributes=attributes,
                terms=0,
            )


@row("resize_round_prefer_ceil")
def resize_round_prefer_ceil():
    yield from resize_cases("round_prefer_ceil", [(7, 3), (5, 10), (12, 8), (30, 4)], {(20, 6): [1, 5, 8, 11, 15, 18]})
    yield from (renamed(c, "floor") for c in resize_cases("round_prefer_floor", [(20, 6), (7, 3), (12, 8)], {}))


def renamed(case, prefix):
    case.name = f"{prefix}_{case.name}"
    return case


@row("resize_floor_half_pixel")
def resize_floor_half_pixel():
    """Doubling starts at -0.25: floor is -1, and the clamp makes it 0."""
    yield from resize_cases("floor", [(3, 9), (5, 20), (6, 4)], {(4, 8): [0, 0, 0, 1, 1, 2, 2, 3]})
    yield from (renamed(c, "ceil") for c in resize_cases("ceil", [(4, 8), (6, 4)], {}))
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "floor"}
    for scale, size in [(2.0, 4), (1.5, 6), (0.5, 8), (3.0, 3)]:
        x = data(F32, 1, 2, size, size)
        where = formulas.nearest_positions(size, int(size * scale), "floor", scale)
        inputs = [x, None, np.array([1, 1, scale, scale], np.float32)]
        want = resized(x, [where, where], (2, 3))
        yield one(f"scale_{scale}", "Resize", inputs, [want], params=(2,), attributes=attributes, terms=0)


@row("reshape_zero_and_minus_one")
def reshape_zero_and_minus_one():
    places = [
        ((2, 3), [0, 3], 0, (2, 3)),
        ((2, 3, 4), [0, -1], 0, (2, 12)),
        ((2, 3, 4), [-1, 0], 0, (8, 3)),
        ((2, 3, 4), [0, 0, 2, -1], 0, (2, 3, 2, 2)),
        ((6,), [-1], 0, (6,)),
        ((), [1, -1], 0, (1, 1)),
        ((0, 3), [2, 0], 1, (2, 0)),
        ((0, 4), [4, 0], 1, (4, 0)),
        ((0, 3), [0, 3], 0, (0, 3)),
        ((0, 3), [3, -1], 0, (3, 0)),
        ((3, 0), [0, -1, 2], 0, (3, 0, 2)),
        ((2, 3), [3, -1], 1, (3, 2)),
        ((1,), [], 0, ()),
    ]
    for shape, target, allow, result in places:
        for dtype in MOVED if shape == (2, 3, 4) else [F32]:
            x = data(dtype, *shape)
            attributes = {"allowzero": allow} if allow else {}
            inputs = [x, np.array(target, np.int64)]
            name = f"{list(shape)}_{target}_{allow}_{dtype}"
            yield one(name, "Reshape", inputs, [wanted(x).reshape(result)], params=(1,), attributes=attributes, terms=0)


def target_steps(target):
    """Nodes that compute a Reshape target `t` of numbers and of expressions in the dims of x and m, such as "x0*x1"."""
    steps, parts, numbers = [], [], {}
    for tensor in sorted({tensor for item in target for tensor in str(item) if tensor in "xm"}):
        steps.append(node("Shape", tensor, f"{tensor}s"))
    for k, item in enumerate(target):
        names = [f"d{k}"]
        if isinstance(item, int):
            numbers[f"d{k}"] = np.array([item])
        for i, dim in enumerate([] if isinstance(item, int) else item.replace("//7", "").split("*")):
            numbers[f"i{dim[1]}"] = np.array([int(dim[1])])
            steps.append(node("Gather", f"{dim[0]}s i{dim[1]}", f"d{k}_{i}"))
            names = [f"d{k}_{i}"] if i == 0 else [f"p{k}"]
            if i == 1:
                steps.append(node("Mul", f"d{k}_0 d{k}_1", f"p{k}"))
        if str(item).endswith("//7"):
            numbers["seven"] = np.array([7])
            steps.append(node("Div", f"{names[0]} seven", f"q{k}"))
            names = [f"q{k}"]
        parts += names
    return [*steps, node("Concat", parts, "t", axis=0)], numbers


@row("reshape_computed_zero")
def reshape_computed_zero():
    """A computed size that happens to be 0 copies the input's dim too, and with allowzero it does not."""
    places = [
        ((3, 4), (0,), ["m0", 4], 0, (3, 4)),
        ((3, 4), (2,), ["m0", 6], 0, (2, 6)),
        ((3, 4), (0,), ["m0", -1], 0, (3, 4)),
        ((3, 4), (6,), ["m0", -1], 0, (6, 2)),
        ((3, 4), (0, 0), ["m0", "m1"], 0, (3, 4)),
        ((3, 4), (3, 0), ["m0", "m1"], 0, (3, 4)),
        ((3, 4), (2, 6), ["m0", "m1"], 0, (2, 6)),
        ((2, 3, 4), (0,), [2, "m0", 2, 2], 0, (2, 3, 2, 2)),
        ((2, 3, 4), (0,), [-1, "m0"], 0, (8, 3)),
        ((5, 2), (1,), ["x0//7", -1], 0, (5, 2)),
        ((14, 2), (1,), ["x0//7", 14], 0, (2, 14)),
        ((2, 0), (1,), ["x1", -1], 0, (2, 0)),
        ((3, 0, 4), (1,), ["x0*x1", -1], 0, (3, 0)),
        ((3, 2, 4), (1,), ["x0*x1", -1], 0, (6, 4)),
        ((0, 3), (1,), ["x0", 3], 0, (0, 3)),
        ((0, 2, 5), (1,), ["x0*x1", 5], 0, (0, 5)),
        ((0, 4), (1,), [4, "x0"], 1, (4, 0)),
        ((2, 0, 3), (1,), ["x1", 7], 1, (0, 7)),
    ]
    for shape, other, target, allow, result in places:
        steps, numbers = target_steps(target)
        steps.append(node("Reshape", "x t", "y", allowzero=allow))
        steps += [node("Shape", "y", "s"), node("Neg", "y", "n"), node("Reshape", "n flat", "z")]
        numbers["flat"] = np.array([-1])
        x, m = data(F32, *shape), data(F32, *other)
        feeds = {"x": x, "m": m} if any("m" in str(item) for item in target) else {"x": x}
        wants = {"y": formulas.wide(x).reshape(result), "s": np.array(result), "z": -formulas.wide(x).reshape(-1)}
        types = {"y": F32, "s": np.dtype(np.int64), "z": F32}
        name = f"{list(shape)}_{list(other)}_{'_'.join(map(str, target))}_{allow}"
        yield many(name, steps, feeds, wants, params=numbers, types=types, opset=21, terms=0)


@row("top_k_ties")
def top_k_ties():
    rows = [3, 1, 3, 2, 3, 1, 2, 2, 1]
    dtypes = [*FLOATS, *[np.dtype(t) for t in (np.int32, np.int64, np.uint8)]]
    for dtype, k, largest, shape in itertools.product(dtypes, [1, 4, 9], [1, 0], [(9,), (2, 9), (9, 3), (2, 9, 2)]):
        axis = shape.index(9)
        x = np.moveaxis(np.broadcast_to(np.array(rows, dtype), [*shape[:axis], *shape[axis + 1 :], 9]), -1, axis)
        x = np.ascontiguousarray(x)
        where = formulas.best(rows, k, largest)
        indices = np.broadcast_to(
            np.reshape(where, [-1 if i == axis else 1 for i in range(len(shape))]),
            [k if i == axis else d for i, d in enumerate(shape)],
        )
        values = np.take_along_axis(wanted(x), indices, axis)
        yield one(
            f"{dtype}_k{k}_{'largest' if largest else 'smallest'}_{list(shape)}",
            "TopK",
            [x, np.array([k])],
            [values, indices],
            params=(1,),
            dtypes=[dtype, np.int64],
            attributes={"axis": axis if k == 4 else axis - len(shape), "largest": largest},
            terms=0,
        )


@row("non_zero_of_scalars")
def non_zero_of_scalars():
    """A 0-d value has no coordinate: (0, 1) when it is not zero, (0, 0) when it is."""
    for dtype in [*FLOATS, *[np.dtype(t) for t in (np.int32, np.int64, np.uint8, np.bool_)]]:
        for value in (0, 1):
            want = np.zeros((0, value), np.int64)
            yield one(f"{value}_{dtype}", "NonZero", [np.array(value, dtype)], [want], dtypes=[np.int64])
        for shape in [(5,), (2, 3), (2, 2, 3), (0,), (2, 0)]:
            x = data(dtype, *shape)
            x.reshape(-1)[1::3] = 0
            want = np.argwhere(x != 0).T.reshape(len(shape), -1)
            yield one(f"{list(shape)}_{dtype}", "NonZero", [x], [want], dtypes=[np.int64])
    x = np.array(4, np.float32)
    steps = [node("NonZero", "x", "found"), node("Shape", "found", "y")]
    yield many("shape_of_scalar", steps, {"x": x}, {"y": [0, 1]}, types=np.int64)


@row("scatter_gather_einsum")
def scatter_gather_einsum():
    literal = [np.zeros(4), np.array([[1], [3], [1]]), np.array([1.0, 5, 2])]
    for dtype in [*FLOATS, np.dtype(np.int64), np.dtype(np.int32)]:
        x, where, updates = (a if k == 1 else a.astype(dtype) for k, a in enumerate(literal))
        yield one(
            f"ScatterND_add_{dtype}",
            "ScatterND",
            [x, where, updates],
            [np.array([0, 3, 0, 5])],
            params=(1,),
            attributes={"reduction": "add"},
            opset=18,
        )
    for reduction, join in [("add", np.add), ("mul", np.multiply), ("max", np.maximum), ("min", np.minimum)]:
        x, where, updates = data(F32, 3, 2, 2), np.array([[0], [-1], [0]]), data(F32, 3, 2, 2, low=1, high=4)
        want = formulas.wide(x)
        for row_of, (index,) in enumerate(where):
            want[index] = join(want[index], formulas.wide(updates)[row_of])
        attributes = {"reduction": reduction}
        yield one(
            f"ScatterND_rows_{reduction}",
            "ScatterND",
            [x, where, updates],
            [want],
            params=(1,),
            attributes=attributes,
            opset=18,
            terms=3,
        )
        x, updates, where = data(F32, 3, 4), data(F32, 2, 3), np.array([[0, 0, -4], [-1, 1, -1]])
        want = formulas.wide(x)
        for i, j in itertools.product(range(2), range(3)):
            want[i, where[i, j]] = join(want[i, where[i, j]], formulas.wide(updates)[i, j])
        attributes = {"reduction": reduction, "axis": 1}
        yield one(
            f"ScatterElements_{reduction}",
            "ScatterElements",
            [x, where, updates],
            [want],
            params=(1,),
            attributes=attributes,
            opset=18,
            terms=3,
        )
    for dtype, axis, kind in itertools.product(MOVED, [0, 1, -1], [np.int64, np.int32]):
        x = data(dtype, 3, 4)
        where = np.array([[-1, 0, -2, 1], [2, -3, 0, -1], [1, 2, -2, 0]], kind)
        yield one(
            f"GatherElements_{axis}_{dtype}_{np.dtype(kind)}",
            "GatherElements",
            [x, where],
            [wanted(np.take_along_axis(x, where, axis))],
            params=(1,),
            attributes={"axis": axis},
            terms=0,
        )
        want = np.take(x, where[0], axis)
        yield one(
            f"Gather_{axis}_{dtype}_{np.dtype(kind)}",
            "Gather",
            [x, where[0]],
            [wanted(want)],
            params=(1,),
            attributes={"axis": axis},
            terms=0,
        )
    for dtype in [*FLOATS, np.dtype(np.int32)]:
        x, y = data(dtype, 3, 3), data(dtype, 2, 3, 3)
        diagonal = [wanted(x)[i, i] for i in range(3)]
        yield one(f"Einsum_ii_i_{dtype}", "Einsum", [x], [diagonal], attributes={"equation": "ii->i"})
        yield one(f"Einsum_ii_{dtype}", "Einsum", [x], [sum(diagonal)], attributes={"equation": "ii->"}, terms=3)
        batch = np.stack([[wanted(y)[b, i, i] for i in range(3)] for b in range(2)])
        yield one(f"Einsum_bii_{dtype}", "Einsum", [y], [batch], attributes={"equation": "bii->bi"})
        yield one(f"Einsum_dots_{dtype}", "Einsum", [y], [batch], attributes={"equation": "...ii->...i"})
        want = np.stack(
            [[sum(wanted(y)[b, i, j] * wanted(x)[j, j] for j in range(3)) for i in range(3)] for b in range(2)]
        )
        yield one(
            f"Einsum_bij_jj_{dtype}",
            "Einsum",
            [y, x],
            [want],
            attributes={"equation": "bij,jj->bi"},
            terms=3,
            scale=27.0,
        )
