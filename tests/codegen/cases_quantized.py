"""Quantized models: values of 8 and 16 bits become floats at the start of a kernel and integers at its end."""

import ml_dtypes
import numpy as np
from fusion_case import W_SIZES, Case

KINDS = {"int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16}
SIZES = tuple({"N": n, "W": w} for n, w in ((1, 1), (3, 17), (2, 64), (5, 257)))


def both(kind: str) -> dict:
    """Scales that are no powers of two, and a zero point where the type has room for one."""
    zero = KINDS[kind](3 if kind.startswith("i") else 120)
    return {"s": np.float32(0.037), "z": zero, "t": np.float32(0.021)}


def exact(kind: str) -> list[Case]:
    """Every operation has one right result, to the last bit."""
    return [
        Case(
            f"from {kind} to {kind}",
            f"g ({kind}[N,W] x, float[W] b) => ({kind}[N,W] y)"
            "{ f = DequantizeLinear (x, s, z) a = Add (f, b) r = Relu (a) y = QuantizeLinear (r, t, z) }",
            both(kind),
            W_SIZES,
            ort_hard=False,
        ),
        Case(
            f"a sum of two in {kind}",
            f"g ({kind}[N,W] x, {kind}[N,W] v) => ({kind}[N,W] y)"
            "{ f = DequantizeLinear (x, s, z) h = DequantizeLinear (v, t, z) a = Add (f, h)"
            " y = QuantizeLinear (a, s, z) }",
            both(kind),
            SIZES,
        ),
        Case(
            f"to floats of {kind} by channel",
            f"g ({kind}[N,6,W] x) => (float[N,6,W] y) {{ f = DequantizeLinear <axis = 1> (x, c, o) y = Neg (f) }}",
            {"c": np.linspace(0.01, 0.2, 6).astype(np.float32), "o": np.arange(6).astype(KINDS[kind])},
            SIZES,
        ),
        Case(
            f"to {kind} by the last axis",
            f"g (float[N,W,6] x) => ({kind}[N,W,6] y) {{ a = Abs (x) y = QuantizeLinear <axis = -1> (a, c, o) }}",
            {"c": np.linspace(0.01, 0.2, 6).astype(np.float32), "o": np.arange(6).astype(KINDS[kind])},
            SIZES,
            ort_hard=False,
        ),
        Case(
            f"floats and {kind} of one value",
            f"g (float[N,W] x, float[N,W] v) => ({kind}[N,W] y, float[N,W] a)"
            "{ p = Mul (x, v) a = Max (p, v) y = QuantizeLinear (a, s, z) }",
            both(kind),
            SIZES,
            ort_hard=False,
        ),
        Case(
            f"moved as {kind}",
            f"g ({kind}[N,W,4] x) => ({kind}[N,4,W] y)"
            "{ f = DequantizeLinear (x, s, z) r = Relu (f) q = QuantizeLinear (r, t, z)"
            " y = Transpose <perm = [0, 2, 1]> (q) }",
            both(kind),
            SIZES,
        ),
    ]


QUANTIZED = [case for kind in KINDS for case in exact(kind)]
QUANTIZED += [
    Case(
        "no zero point",
        "g (uint8[N,W] x) => (uint8[N,W] y) { f = DequantizeLinear (x, s) r = Abs (f) y = QuantizeLinear (r, t) }",
        {"s": np.float32(0.037), "t": np.float32(0.021)},
        SIZES,
    ),
    Case(
        "scales that are fed",
        "g (int8[N,5,W] x, float[5] c, int8[5] o, float s) => (int8[N,5,W] y)"
        "{ f = DequantizeLinear (x, c, o) r = Relu (f) y = QuantizeLinear (r, s, z) }",
        {"z": np.int8(0)},
        SIZES,
        hard=False,
    ),
    Case(
        "a scale of one element",
        "g (int8[N,5,W] x) => (int8[N,5,W] y)"
        "{ f = DequantizeLinear <axis = 2> (x, c, o) r = Relu (f) y = QuantizeLinear (r, c, o) }",
        {"c": np.array([0.3], np.float32), "o": np.array([2], np.int8)},
        SIZES,
    ),
    Case(
        "quantized by float16",
        "g (float16[N,W] x, int8[N,W] v) => (int8[N,W] y)"
        "{ f = DequantizeLinear (v, s, z) a = Mul (x, f) b = Add (a, x) y = QuantizeLinear (b, s, z) }",
        {"s": np.float16(0.037), "z": np.int8(5)},
        SIZES,
        ort_hard=False,
    ),
    Case(
        "quantized by bfloat16",
        "g (bfloat16[N,W] x, uint8[N,W] v) => (uint8[N,W] y)"
        "{ f = DequantizeLinear (v, s, z) a = Mul (x, f) b = Add (a, x) y = QuantizeLinear (b, s, z) }",
        {"s": np.asarray(0.037, ml_dtypes.bfloat16), "z": np.uint8(5)},
        SIZES,
        ort_hard=False,
    ),
    Case(
        "a row quantized by its scale",
        "g (int8[N,8,W] x, float[W] b) => (float[N,8,W] y)"
        "{ f = DequantizeLinear <axis = 1> (x, c) a = Add (f, b) y = Softmax (a) }",
        {"c": np.linspace(0.1, 0.9, 8).astype(np.float32)},
        SIZES,
    ),
    # A quantized value is stored before it is read.
    Case(
        "there and back",
        "g (float[N,W] x) => (float[N,W] y)"
        "{ a = Relu (x) q = QuantizeLinear (a, s, z) f = DequantizeLinear (q, s, z) y = Sub (f, x) }",
        both("int8"),
        SIZES,
        launches=2,
        ort_hard=False,
    ),
    Case(
        "there and back, moved between",
        "g (float[N,W,4] x) => (float[N,4,W] y)"
        "{ a = Relu (x) q = QuantizeLinear (a, s, z) m = Transpose <perm = [0, 2, 1]> (q) c = Concat <axis = 1> (m, m)"
        " h = Slice (c, zero, four, one) f = DequantizeLinear (h, s, z) y = Neg (f) }",
        both("uint8") | {"zero": np.array([0]), "four": np.array([4]), "one": np.array([1])},
        SIZES,
        launches=2,
        ort_hard=False,
    ),
]
