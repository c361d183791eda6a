"""The table of op makers: each takes a Builder, appends an op or a pattern, and raises Refused where it cannot."""

import numpy as np
from graph_builder import need
from onnx import helper

MAKERS = []  # (names, weight, function)


def maker(names: str, weight: float = 1.0):
    def register(function):
        MAKERS.append((names.split(), weight, function))
        return function

    return register


UNARY = (
    "Abs Neg Relu Sigmoid Tanh Exp Erf Softplus Softsign HardSigmoid LeakyRelu Elu Selu Celu Floor Ceil Round Sign "
    "Sin Cos Atan ThresholdedRelu Identity HardSwish Mish Gelu Sinh Asinh"
)
SINCE = {"HardSwish": 14, "Mish": 18, "Gelu": 20, "LayerNormalization": 17}


@maker(UNARY, 3)
def unary(g, op=None):
    x = g.scaled(g.pick())
    op = op or g.choice(UNARY.split())
    need(SINCE.get(op, 0) <= g.opset)
    attributes = {}
    if op in ("LeakyRelu", "Elu", "Celu", "ThresholdedRelu") and g.chance(0.5):
        attributes["alpha"] = g.choice([0.1, 0.5, 1.5])
    if op == "HardSigmoid" and g.chance(0.5):
        attributes.update(alpha=0.3, beta=0.4)
    if op == "Gelu" and g.chance(0.5):
        attributes["approximate"] = "tanh"
    return g.add(op, [x], **attributes)


@maker("Sqrt Log Reciprocal", 1)
def guarded_unary(g, op=None):
    x = g.scaled(g.pick())
    one = g.constant(np.array(0.5, x.dtype))
    return g.add(op or g.choice(["Sqrt", "Log", "Reciprocal"]), [g.add("Add", [g.add("Abs", [x]), one])])


@maker("Relu Sigmoid Tanh HardSwish Clip", 1)
def chain(g, op=None):
    x = g.pick()
    for _ in range(g.integer(2, 4)):
        x = g.add(g.choice(["Relu", "Sigmoid", "Tanh", "HardSigmoid", "Neg", "Elu"]), [x])
    return x


BINARY = ["Add", "Sub", "Mul", "Div", "Min", "Max"]


@maker("Add Sub Mul Div Min Max", 6)
def binary(g, op=None):
    kinds = "f" if g.chance(0.8) else "i"
    x = g.scaled(g.pick(kinds))
    op = op or g.choice(BINARY)
    if op == "Div":
        y = g.like(x, positive=True)
        if g.chance(0.4) and kinds == "f":
            z = g.partner(x)
            y = g.add("Add", [g.add("Abs", [z]), y])
        if kinds == "i":
            need(all((np.asarray(a) != 0).all() for a in y.arrays))
    else:
        y = g.partner(x)
    pair = [x, y] if g.chance(0.6) or op == "Div" else [y, x]
    return g.add(op, pair)


@maker("Pow", 0.5)
def power(g, op=None):
    x = g.pick()
    exponent = g.choice([0.0, 1.0, 2.0, 3.0, 0.5, -1.0])
    if exponent in (0.5, -1.0):
        x = g.add("Add", [g.add("Abs", [x]), g.constant(np.array(0.5, x.dtype))])
    dtype = x.dtype if g.chance(0.7) else np.int64 if exponent == int(exponent) else x.dtype
    return g.add("Pow", [x, g.constant(np.array(exponent, dtype))])


@maker("Mod", 0.4)
def modulo(g, op=None):
    if g.chance(0.6):
        x = g.pick("i")
        return g.add("Mod", [x, g.constant(np.array(g.choice([3, -4, 7]), x.dtype))], fmod=g.choice([0, 1]))
    x = g.pick("f")
    return g.add("Mod", [x, g.constant(np.array(1.5, x.dtype))], fmod=1)


@maker("Min Max Sum Mean", 1)
def variadic(g, op=None):
    x = g.pick()
    op = op or g.choice(["Min", "Max", "Sum", "Mean"])
    return g.add(op, [x] + [g.partner(x) for _ in range(g.integer(0, 3))])


