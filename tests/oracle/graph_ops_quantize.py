"""Makers of quantized work: pairs around ops, integer products, scales by channel."""

import numpy as np
from graph_builder import need
from graph_ops import maker
from graph_ops_linear import spatial, window

F32 = np.float32


def scale_of(g, count=None):
    choices = np.array([0.03, 0.0625, 0.1, 0.25], F32)
    return g.constant(g.choice(choices) if count is None else g.rng.choice(choices, count))


def zero_of(g, dtype, count=None):
    low, high = (0, 9) if np.dtype(dtype).kind == "u" else (-4, 5)
    return g.constant(g.rng.integers(low, high, () if count is None else count).astype(dtype))


def to_integers(g, x, dtype=None):
    """(quantized, scale, zero point) of a float32."""
    scale, zero = scale_of(g), zero_of(g, dtype or g.choice([np.int8, np.uint8]))
    return g.add("QuantizeLinear", [x, scale, zero]), scale, zero


def there_and_back(g, x, dtype=None):
    q, scale, zero = to_integers(g, x, dtype)
    return g.add("DequantizeLinear", [q, scale, zero])


def integer_weights(g, shape, dtype):
    return g.constant(g.rng.integers(*((0, 20) if np.dtype(dtype).kind == "u" else (-10, 11)), shape).astype(dtype))


def weights(g, shape, axis):
    """A dequantized constant, with one scale or one a channel."""
    dtype = g.choice([np.int8, np.int8, np.uint8])
    w = integer_weights(g, shape, dtype)
    if g.chance(0.4):
        return g.add("DequantizeLinear", [w, scale_of(g), zero_of(g, dtype)])
    count = shape[axis]
    return g.add("DequantizeLinear", [w, scale_of(g, count), g.constant(np.zeros(count, dtype))], axis=axis)


@maker("DequantizeLinear QuantizeLinear Conv", 0.8)
def pairs_around_conv(g, op=None):
    x = spatial(g)
    need(x.dtype == F32)
    attributes = window(g, x.rank - 2)
    m = g.choice([1, 2, 4, 8])
    w = weights(g, [m, x.dims[1], *attributes["kernel_shape"]], 0)
    inputs = [there_and_back(g, x), w] + ([g.constant(g.random_array([m]))] if g.chance(0.5) else [])
    y = g.add("Conv", inputs, **attributes)
    y = g.add("Relu", [y]) if g.chance(0.4) else y
    return there_and_back(g, g.scaled(y)) if g.chance(0.7) else y


@maker("DequantizeLinear QuantizeLinear MatMul Gemm", 0.8)
def pairs_around_product(g, op=None):
    x = g.scaled(g.pick(dtype=F32, low=2, high=4, where=lambda v: v.dims[-1] is not None))
    n = g.choice([1, 3, 4, 8])
    if x.rank == 2 and g.chance(0.5):
        turned = g.integer(0, 1)
        w = weights(g, [n, x.dims[-1]] if turned else [x.dims[-1], n], 1 - turned)
        y = g.add("Gemm", [there_and_back(g, x), w, g.constant(g.random_array([n]))], transB=turned)
    else:
        y = g.add("MatMul", [there_and_back(g, x), weights(g, [x.dims[-1], n], 1)])
    return there_and_back(g, g.scaled(y)) if g.chance(0.7) else y


@maker("DequantizeLinear QuantizeLinear", 0.7)
def pairs_around_plain(g, op=None):
    x = g.scaled(g.pick(dtype=F32, low=1))
    y = there_and_back(g, x)
    kind = g.integer(0, 3)
    if kind == 0:
        y = g.add("Add", [y, there_and_back(g, g.partner(x))])
    elif kind == 1:
        y = g.add(g.choice(["Relu", "Sigmoid", "Tanh", "Neg"]), [y])
    elif kind == 2:
        y = g.add("Softmax", [y], axis=-1)
    else:
        y = g.add("Transpose", [y])
    return there_and_back(g, y)


@maker("QuantizeLinear", 0.4)
def by_channel(g, op=None):
    x = g.pick(dtype=F32, low=2, where=lambda v: v.dims[1] is not None)
    dtypes = [np.int8, np.uint8] + ([np.int16, np.uint16] if g.opset >= 21 else [])
    dtype, count = g.choice(dtypes), x.dims[1]
    scale, zero = scale_of(g, count), zero_of(g, dtype, count)
    q = g.add("QuantizeLinear", [x, scale, zero], axis=1 - (x.rank if g.chance(0.3) else 0))
    return g.add("DequantizeLinear", [q, scale, zero], axis=1)


@maker("MatMulInteger QLinearMatMul", 0.6)
def integer_product(g, op=None):
    x = g.scaled(g.pick(dtype=F32, low=2, high=4, where=lambda v: v.dims[-1] is not None))
    dtype = g.choice([np.int8, np.uint8])
    q, scale, zero = to_integers(g, x, g.choice([np.int8, np.uint8]))
    n = g.choice([1, 3, 8])
    w, w_zero = integer_weights(g, [x.dims[-1], n], dtype), zero_of(g, dtype)
    if g.chance(0.5):
        y = g.add("MatMulInteger", [q, w, zero, w_zero])
        return g.add("Mul", [g.add("Cast", [y], to=1), scale])
    need(q.dtype == np.dtype(dtype))
    out = g.choice([np.int8, np.uint8]) if q.dtype == np.uint8 else q.dtype
    y = g.add("QLinearMatMul", [q, scale, zero, w, scale_of(g), w_zero, scale_of(g), zero_of(g, out)])
    return g.add("Cast", [y], to=1) if g.chance(0.5) else y


@maker("ConvInteger QLinearConv", 0.6)
def integer_conv(g, op=None):
    x = spatial(g)
    need(x.dtype == F32)
    attributes = window(g, x.rank - 2)
    q, scale, zero = to_integers(g, x, np.uint8)
    m, dtype = g.choice([1, 2, 4]), g.choice([np.uint8, np.int8])
    w, w_zero = integer_weights(g, [m, x.dims[1], *attributes["kernel_shape"]], dtype), zero_of(g, dtype)
    if g.chance(0.5):
        return g.add("Cast", [g.add("ConvInteger", [q, w, zero, w_zero], **attributes)], to=1)
    inputs = [q, scale, zero, w, scale_of(g), w_zero, scale_of(g), zero_of(g, np.uint8)]
    if g.chance(0.5):
        inputs.append(g.constant(g.rng.integers(-30, 30, m).astype(np.int32)))
    return g.add("QLinearConv", inputs, **attributes)


@maker("DynamicQuantizeLinear", 0.5)
def dynamic_product(g, op=None):
    x = g.scaled(
        g.pick(dtype=F32, low=2, high=3, where=lambda v: v.dims[-1] is not None and all(a.size for a in v.arrays))
    )
    q, scale, zero = g.add("DynamicQuantizeLinear", [x], outputs=3)
    w = integer_weights(g, [x.dims[-1], g.choice([2, 4])], np.int8)
    y = g.add("Cast", [g.add("MatMulInteger", [q, w, zero])], to=1)
    return g.add("Mul", [y, g.add("Mul", [scale, g.constant(np.array(0.1, F32))])])
