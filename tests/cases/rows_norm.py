"""Rows about softmax, norms and activations."""

import itertools

import formulas
import numpy as np
from case import ALL_FLOATS, FLOATS, data, many, node, one, rng, row

F32 = np.dtype(np.float32)


def flattened(x, axis):
    axis %= x.ndim
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


def hardmax(rows):
    out = np.zeros(rows.shape)
    for r, values in enumerate(rows):
        if values.size:
            out[r, int(np.argmax(values))] = 1  # the first of equals
    return out


@row("flattened_softmax")
def flattened_softmax():
    """Below opset 13 the tail from the axis on is one long row; the default axis is 1."""
    shapes = [(2, 3, 4), (3, 4), (2, 3, 2, 2), (2, 1, 3, 1, 2), (5,), (2, 0, 3), (0, 3, 2)]
    for op, shape, opset in itertools.product(["Softmax", "LogSoftmax", "Hardmax"], shapes, [9, 12]):
        axes = [None, *sorted({0, -1, len(shape) - 1} if opset == 12 else {0})]
        for axis, dtype in itertools.product(axes, FLOATS if shape == (2, 3, 4) else [F32]):
            if axis is None and len(shape) < 2:
                continue
            x = data(dtype, *shape)
            rows = formulas.wide(flattened(x, 1 if axis is None else axis)) if x.size else np.zeros((1, 0))
            soft = formulas.softmax(rows, 1)
            want = {"Softmax": soft, "LogSoftmax": np.log(soft), "Hardmax": hardmax(rows)}[op].reshape(shape)
            attributes = {} if axis is None else {"axis": axis}
            name = f"{op}_{opset}_{list(shape)}_{axis}_{dtype}"
            yield one(
                name,
                op,
                [x],
                [want],
                attributes=attributes,
                opset=opset,
                terms=12,
                scale=None if op == "Softmax" else 5.0,
            )


@row("gelu_forms")
def gelu_forms():
    minus_one = {"tanh": -0.158808, "none": -0.158655}
    for form, literal in minus_one.items():
        assert abs(formulas.gelu(-1.0, form == "tanh") - literal) < 5e-7
        for dtype, shape in itertools.product(ALL_FLOATS, [(), (7,), (2, 3, 5)]):
            x = data(dtype, *shape) if shape else np.array(-1, dtype)
            want = formulas.gelu(x, form == "tanh")
            yield one(f"{form}_{dtype}_{list(shape)}", "Gelu", [x], [want], attributes={"approximate": form}, terms=2)
    for dtype in FLOATS:  # the default is the exact form
        x = data(dtype, 9)
        yield one(f"default_{dtype}", "Gelu", [x], [formulas.gelu(x, False)], terms=2)


def norm_nodes(kind, root, square):
    """The pattern by hand: x normalised over its last axis, times s, plus b."""
    steps = []
    centred = "x"
    if kind == "layer":
        steps += [node("ReduceMean", "x last", "mean"), node("Sub", "x mean", "centred")]
        centred = "centred"
    steps.append(node("Pow", f"{centred} two", "sq") if square == "Pow" else node("Mul", f"{centred} {centred}", "sq"))
    steps += [node("ReduceMean", "sq last", "var"), node("Add", "var epsilon", "safe"), node("Sqrt", "safe", "root")]
    if root == "Div":
        steps.append(node("Div", f"{centred} root", "unit"))
    else:
        steps += [node("Reciprocal", "root", "inverse"), node("Mul", f"{centred} inverse", "unit")]
    return [*steps, node("Mul", "unit s", "scaled"), node("Add", "scaled b", "y")]