@maker("Greater Less Equal GreaterOrEqual LessOrEqual", 2)
def compare(g, op=None):
    x = g.pick("f" if g.chance(0.7) else "i")
    op = op or g.choice(["Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual"])
    return g.add(op, [x, g.partner(x)])


@maker("And Or Xor Not", 1)
def logic(g, op=None):
    x = g.pick("b")
    op = op or g.choice(["And", "Or", "Xor", "Not"])
    return g.add(op, [x] if op == "Not" else [x, g.partner(x)])


@maker("Where", 1.5)
def where(g, op=None):
    condition = g.pick("b")
    x = g.pick("f" if g.chance(0.8) else "ib")
    return g.add("Where", [condition, x, g.partner(x)] if g.chance(0.6) else [condition, g.partner(x), x])


@maker("IsNaN IsInf", 0.2)
def tests(g, op=None):
    return g.add(op or g.choice(["IsNaN", "IsInf"]), [g.pick(dtype=np.float32)])


@maker("Cast", 2)
def cast(g, op=None):
    x = g.pick("fiub")
    target = g.choice([np.float32, np.float32, np.float64, np.float16, np.int64, np.int32, np.bool_, np.uint8, np.int8])
    if np.dtype(target).kind in "iu" and x.dtype.kind == "f":
        low, high = (0.0, 100.0) if target == np.uint8 else (-100.0, 100.0)
        x = g.add("Clip", [x, g.constant(np.array(low, x.dtype)), g.constant(np.array(high, x.dtype))])
    elif target in (np.uint8, np.int8):
        need(all(not a.size or (np.abs(a.astype(np.int64)).max() < 100) for a in x.arrays))
    return g.add("Cast", [x], to=int(helper.np_dtype_to_tensor_dtype(np.dtype(target))))


@maker("Cast", 1)
def cast_pair(g, op=None):
    """There and back: exact pairs may go, lossy ones must stay."""
    x = g.pick("fi")
    for target in (g.choice([np.float16, np.float64, np.int64, np.int32]), g.choice([x.dtype, np.float32])):
        if np.dtype(target).kind == "i" and x.dtype.kind == "f":
            x = g.add("Clip", [x, g.constant(np.array(-50, x.dtype)), g.constant(np.array(50, x.dtype))])
        x = g.add("Cast", [x], to=int(helper.np_dtype_to_tensor_dtype(np.dtype(target))))
    return x


@maker("Clip", 1.5)
def clip(g, op=None):
    x = g.pick("f" if g.chance(0.8) else "i")
    low, high = (-1, 1.5) if x.dtype.kind == "f" else (-2, 4)
    limits = [g.constant(np.array(v, x.dtype)) for v in g.choice([(low, high), (0, 6), (low, low), (high, low)])]
    if g.chance(0.3):
        limits[g.integer(0, 1)] = None
    return g.add("Clip", [x, *limits])


@maker("PRelu", 0.5)
def prelu(g, op=None):
    x = g.pick()
    dims = [d if d is not None and g.chance(0.5) else 1 for d in x.dims]
    return g.add("PRelu", [x, g.constant(g.random_array(dims, x.dtype))])


@maker("BitShift", 0.2)
def bit_shift(g, op=None):
    x = g.pick("u")
    return g.add("BitShift", [x, g.constant(np.array(2, x.dtype))], direction=g.choice(["LEFT", "RIGHT"]))


@maker("Identity Dropout", 0.5)
def pass_through(g, op=None):
    x = g.pick("fiub")
    if x.dtype.kind == "f" and g.chance(0.3):
        return g.add("Dropout", [x])
    return g.add("Identity", [x])


# ---- patterns that compilers look for


@maker("Gelu Erf", 0.7)
def written_gelu(g, op=None):
    x = g.scaled(g.pick(dtype=np.float32))
    c = lambda v: g.constant(np.array(v, np.float32))  # noqa: E731
    inner = g.add("Div", [x, c(np.sqrt(2.0))]) if g.chance(0.5) else g.add("Mul", [x, c(np.sqrt(0.5))])
    half = g.add("Add", [g.add("Erf", [inner]), c(1.0)])
    if g.chance(0.5):
        return g.add("Mul", [g.add("Mul", [x, half]), c(0.5)])
    return g.add("Mul", [g.add("Mul", [x, c(0.5)]), half])


