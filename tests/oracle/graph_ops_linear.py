"""Makers of products, convolutions, pools, norms, softmax and reductions."""

import numpy as np
from graph_builder import need
from graph_ops import SINCE, maker

FLOATS = "f"


@maker("MatMul", 3)
def matmul(g, op=None):
    x = g.scaled(g.pick(low=1, high=5))
    k = x.dims[-1]
    if k is not None and g.chance(0.65):
        n = g.choice([1, 2, 3, 5, 8, 16])
        lead = g.choice([[], [], [1], list(x.dims[:-2])]) if x.rank > 2 else []
        lead = [d or 1 for d in lead]
        w = g.constant(g.random_array([*lead, k, n] if g.chance(0.9) else [k], x.dtype) / x.dtype.type(2))
        y = g.add("MatMul", [x, w])
        return g.add("Add", [y, g.constant(g.random_array([n], x.dtype))]) if g.chance(0.4) else y
    if g.chance(0.5) and x.rank >= 2:
        axes = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
        return g.add("MatMul", [x, g.add("Transpose", [x], perm=axes)])
    others = [v for v in g.visible() if v.dtype == x.dtype and v.rank >= 1]
    return g.add("MatMul", [x, g.choice(others)])


@maker("Gemm", 1.5)
def gemm(g, op=None):
    x = g.scaled(g.pick(low=2, high=2))
    ta = g.integer(0, 1)
    k = x.dims[0 if ta else 1]
    need(k is not None)
    n, tb = g.choice([1, 3, 4, 8]), g.integer(0, 1)
    w = g.constant(g.random_array([n, k] if tb else [k, n], x.dtype))
    inputs = [x, w]
    if g.chance(0.7):
        m = x.dims[1 if ta else 0] or 1
        inputs.append(g.constant(g.random_array(g.choice([[n], [1], [], [1, n], [m, n], [m, 1]]), x.dtype)))
    attributes = {"transA": ta, "transB": tb}
    if g.chance(0.4):
        attributes.update(alpha=g.choice([0.5, 2.0]), beta=g.choice([0.5, 0.0, 2.0]))
    return g.add("Gemm", inputs, **attributes)


def spatial(g, rank_low=3, rank_high=4):
    return g.scaled(
        g.pick(low=rank_low, high=rank_high, where=lambda v: v.dims[1] is not None and v.dtype != np.float64)
    )


def window(g, spatial_rank, pads=True):
    attributes = {"kernel_shape": [g.choice([1, 2, 3, 3, 5]) for _ in range(spatial_rank)]}
    if g.chance(0.6):
        attributes["strides"] = [g.choice([1, 2, 3]) for _ in range(spatial_rank)]
    if pads and g.chance(0.6):
        attributes["pads"] = [
            g.integer(0, min(2, attributes["kernel_shape"][i % spatial_rank] - 1)) for i in range(2 * spatial_rank)
        ]
    elif pads and g.chance(0.3):
        attributes["auto_pad"] = g.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    return attributes


