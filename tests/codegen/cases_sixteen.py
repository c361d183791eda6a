"""Models of 16-bit floats that become one kernel: chains, norms, activations, Casts that round."""

import ml_dtypes
import numpy as np
from chain import chain
from fusion_case import W_SIZES, Case

DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
TO = {"float16": 10, "bfloat16": 16}
SMALL = tuple({"N": n, "W": w} for n, w in ((1, 1), (3, 17), (2, 64), (5, 257)))
ROW = ({"N": 1}, {"N": 7})

# One line of nodes a case; {t} is the type, {to} its number. The constants are rounded to the type.
BODIES = {
    "RMSNormalization": "y = RMSNormalization (x, w)",
    "RMSNormalization in parts": "q = Mul (x, x) v = ReduceMean (q, last) e = Add (v, eps) r = Sqrt (e) n = Div (x, r)"
    " y = Mul (n, w)",
    "RMSNormalization in parts by float32": "f = Cast <to = 1> (x) q = Mul (f, f) v = ReduceMean (q, last)"
    " e = Add (v, eps32) r = Sqrt (e) n = Div (f, r) h = Cast <to = {to}> (n) y = Mul (h, w)",
    "LayerNormalization and residual": "a = Add (x, z) y = LayerNormalization (a, w, b)",
    "LayerNormalization in parts": "m = ReduceMean (x, last) d = Sub (x, m) q = Mul (d, d) v = ReduceMean (q, last)"
    " e = Add (v, eps) r = Sqrt (e) n = Div (d, r) p = Mul (n, w) y = Add (p, b)",
    "Softmax of scores": "a = Mul (x, k) c = Add (a, z) y = Softmax (c)",
    "LogSoftmax": "a = Mul (x, k) y = LogSoftmax (a)",
    "Softmax in parts": "m = ReduceMax (x, last) d = Sub (x, m) e = Exp (d) s = ReduceSum (e, last) y = Div (e, s)",
    "Swish and scale": "a = Swish (x) y = Mul (a, k)",
    "Swish in parts": "s = Sigmoid (x) a = Mul (x, s) y = Mul (a, z)",
    "Gelu and scale": "a = Mul (x, k) y = Gelu (a)",
    "Gelu by tanh": 'a = Mul (x, k) y = Gelu <approximate = "tanh"> (a)',
    "Gelu in parts": "d = Div (x, root) e = Erf (d) o = Add (e, one) m = Mul (x, o) y = Mul (m, half)",
    "HardSwish and residual": "a = HardSwish (x) y = Add (a, z)",
    "Mean of a row": "a = Sigmoid (x) m = ReduceMean (a, last) y = Sub (a, m)",
}


def constants(body: str, dtype: str, width: int) -> dict:
    kind = DTYPES[dtype]
    given = {
        "w": np.linspace(0.5, 1.5, width).astype(kind),
        "b": np.linspace(-1, 1, width).astype(kind),
        "k": kind(0.3),
        "one": kind(1),
        "half": kind(0.5),
        "root": kind(1.4142),
        "eps": kind(1e-5),
        "eps32": np.float32(1e-5),
        "last": np.array([-1]),
    }
    words = body.replace("(", " ").replace(")", " ").replace(",", " ").split()
    return {name: value for name, value in given.items() if name in words}


def case(name: str, dtype: str) -> Case:
    body = BODIES[name].format(to=TO[dtype])
    given = constants(body, dtype, 48)
    fixed = "w" in given or "b" in given
    width = "48" if fixed else "W"
    inputs = ", ".join(
        f"{dtype}[N,{width}] {x}" for x in "xz" if f" {x})" in body or f"({x}," in body or f"({x})" in body
    )
    text = f"g ({inputs}) => ({dtype}[N,{width}] y) {{ {body} }}"
    return Case(f"{name}, {dtype}", text, given, ROW if fixed else SMALL, opset=24)


def the_chain(dtype: str, depth: int = 12, width: int = 256) -> Case:
    body, given = chain(DTYPES[dtype], width, depth)
    text = f"g ({dtype}[N,40,{width}] x) => ({dtype}[N,40,{width}] y) {{ {body} }}"
    return Case(f"the chain of small operators, {dtype}", text, given, ROW[:1])


def with_casts(dtype: str) -> list[Case]:
    """Casts that a model has round, whatever stands around them."""
    to, kind = TO[dtype], DTYPES[dtype]
    other = "bfloat16" if dtype == "float16" else "float16"
    return [
        Case(
            f"a sum of rounded terms, {dtype}",
            f"g (float[N,W] x, float[N,W] z) => (float[N,W] y) {{ p = Mul (x, z) h = Cast <to = {to}> (p)"
            " q = Cast <to = 1> (h) d = Sub (q, p) y = Mul (d, k) }",
            {"k": np.float32(256)},
            W_SIZES,
        ),
        Case(
            f"through the other type, {dtype}",
            f"g ({dtype}[N,W] x) => ({dtype}[N,W] y) {{ a = Sigmoid (x) o = Cast <to = {TO[other]}> (a)"
            f" c = Cast <to = {to}> (o) y = Sub (c, a) }}",
            dims=SMALL,
        ),
        Case(
            f"from float64, {dtype}",
            f"g (double[N,W] x) => (double[N,W] y) {{ h = Cast <to = {to}> (x)"
            " c = Cast <to = 11> (h) y = Sub (c, x) }",
            dims=SMALL,
        ),
        Case(
            f"rounded inside, stored too, {dtype}",
            f"g (float[N,W] x, {dtype}[N,W] z) => ({dtype}[N,W] h, {dtype}[N,W] y) {{ s = Tanh (x)"
            f" h = Cast <to = {to}> (s) a = Sub (h, z) y = Mul (a, k) }}",
            {"k": kind(2)},
            SMALL,
        ),
    ]


SIXTEEN_BITS = [case(name, dtype) for dtype in DTYPES for name in BODIES]
SIXTEEN_BITS += [c for dtype in DTYPES for c in (the_chain(dtype), *with_casts(dtype))]
SIXTEEN_BITS += [
    Case(
        f"an inner value is an output, {dtype}",
        f"g ({dtype}[N,W] x, {dtype}[N,W] z) => ({dtype}[N,W] a, {dtype}[N,W] y)"
        "{ p = Mul (x, z) a = Sigmoid (p) d = Sub (a, z) y = Mul (d, d) }",
        dims=SMALL,
    )
    for dtype in DTYPES
]
SIXTEEN_BITS += [
    Case(
        f"a test of an inner value, {dtype}",
        f"g ({dtype}[N,W] x, {dtype}[N,W] z) => (bool[N,W] m, {dtype}[N,W] y)"
        "{ a = Add (x, z) m = Greater (a, z) y = Where (m, a, z) }",
        dims=SMALL,
    )
    for dtype in DTYPES
]
