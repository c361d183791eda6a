"""Rows about values that live in several places of a graph: defaults that may be fed, interior values asked for."""

import itertools
import math

import formulas
import numpy as np
from case import Case, data, info, initializer, many, node, row
from onnx import helper

F32 = np.dtype(np.float32)


@row("fed_initializer")
def fed_initializer():
    """An initializer that is also an input (IR 4 and later) is a default: no pass may fold it away."""
    w, fed, x = data(F32, 3), data(F32, 3, low=5, high=6), data(F32, 2, 3)
    expressions = {
        "direct": ([node("Mul", "x w", "y")], lambda v: formulas.wide(x) * v),
        "folds": (
            [node("Neg", "w", "n"), node("Add", "n w2", "m"), node("Mul", "x m", "y")],
            lambda v: formulas.wide(x) * (2 - v),
        ),
        "alone": ([node("Exp", "w", "y")], np.exp),
        "is_output": ([node("Identity", "w", "y")], lambda v: v),
        "shape": ([node("Shape", "w", "s"), node("Cast", "s", "f", to=1), node("Add", "f w", "y")], lambda v: v + 3),
    }
    for (name, (steps, formula)), is_fed in itertools.product(expressions.items(), [True, False]):
        case = many(
            f"{name}_{'fed' if is_fed else 'default'}",
            steps,
            {"x": x, **({"w": fed} if is_fed else {})},
            {"y": formula(formulas.wide(fed if is_fed else w))},
            params={"w2": np.array(2, np.float32)},
            types=F32,
            terms=3,
            ways=("run",),
            scale=None,
        )
        case.made = lambda c: default_model(c, w)
        yield case


def default_model(case: Case, w):
    used = {n for step in case.nodes for n in step.input}
    inputs = [info("w", F32, [3])] + ([info("x", F32, [2, 3])] if "x" in used else [])
    constants = [initializer("w", w), *[initializer(n, a) for n, a in case.params.items() if n in used]]
    graph = helper.make_graph(case.nodes, "case", inputs, [info("y", F32, None)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, {n: a for n, a in case.feeds.items() if n in used}


@row("interior_outputs")
def interior_outputs():
    """What a pattern would swallow is also asked for, next to plain integers."""
    x = data(F32, 2, 4, 6)
    v = formulas.wide(x)
    gelu_steps = [
        node("Div", "x root2", "d"),
        node("Erf", "d", "e"),
        node("Add", "e one", "p"),
        node("Mul", "x p", "m"),
        node("Mul", "m half", "y"),
    ]
    numbers = {"root2": np.sqrt(2), "one": 1, "half": 0.5, "three": 3, "zero": 0, "six": 6, "epsilon": 1e-3, "two": 2}
    scalars = {n: np.array(a, np.float32) for n, a in numbers.items()}
    erf = np.vectorize(math.erf)(v / float(scalars["root2"]))
    mean, sigma = v.mean(-1, keepdims=True), np.sqrt(v.var(-1, keepdims=True) + 1e-3)
    w, b = data(F32, 6, 5), data(F32, 5)
    product = v @ formulas.wide(w)
    sigmoid = 1 / (1 + np.exp(-v))
    hard = np.clip(v + 3, 0, 6) / 6
    patterns = {
        "gelu": (gelu_steps, {"e": erf, "p": erf + 1, "m": v * (erf + 1)}, v * (erf + 1) / 2),
        "swish": ([node("Sigmoid", "x", "g"), node("Mul", "x g", "y")], {"g": sigmoid}, v * sigmoid),
        "hard_swish": (
            [
                node("Add", "x three", "a"),
                node("Clip", "a zero six", "c"),
                node("Div", "c six", "h"),
                node("Mul", "x h", "y"),
            ],
            {"a": v + 3, "c": hard * 6, "h": hard},
            v * hard,
        ),
        "layer_norm": (
            [
                node("ReduceMean", "x last", "mean"),
                node("Sub", "x mean", "c"),
                node("Pow", "c two", "q"),
                node("ReduceMean", "q last", "var"),
                node("Add", "var epsilon", "safe"),
                node("Sqrt", "safe", "r"),
                node("Div", "c r", "y"),
            ],
            {"mean": mean, "c": v - mean, "r": sigma},
            (v - mean) / sigma,
        ),
        "product": (
            [node("MatMul", "x w", "h"), node("Add", "h b", "s"), node("Relu", "s", "y")],
            {"h": product, "s": product + formulas.wide(b)},
            np.maximum(product + formulas.wide(b), 0),
        ),
        "transposes": (
            [
                node("Transpose", "x", "t", perm=[0, 2, 1]),
                node("Relu", "t", "u"),
                node("Transpose", "u", "y", perm=[0, 2, 1]),
            ],
            {"t": v.transpose(0, 2, 1), "u": np.maximum(v, 0).transpose(0, 2, 1)},
            np.maximum(v, 0),
        ),
    }
    for name, (steps, inside, last) in patterns.items():
        for asked in [*[[n] for n in inside], *([list(inside)] if len(inside) > 1 else [])]:
            yield interior_case(
                name, steps, {n: inside[n] for n in asked}, last, x, {**scalars, "w": w, "b": b, "last": np.array([-1])}
            )
    yield from convolution_cases()


def interior_case(name, steps, inside, last, x, params):
    counts = [
        node("Size", "x", "size"),
        node("Shape", "x", "shape"),
        node("Gather", "shape which", "dim"),
        node("ReduceSum", "shape", "sum", keepdims=0),
    ]
    wants = {**inside, "size": np.array(x.size), "dim": np.array(x.shape[1]), "sum": np.array(sum(x.shape)), "y": last}
    used = {n for step in steps for n in step.input}
    types = {n: np.int64 if n in ("size", "dim", "sum") else F32 for n in wants}
    held = {n: a for n, a in params.items() if n in used} | {"which": np.array(1)}
    types = {n: np.dtype(t) for n, t in types.items()}
    return many(
        f"{name}_{'_'.join(inside)}",
        [*steps, *counts],
        {"x": x},
        wants,
        params=held,
        types=types,
        opset=18,
        terms=12,
        scale=20.0,
    )


def convolution_cases():
    x, w = data(F32, 1, 3, 6, 5), data(F32, 4, 3, 3, 3)
    norm = {n: data(F32, 4, low=0.5, high=2) for n in ("g", "bias", "mean", "var")}
    h = formulas.conv(x, w)
    g, bias, mean, var = (formulas.wide(norm[n]).reshape(-1, 1, 1) for n in ("g", "bias", "mean", "var"))
    n = (h - mean) / np.sqrt(var + 1e-5) * g + bias
    residual = data(F32, *h.shape)
    total = n + formulas.wide(residual)
    steps = [
        node("Conv", "x w", "h"),
        node("BatchNormalization", "h g bias mean var", "n"),
        node("Add", "n residual", "t"),
        node("Relu", "t", "y"),
    ]
    inside = {"h": h, "n": n, "t": total}
    for asked in [["h"], ["n"], ["t"], ["h", "n", "t"]]:
        yield interior_case(
            "conv",
            steps,
            {k: inside[k] for k in asked},
            np.maximum(total, 0),
            x,
            {**norm, "w": w, "residual": residual},
        )
