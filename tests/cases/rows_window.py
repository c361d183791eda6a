"""Rows about pools, convolutions and their neighbours."""

import itertools

import formulas
import numpy as np
from case import FLOATS, data, many, node, one, row

F32 = np.dtype(np.float32)


@row("pool_ceil_padding")
def pool_ceil_padding():
    """k2 s2 p1 of 17 rounded up is 9: the tenth window would start in the end padding."""
    assert formulas.window_count(17, 2, 2, 1, 1, 1, True) == 9
    places = [((1, 2, 17, 17), 2, 2, 1), ((1, 2, 17), 2, 2, 1), ((1, 1, 5, 5, 5), 2, 2, 1), ((2, 1, 8, 7), 3, 2, 1)]
    places += [((1, 1, 9, 11), 2, 3, 1), ((1, 2, 10), 3, 3, 1), ((1, 1, 6, 6), 3, 2, 0), ((1, 1, 7, 8), 1, 3, 0)]
    for (shape, k, s, p), op in itertools.product(places, ["MaxPool", "AveragePool"]):
        rank = len(shape) - 2
        for opset, dtype, pads in [
            (12, F32, [p] * 2 * rank),
            (22, F32, [0] * rank + [p] * rank),
            (22, FLOATS[1], None),
        ]:
            x = data(dtype, *shape, low=-9, high=-1)
            attributes = {"kernel_shape": [k] * rank, "strides": [s] * rank, "ceil_mode": 1}
            if pads:
                attributes["pads"] = pads
            kind = "max" if op == "MaxPool" else "mean"
            want = formulas.pool(x, [k] * rank, [s] * rank, pads or [0] * 2 * rank, kind=kind, ceil=True)
            name = f"{op}_{list(shape)}_k{k}s{s}_{pads}_{opset}_{dtype}"
            yield one(name, op, [x], [want], attributes=attributes, opset=opset, terms=k**rank)
    for dilation, size in [(2, 11), (3, 12)]:
        x = data(F32, 1, 2, size, low=-9, high=-1)
        attributes = {"kernel_shape": [3], "strides": [2], "ceil_mode": 1, "pads": [1, 1], "dilations": [dilation]}
        want = formulas.pool(x, [3], [2], [1, 1], kind="max", ceil=True, dilations=[dilation])
        yield one(f"MaxPool_dilation{dilation}", "MaxPool", [x], [want], attributes=attributes)


@row("average_pool_divisor")
def average_pool_divisor():
    """The divisor is the number of cells in range: pads count when asked for, cells beyond them never."""
    places = [((1, 2, 17, 17), 7, 3, 3), ((1, 2, 17), 7, 3, 3), ((2, 1, 9, 14), 7, 3, 3), ((1, 1, 6, 6, 6), 3, 2, 1)]
    places += [((1, 1, 8, 8), 5, 4, 2), ((1, 3, 4, 4), 3, 1, 1)]
    for (shape, k, s, p), ceil, include in itertools.product(places, [0, 1], [0, 1]):
        rank = len(shape) - 2
        for dtype in FLOATS if shape == (1, 2, 17) else [F32]:
            x = data(dtype, *shape, low=1, high=5)
            attributes = {"kernel_shape": [k] * rank, "strides": [s] * rank, "pads": [p] * 2 * rank}
            attributes.update(ceil_mode=ceil, count_include_pad=include)
            want = formulas.pool(
                x, [k] * rank, [s] * rank, [p] * 2 * rank, kind="mean", ceil=bool(ceil), include_pad=bool(include)
            )
            name = f"{list(shape)}_ceil{ceil}_include{include}_{dtype}"
            yield one(name, "AveragePool", [x], [want], attributes=attributes, terms=k)


@row("conv_transpose_same")
def conv_transpose_same():
    """The odd row is cut from the end by SAME_UPPER, from the start by SAME_LOWER."""
    kernels = [(3, 2), (4, 2), (2, 2), (5, 3), (4, 3), (3, 1), (2, 1)]
    for (k, s), auto, rank in itertools.product(kernels, ["SAME_UPPER", "SAME_LOWER"], [1, 2]):
        x, w = data(F32, 1, 2, *[4, 3][:rank]), data(F32, 2, 3, *[k] * rank)
        begin, end = [], []
        for size in x.shape[2:]:
            total = s * (size - 1) + k - s * size
            small, large = total // 2, total - total // 2
            begin.append(small if auto == "SAME_UPPER" else large)
            end.append(large if auto == "SAME_UPPER" else small)
        want = formulas.conv_transpose(x, w, strides=[s] * rank, crop=begin + end)
        assert want.shape[2:] == tuple(s * d for d in x.shape[2:])
        attributes = {"auto_pad": auto, "strides": [s] * rank}
        name = f"{auto}_k{k}s{s}_{rank}d"
        yield one(
            name, "ConvTranspose", [x, w], [want], params=(1,), attributes=attributes, terms=2 * k**rank, scale=9.0
        )
    for pads, extra, group in itertools.product([[1, 0], [0, 1], [1, 1], [2, 1]], [0, 1], [1, 2]):
        x, w, b = data(F32, 2, 4, 5), data(F32, 4, 2, 4), data(F32, 2 * group)
        want = formulas.conv_transpose(x, w, b, strides=[2], crop=pads, extra=[extra], group=group)
        attributes = {"pads": pads, "strides": [2], "output_padding": [extra], "group": group}
        name = f"pads{pads}_extra{extra}_g{group}"
        yield one(name, "ConvTranspose", [x, w, b], [want], params=(1, 2), attributes=attributes, terms=16, scale=9.0)
    for pads, extra, dilation in [([1, 0, 0, 1], [1, 0], 1), ([1, 1, 2, 0], [0, 1], 2), ([0, 0, 0, 0], [1, 1], 1)]:
        x, w = data(F32, 1, 2, 3, 4), data(F32, 2, 2, 3, 3)
        more = {"strides": [2, 2], "dilations": [dilation] * 2}
        want = formulas.conv_transpose(x, w, crop=pads, extra=extra, **more)
        attributes = {"pads": pads, "output_padding": extra, **more}
        name = f"2d_{pads}_{extra}_d{dilation}"
        yield one(name, "ConvTranspose", [x, w], [want], params=(1,), attributes=attributes, terms=18, scale=9.0)


