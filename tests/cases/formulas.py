"""Hand formulas in double precision: plain loops that say what an operator means, and know nothing of any evaluator."""

import itertools
import math
from fractions import Fraction

import numpy as np


def wide(x):
    return np.asarray(x).astype(np.float64)


# ---- windows


def window_count(size, k, s, d, begin, end, ceil):
    span = size + begin + end - (d * (k - 1) + 1)
    count = (-(-span // s) if ceil else span // s) + 1
    return count - 1 if ceil and (count - 1) * s >= size + begin else count  # none starts in the end padding


def pool(x, kernel, strides, pads, *, kind, ceil=False, include_pad=False, dilations=None):
    """Max or mean over windows; a mean divides by the cells in range, pads among them when they count."""
    x, rank = wide(x), len(kernel)
    dilations = dilations or [1] * rank
    sizes = x.shape[2:]
    counts = [
        window_count(sizes[i], kernel[i], strides[i], dilations[i], pads[i], pads[i + rank], ceil) for i in range(rank)
    ]
    out = np.zeros((*x.shape[:2], *counts))
    for at in itertools.product(*map(range, counts)):
        cells, divisor = [], 0
        for offset in itertools.product(*map(range, kernel)):
            place = [at[i] * strides[i] - pads[i] + offset[i] * dilations[i] for i in range(rank)]
            inside = all(0 <= p < n for p, n in zip(place, sizes, strict=True))
            padded = all(-pads[i] <= place[i] < sizes[i] + pads[i + rank] for i in range(rank))
            divisor += inside or (include_pad and padded)
            if inside:
                cells.append(x[(slice(None), slice(None), *place)])
        stack = np.stack(cells)
        out[(slice(None), slice(None), *at)] = stack.max(0) if kind == "max" else stack.sum(0) / divisor
    return out


def conv(x, w, b=None, *, strides=None, pads=None, dilations=None, group=1):
    x, w, rank = wide(x), wide(w), w.ndim - 2
    strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
    counts = [
        window_count(x.shape[i + 2], w.shape[i + 2], strides[i], dilations[i], pads[i], pads[i + rank], False)
        for i in range(rank)
    ]
    padded = np.pad(x, [(0, 0), (0, 0), *[(pads[i], pads[i + rank]) for i in range(rank)]])
    out = np.zeros((x.shape[0], w.shape[0], *counts))
    inner, outer = x.shape[1] // group, w.shape[0] // group
    for g, at in itertools.product(range(group), itertools.product(*map(range, counts))):
        box = [
            slice(at[i] * strides[i], at[i] * strides[i] + dilations[i] * (w.shape[i + 2] - 1) + 1, dilations[i])
            for i in range(rank)
        ]
        part = padded[(slice(None), slice(g * inner, (g + 1) * inner), *box)].reshape(x.shape[0], -1)
        rows = w[g * outer : (g + 1) * outer].reshape(outer, -1)
        out[(slice(None), slice(g * outer, (g + 1) * outer), *at)] = part @ rows.T
    return out if b is None else out + wide(b).reshape(-1, *[1] * rank)


def conv_transpose(x, w, b=None, *, strides=None, crop=None, dilations=None, group=1, extra=None):
    """Every input cell stamps the kernel; `extra` rows are added at the end, then `crop` is cut at begin and end."""
    x, w, rank = wide(x), wide(w), w.ndim - 2
    strides, dilations, extra = strides or [1] * rank, dilations or [1] * rank, extra or [0] * rank
    crop = crop or [0] * 2 * rank
    sizes = [
        strides[i] * (x.shape[i + 2] - 1) + dilations[i] * (w.shape[i + 2] - 1) + 1 + extra[i] for i in range(rank)
    ]
    inner, outer = x.shape[1] // group, w.shape[1]
    out = np.zeros((x.shape[0], outer * group, *sizes))
    for g, at in itertools.product(range(group), itertools.product(*map(range, x.shape[2:]))):
        column = x[(slice(None), slice(g * inner, (g + 1) * inner), *at)]
        stamp = np.tensordot(column, w[g * inner : (g + 1) * inner], 1)
        box = [
            slice(at[i] * strides[i], at[i] * strides[i] + dilations[i] * (w.shape[i + 2] - 1) + 1, dilations[i])
            for i in range(rank)
        ]
        out[(slice(None), slice(g * outer, (g + 1) * outer), *box)] += stamp
    out = out[(slice(None), slice(None), *[slice(crop[i], sizes[i] - crop[i + rank]) for i in range(rank)])]
    return out if b is None else out + wide(b).reshape(-1, *[1] * rank)


# ---- positions


def slice_positions(size, start, end, step):
    """The indices a Slice takes, walked one by one."""
    start, end = (start + size if start < 0 else start), (end + size if end < 0 else end)
    start = min(max(start, 0), size if step > 0 else size - 1)
    end = min(max(end, -1), size)
    return [i for i in range(start, end, step) if 0 <= i < size]


def nearest_positions(size, count, rounding, scale=None):
    """Half-pixel nearest neighbours in exact fractions."""
    scale = Fraction(count, size) if scale is None else Fraction(scale)
    found = []
    for i in range(count):
        at = (i + Fraction(1, 2)) / scale - Fraction(1, 2)
        index = {
            "floor": math.floor(at),
            "ceil": math.ceil(at),
            "round_prefer_ceil": math.floor(at + Fraction(1, 2)),
            "round_prefer_floor": math.ceil(at - Fraction(1, 2)),
        }[rounding]
        found.append(min(max(index, 0), size - 1))
    return found


def best(values, k, largest):
    """Positions of the k best, the lower one first among equals."""
    return sorted(range(len(values)), key=lambda i: (-values[i] if largest else values[i], i))[:k]


# ---- numbers


def gelu(x, tanh):
    x = wide(x)
    if tanh:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(x, axis):
    powers = np.exp(wide(x) - wide(x).max(axis, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis, keepdims=True)


def half_even(x):
    """Python's round is to even."""
    return np.vectorize(lambda v: float(round(v)), otypes=[float])(wide(x))


def quantize(x, scale, zero, dtype):
    limits = np.iinfo(dtype)
    return np.clip(half_even(wide(x) / wide(scale)) + wide(zero), limits.min, limits.max).astype(dtype)


def quotient(a, b):
    """Towards zero, in integers of any size."""
    return np.vectorize(lambda p, q: abs(int(p)) // abs(int(q)) * (1 if (p < 0) == (q < 0) else -1), otypes=[object])(
        a, b
    )


def float8_values(exponent_bits, mantissa_bits, bias, fnuz, finite):
    """All 256 values of a float8 type by its bits."""
    table = []
    for code in range(256):
        sign, rest = -1.0 if code & 128 else 1.0, code & 127
        e, m = rest >> mantissa_bits, rest & ((1 << mantissa_bits) - 1)
        if fnuz and code == 128 or not fnuz and finite and rest == 127:
            value = math.nan
        elif not fnuz and not finite and e == (1 << exponent_bits) - 1:
            value = math.nan if m else math.inf
        elif e == 0:
            value = m * 2.0 ** (1 - bias - mantissa_bits)
        else:
            value = (1 + m / (1 << mantissa_bits)) * 2.0 ** (e - bias)
        table.append(sign * value)
    return table


def to_float8(x, kind, saturate):
    """The nearest value of the type, ties to the even code; what is beyond becomes the largest, or NaN or infinity."""
    parameters = {
        "float8_e4m3fn": (4, 3, 7, False, True),
        "float8_e4m3fnuz": (4, 3, 8, True, True),
        "float8_e5m2": (5, 2, 15, False, False),
        "float8_e5m2fnuz": (5, 2, 16, True, True),
    }[kind]
    table = [v for v in float8_values(*parameters)[:128] if math.isfinite(v)]
    top, step = table[-1], table[-1] - table[-2]
    beyond = math.inf if kind == "float8_e5m2" else math.nan

    def one(v):
        if math.isnan(v):
            return v
        size = abs(v)
        if math.isinf(size) or size >= top + step / 2:
            return math.copysign(top if saturate else beyond, v)
        k = min(range(len(table)), key=lambda i: (abs(table[i] - size), i % 2))
        return math.copysign(table[k], v)

    return np.vectorize(one, otypes=[float])(wide(x))


# ---- recurrent

ACTIVATIONS = {
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
    "Softsign": lambda x: x / (1 + np.abs(x)),
}
DEFAULT_ACTIVATIONS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def recurrent_row(op, x, w, r, b, h, c, p, functions, act, first, *, input_forget, product):
    """One sequence, step by step, from state (h, c): the outputs and the last state. `act` bounds what a function
    gets; `first` is linear_before_reset."""
    size, out = len(h), []
    wb, rb = b[: len(b) // 2], b[len(b) // 2 :]
    f, g, k = [lambda v, name=name: ACTIVATIONS[name](act(v)) for name in (functions * 3)[:3]]
    for step in x:
        from_x, from_h = product(w, step) + wb, product(r, h) + rb
        gates = np.split(from_x + from_h, len(from_x) // size)
        if op == "RNN":
            h = f(gates[0])
        elif op == "GRU":
            z, reset = f(gates[0]), f(gates[1])
            inner = reset * from_h[2 * size :] if first else product(r[2 * size :], reset * h) + rb[2 * size :]
            h = (1 - z) * g(from_x[2 * size :] + inner) + z * h
        else:
            peep = np.split(p, 3)  # of i, o, f
            i = f(gates[0] + peep[0] * c)
            forget = 1 - i if input_forget else f(gates[2] + peep[2] * c)
            c = forget * c + i * g(gates[3])
            h = f(gates[1] + peep[1] * c) * k(c)
        out.append(h)
    return out, h, c


def recurrent(op, x, w, r, b=None, lens=None, h0=None, c0=None, p=None, **attributes):
    """RNN, GRU and LSTM as ONNX defines them, for x [steps, batch, size]: (Y, Y_h, Y_c). A threshold bounds the input
    of every activation function, h of the cell too. A row that ends leaves zeros, and its state is its last."""
    x, w, r = wide(x), wide(w), wide(r)
    steps, batch, ways, size = x.shape[0], x.shape[1], w.shape[0], r.shape[2]
    b = np.zeros((ways, 2 * w.shape[1])) if b is None else wide(b)
    p = np.zeros((ways, 3 * size)) if p is None else wide(p)
    h0 = np.zeros((ways, batch, size)) if h0 is None else wide(h0)
    c0 = np.zeros((ways, batch, size)) if c0 is None else wide(c0)
    limit = attributes.get("clip")
    act = (lambda v: v) if limit is None else (lambda v: np.clip(v, -limit, limit))
    each = len(DEFAULT_ACTIVATIONS[op])
    names = attributes.get("activations", DEFAULT_ACTIVATIONS[op] * ways)
    y, last_h, last_c = np.zeros((steps, ways, batch, size)), h0.copy(), c0.copy()
    for d, n in itertools.product(range(ways), range(batch)):
        count = steps if lens is None else int(lens[n])
        order = list(range(count))
        if d == 1 or attributes.get("direction") == "reverse":
            order.reverse()
        functions = names[d * each : (d + 1) * each]
        out, last_h[d, n], last_c[d, n] = recurrent_row(
            op, x[order, n], w[d], r[d], b[d], h0[d, n], c0[d, n], p[d], functions, act,
            attributes.get("linear_before_reset", 0), input_forget=attributes.get("input_forget", 0), product=np.dot,
        )  # fmt: skip
        for t, h in zip(order, out, strict=True):
            y[t, d, n] = h
    return y, last_h, last_c