@maker("Conv", 3)
def conv(g, op=None):
    x = spatial(g)
    c, rank = x.dims[1], x.rank - 2
    groups = g.choice([d for d in range(1, c + 1) if c % d == 0])
    m = groups * g.choice([1, 1, 2, 4])
    attributes = window(g, rank)
    if "auto_pad" not in attributes and g.chance(0.25):
        attributes["dilations"] = [g.choice([1, 2]) for _ in range(rank)]
    w = g.constant(g.random_array([m, c // groups, *attributes["kernel_shape"]], x.dtype) / x.dtype.type(2))
    inputs = [x, w]
    if g.chance(0.6):
        inputs.append(g.constant(g.random_array([m], x.dtype)))
    y = g.add("Conv", inputs, group=groups, **attributes)
    return tail(g, y) if g.chance(0.7) else y


def tail(g, y):
    """What stands behind a convolution: a norm, an activation, a sum."""
    if g.chance(0.4):
        y = batch_norm_of(g, y)
    if g.chance(0.5):
        y = g.add(g.choice(["Relu", "Sigmoid", "Tanh", "LeakyRelu"]), [y])
    if g.chance(0.3):
        y = g.add("Add", [y, g.partner(y)])
    if g.chance(0.3):
        y = g.add("Mul", [y, g.like(y)])
    return y


@maker("ConvTranspose", 1)
def conv_transpose(g, op=None):
    x = spatial(g)
    need(x.dtype == np.float32)
    c, rank = x.dims[1], x.rank - 2
    groups = g.choice([d for d in range(1, c + 1) if c % d == 0])
    attributes = window(g, rank)
    if "strides" in attributes and g.chance(0.3):
        attributes["output_padding"] = [s - 1 for s in attributes["strides"]]
    w = g.constant(g.random_array([c, g.choice([1, 2, 3]), *attributes["kernel_shape"]], x.dtype) / x.dtype.type(2))
    inputs = [x, w]
    if g.chance(0.5):
        inputs.append(g.constant(g.random_array([w.dims[1] * groups], x.dtype)))
    y = g.add("ConvTranspose", inputs, group=groups, **attributes)
    return tail(g, y) if g.chance(0.5) else y


@maker("MaxPool AveragePool", 2)
def pool(g, op=None):
    x = spatial(g)
    need(x.dtype == np.float32)
    op = op or g.choice(["MaxPool", "AveragePool"])
    attributes = window(g, x.rank - 2)
    if g.chance(0.4) and "auto_pad" not in attributes:
        attributes["ceil_mode"] = 1
    if op == "AveragePool" and g.chance(0.5):
        attributes["count_include_pad"] = 1
    if op == "MaxPool" and g.chance(0.2) and "auto_pad" not in attributes:
        attributes["dilations"] = [2] * (x.rank - 2)
    return g.add(op, [x], **attributes)


@maker("GlobalAveragePool GlobalMaxPool", 0.7)
def global_pool(g, op=None):
    return g.add(op or g.choice(["GlobalAveragePool", "GlobalMaxPool"]), [spatial(g)])


def batch_norm_of(g, x):
    c = x.dims[1]
    need(c is not None and x.dtype in (np.float32, np.float64))
    scale, bias, mean = (g.constant(g.random_array([c], x.dtype)) for _ in range(3))
    variance = g.constant(g.random_array([c], x.dtype, positive=True))
    return g.add("BatchNormalization", [x, scale, bias, mean, variance], epsilon=g.choice([1e-5, 1e-3]))


@maker("BatchNormalization", 1.5)
def batch_norm(g, op=None):
    return batch_norm_of(g, g.pick(low=2, where=lambda v: v.dims[1] is not None))


@maker("InstanceNormalization", 0.4)
def instance_norm(g, op=None):
    x = spatial(g)
    need(x.dtype == np.float32)
    scale, bias = (g.constant(g.random_array([x.dims[1]], x.dtype)) for _ in range(2))
    return g.add("InstanceNormalization", [x, scale, bias], epsilon=1e-2)


@maker("LayerNormalization", 1.2)
def layer_norm(g, op=None):
    need(g.opset >= SINCE["LayerNormalization"])
    x = g.pick(low=1)
    need(x.dtype in (np.float32, np.float64))
    axis = g.integer(0, x.rank - 1)
    rest = x.dims[axis:]
    need(all(d is not None for d in rest) and np.prod(rest) > 1)
    inputs = [x, g.constant(g.random_array(rest, x.dtype))]
    if g.chance(0.6):
        inputs.append(g.constant(g.random_array(rest, x.dtype)))
    return g.add("LayerNormalization", inputs, axis=axis - (x.rank if g.chance(0.5) else 0), epsilon=1e-2)


@maker("Softmax LogSoftmax", 1.5)
def softmax(g, op=None):
    x = g.pick(low=1)
    axis = g.integer(-x.rank, x.rank - 1)
    return g.add(op or g.choice(["Softmax", "Softmax", "LogSoftmax"]), [x], axis=axis)


@maker("MatMul Softmax", 0.6)
def attention(g, op=None):
    q = g.pick(low=2, high=4, where=lambda v: v.dims[-1] is not None)
    d = q.dims[-1]
    k, v = (g.add("MatMul", [q, g.constant(g.random_array([d, d], q.dtype) / q.dtype.type(3))]) for _ in range(2))
    axes = [*range(q.rank - 2), q.rank - 1, q.rank - 2]
    scores = g.add("MatMul", [q, g.add("Transpose", [k], perm=axes)])
    scores = g.add("Mul", [scores, g.constant(np.array(0.25, q.dtype))])
    return g.add("MatMul", [g.add("Softmax", [scores], axis=-1), v])


REDUCE = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp"


@maker(REDUCE, 2.5)
def reduce(g, op=None):
    x = g.scaled(g.pick("f" if g.chance(0.8) else "i", low=0))
    op = op or g.choice(REDUCE.split())
    need(x.dtype.kind == "f" or op not in ("ReduceLogSumExp", "ReduceL2"))
    need(x.dtype.kind == "f" or x.dtype.itemsize >= 4 or op in ("ReduceMax", "ReduceMin"))  # those ONNX allows
    need(op != "ReduceProd" or x.elements <= 32)  # on the way of a long product all sizes are met
    count = g.integer(0, x.rank)
    axes = sorted(int(a) for a in g.rng.permutation(x.rank)[:count])
    axes = [a - x.rank if g.chance(0.4) else a for a in axes]
    attributes = {"keepdims": g.integer(0, 1)}
    as_input = g.opset >= 18 or (op == "ReduceSum" and g.opset >= 13)
    if not axes:
        if as_input and g.chance(0.3):
            attributes["noop_with_empty_axes"] = 1
        return g.add(op, [x], **attributes)
    if as_input:
        return g.add(op, [x, g.ints(*axes)], **attributes)
    return g.add(op, [x], axes=axes, **attributes)


@maker("ArgMax ArgMin", 0.8)
def arg_max(g, op=None):
    x = g.pick(low=1)
    attributes = {"axis": g.integer(-x.rank, x.rank - 1), "keepdims": g.integer(0, 1)}
    if g.chance(0.2):
        attributes["select_last_index"] = 1
    need(all(a.shape[attributes["axis"]] for a in x.arrays))
    return g.add(op or g.choice(["ArgMax", "ArgMin"]), [x], **attributes)


@maker("TopK", 0.5)
def top_k(g, op=None):
    x = g.pick(low=1)
    axis = g.integer(-x.rank, x.rank - 1)
    k = g.integer(1, max(1, min(a.shape[axis] for a in x.arrays)))
    return g.add("TopK", [x, g.ints(k)], outputs=2, axis=axis, largest=g.integer(0, 1))


@maker("CumSum", 0.4)
def cum_sum(g, op=None):
    x = g.pick(low=1)
    axis = g.constant(np.array(g.integer(-x.rank, x.rank - 1), np.int64))
    return g.add("CumSum", [x, axis], exclusive=g.integer(0, 1), reverse=g.integer(0, 1))


@maker("Einsum", 0.4)
def einsum(g, op=None):
    x = g.pick(low=2, high=4)
    letters = "abcd"[: x.rank]
    k = x.dims[-1]
    need(k is not None)
    w = g.constant(g.random_array([k, 3], x.dtype))
    return g.add("Einsum", [x, w], equation=f"{letters},{letters[-1]}z->{letters[:-1]}z")