@row("grouped_conv_then_add")
def grouped_conv_then_add():
    """A constant as large as the result is a sum; only one by channel may become the bias."""
    for group, rank, bias in itertools.product([1, 2, 4], [1, 2, 3], [False, True]):
        x, w = data(F32, 1, 4, *[5, 6, 4][:rank]), data(F32, 8, 4 // group, *[3] * rank)
        b = data(F32, 8) if bias else None
        y = formulas.conv(x, w, b, pads=[1] * 2 * rank, group=group)
        shapes = [y.shape, y.shape[1:], (8, *[1] * rank), (1, 8, *[1] * rank), (1, 1, *y.shape[2:]), y.shape[-1:], ()]
        for shape in shapes if rank == 2 else shapes[:3]:
            c = data(F32, *shape)
            yield many(
                f"g{group}_{rank}d_{'bias' if bias else 'plain'}_{list(shape)}",
                [
                    node("Conv", "x w b" if bias else "x w", "h", pads=[1] * 2 * rank, group=group),
                    node("Add", "h c", "y"),
                ],
                {"x": x},
                {"y": y + formulas.wide(c)},
                params={"w": w, "c": c, **({"b": b} if bias else {})},
                terms=4 * 3**rank,
                scale=9.0,
            )


@row("gemm_identity_transpose")
def gemm_identity_transpose():
    """A Transpose that moves nothing must not flip a flag of the product."""
    for ta, tb, side, perm in itertools.product([0, 1], [0, 1], ["a", "w"], [[0, 1], [1, 0]]):
        for dtype, bias in itertools.product(FLOATS[:2], [None, (4,), (3, 4), (3, 1), ()]):
            a = data(dtype, *((5, 3) if ta else (3, 5)))
            w = data(dtype, *((4, 5) if tb else (5, 4)))
            want = formulas.wide(a.T if ta else a) @ formulas.wide(w.T if tb else w)
            feeds = {"a": a, "w": w}
            feeds[side] = np.ascontiguousarray(np.transpose(feeds[side], np.argsort(perm)))
            names = f"{'t' if side == 'a' else 'a'} {'t' if side == 'w' else 'w'}"
            params = {"w": feeds.pop("w")}
            if bias is not None:
                params["b"] = data(dtype, *bias)
                want = want + formulas.wide(params["b"])
                names += " b"
            steps = [node("Transpose", side, "t", perm=perm), node("Gemm", names, "y", transA=ta, transB=tb)]
            name = f"{side}{perm}_{ta}{tb}_{bias}_{dtype}"
            yield many(name, steps, feeds, {"y": want}, params=params, terms=5, scale=9.0)


@row("pad_then_pool")
def pad_then_pool():
    """A Pad's cells are cells: they count in a mean, and a maximum of negatives sees their zero."""
    for rank, value, op in itertools.product([1, 2], [0.0, -1.0], ["AveragePool", "MaxPool", "Conv"]):
        for pads, inner in itertools.product([[0, 0] + [1] * rank, [0, 0] + [2] * rank, [0, 0] + [-1] * rank], [0, 1]):
            x = data(F32, 1, 2, *[8, 7][:rank], low=-6, high=-2)
            amounts = pads + pads
            padded = crop_or_pad(x, pads, value)
            own = [inner] * 2 * rank
            attributes = {"kernel_shape": [3] * rank, "pads": own}
            params = {"amounts": np.array(amounts), "value": np.array(value, np.float32)}
            if op == "Conv":
                params["w"] = data(F32, 3, 2, *[3] * rank)
                want = formulas.conv(padded, params["w"], pads=own)
                tail = node("Conv", "p w", "y", **attributes)
            else:
                if op == "AveragePool":
                    attributes["count_include_pad"] = 0
                want = formulas.pool(padded, [3] * rank, [1] * rank, own, kind="mean" if op == "AveragePool" else "max")
                tail = node(op, "p", "y", **attributes)
            steps = [node("Pad", "x amounts value", "p"), tail]
            name = f"{op}_{rank}d_{pads}_{value}_{inner}"
            yield many(name, steps, {"x": x}, {"y": want}, params=params, terms=18, scale=18.0)


def crop_or_pad(x, amounts, value):
    x = formulas.wide(x)
    for axis, n in enumerate(amounts):
        if n < 0:
            x = np.take(x, range(-n, x.shape[axis] + n), axis)
    return np.pad(x, [(max(n, 0), max(n, 0)) for n in amounts], constant_values=value)