@row("written_norms")
def written_norms():
    """Scales of odd shapes: a pattern whose fusion would change the output's shape or meaning stays as it is."""
    places = [((2, 3, 4), s) for s in [(1,), (4,), (3, 1), (1, 1, 4), (2, 3, 4), (2, 1, 1), (1, 2, 3, 4)]]
    places += [((1, 1), (2,)), ((1, 1), (1,)), ((3, 1), (4,)), ((1, 4), (5, 1)), ((4,), (4,)), ((2, 2, 3, 4), (4,))]
    for (shape, scale), kind in itertools.product(places, ["layer", "rms"]):
        for dtype, root, square in [(F32, "Div", "Pow"), (F32, "Reciprocal", "Mul"), (FLOATS[1], "Div", "Mul")]:
            x, s = data(dtype, *shape), data(dtype, *scale, low=0.5, high=2)
            b = data(dtype, *scale, low=1, high=2)
            v = formulas.wide(x)
            centred = v - v.mean(-1, keepdims=True) if kind == "layer" else v
            unit = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + float(dtype.type(1e-3)))
            yield many(
                f"{kind}_{list(shape)}_{list(scale)}_{root}_{square}_{dtype}",
                norm_nodes(kind, root, square),
                {"x": x},
                {"y": unit * formulas.wide(s) + formulas.wide(b)},
                params={
                    "s": s,
                    "b": b,
                    "two": np.array(2, dtype),
                    "epsilon": np.array(1e-3, dtype),
                    "last": np.array([-1]),
                },
                opset=18,
                terms=8,
                scale=6.0,
            )


@row("layer_norm_half_large")
def layer_norm_half_large():
    """Squares of 300 leave float16: the sums are float32's (stash_type 1)."""
    for shape, axis, sigma in [
        ((1, 4096), -1, 300),
        ((2, 3, 1024), 2, 500),
        ((2, 16, 64), 1, 300),
        ((4096,), 0, 900),
        ((3, 2048), 1, 600),
    ]:
        x = (rng(shape, sigma).standard_normal(shape) * sigma).astype(np.float16)
        rest = x.shape[axis:]
        s, b = data(np.float16, *rest, low=0.5, high=1.5), data(np.float16, *rest)
        axes = tuple(range(axis % x.ndim, x.ndim))
        v = formulas.wide(x)
        unit = (v - v.mean(axes, keepdims=True)) / np.sqrt(v.var(axes, keepdims=True) + 1e-5)
        want = unit * formulas.wide(s) + formulas.wide(b)
        assert np.isfinite(want).all()
        yield one(
            f"{list(shape)}_{axis}", "LayerNormalization", [x, s, b], [want], params=(1, 2), attributes={"axis": axis}
        )


@row("nan_relu_clip")
def nan_relu_clip():
    nan = np.nan
    for dtype in ALL_FLOATS:
        x = np.array([nan, -2, 1.5, np.inf, -np.inf, 3, nan, 0.25], dtype)
        v = formulas.wide(x)
        relu = [nan, 0, 1.5, np.inf, 0, 3, nan, 0.25]
        for shape in [(8,), (2, 4), (1, 2, 2, 2)]:
            y = np.array(relu).reshape(shape)
            yield one(f"Relu_{dtype}_{len(shape)}", "Relu", [x.reshape(shape)], [y], terms=0, opset=14)
        for low, high in [(-1, 2), (2, -1), (None, 1), (-1, None), (None, None)]:
            limits = [None if a is None else np.array(a, dtype) for a in (low, high)]
            want = v if low is None else np.where(np.isnan(v), v, np.maximum(v, low))
            want = want if high is None else np.where(np.isnan(v), v, np.minimum(want, high))  # max wins
            inputs = [x, *limits]
            while inputs[-1] is None:
                inputs.pop()
            params = [k for k, a in enumerate(inputs) if k and a is not None]
            yield one(f"Clip_{low}_{high}_{dtype}", "Clip", inputs, [want], params=params, terms=0)
    for kind in (np.int32, np.int64, np.int8, np.uint8):
        x = np.arange(0, 12).astype(kind)
        for low, high in [(3, 7), (7, 3)]:
            inputs = [x, np.array(low, kind), np.array(high, kind)]
            want = np.minimum(np.maximum(x, low), high)
            yield one(f"Clip_{low}_{high}_{np.dtype(kind)}", "Clip", inputs, [want], params=(1, 2))
    x = np.array([nan, -1, 1], np.float32)  # the same behind a product, where kernels like to fuse
    w = np.array([[1, 1, 2]], np.float32)
    for op in ("Relu", "Clip"):
        tail = node("Relu", "h", "y") if op == "Relu" else node("Clip", ["h", "low"], "y")
        params = {"low": np.array(0, np.float32)} if op == "Clip" else {}
        steps = [node("Mul", "x w", "h"), tail]
        yield many(f"behind_mul_{op}", steps, {"x": x}, {"y": [[nan, 0, 2]]}, params={"w": w, **params}, terms=0)