@maker("Sigmoid HardSigmoid HardSwish", 1)
def written_swish(g, op=None):
    x = g.pick()
    if g.chance(0.5):
        gate = g.add("Sigmoid", [x])
    elif g.chance(0.5):
        gate = g.add("HardSigmoid", [x], alpha=g.choice([1 / 6, 0.2]), beta=0.5)
    else:
        c = lambda v: g.constant(np.array(v, x.dtype))  # noqa: E731
        gate = g.add("Div", [g.add("Clip", [g.add("Add", [x, c(3)]), c(0), c(6)]), c(6)])
    return g.add("Mul", [x, gate] if g.chance(0.7) else [gate, x])


@maker("ReduceMean LayerNormalization", 0.8)
def written_layer_norm(g, op=None):
    x = g.pick(dtype=np.float32, low=1)
    need(x.dims[-1] is None or x.dims[-1] > 1)
    width = x.dims[-1]
    mean = reduce_last(g, x)
    centred = g.add("Sub", [x, mean])
    square = g.add("Pow", [centred, g.constant(np.array(2.0, np.float32))])
    if g.chance(0.3):
        square = g.add("Mul", [centred, centred])
    variance = g.add("Add", [reduce_last(g, square), g.constant(np.array(1e-2, np.float32))])
    out = g.add("Div", [centred, g.add("Sqrt", [variance])])
    scale = g.choice([[1], [width or 1], [1] * x.rank]) if g.chance(0.8) else [2] + [1] * (x.rank - 1)
    out = g.add("Mul", [out, g.constant(g.random_array(scale))])
    return g.add("Add", [out, g.constant(g.random_array([width or 1]))]) if g.chance(0.7) else out


def reduce_last(g, x):
    if g.opset >= 18:
        return g.add("ReduceMean", [x, g.ints(-1)])
    return g.add("ReduceMean", [x], axes=[-1])


@maker("Mul Add BatchNormalization", 0.8)
def channel_affine(g, op=None):
    """A scale and a shift by channel, as norms are exported."""
    x = g.pick(low=2, where=lambda v: v.dims[1] is not None)
    shape = [x.dims[1]] + [1] * (x.rank - 2)
    if g.chance(0.3):
        shape = [1, *shape]
    x = g.add("Mul", [x, g.constant(g.random_array(shape, x.dtype))])
    return g.add("Add", [x, g.constant(g.random_array(shape, x.dtype))])


@maker("DequantizeLinear QuantizeLinear", 0.5)
def quantize_pair(g, op=None):
    x = g.pick(dtype=np.float32)
    scale = g.constant(np.array(g.choice([0.0625, 0.1]), np.float32))
    zero = g.constant(np.array(g.choice([0, 3, 100]), g.choice([np.uint8, np.int8])))
    return g.add("DequantizeLinear", [g.add("QuantizeLinear", [x, scale, zero]), scale, zero])


@maker("Mul Add Sub Neg Div", 0.8)
def constant_tail(g, op=None):
    """Constants that fold into each other or into neutral elements."""
    x = g.pick("f" if g.chance(0.7) else "i")
    for _ in range(g.integer(1, 3)):
        number = g.constant(np.array(g.choice([0, 1, 2, -1]), x.dtype))
        op = g.choice(["Add", "Sub", "Mul"])
        x = g.add(op, [x, number] if g.chance(0.7) else [number, x])
    return x


@maker("Constant", 0.8)
def foldable(g, op=None):
    """Work on constants alone, joined with something alive."""
    x = g.pick()
    c = g.like(x)
    for _ in range(g.integer(1, 2)):
        c = g.add(g.choice(["Neg", "Abs", "Relu", "Tanh", "Exp"]), [c])
    if g.chance(0.5) and c.rank >= 2:
        c = g.add("Transpose", [g.add("Transpose", [c])])
    return g.add(g.choice(["Add", "Mul"]), [x, c])
