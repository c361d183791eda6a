"""Models with ops of users between built-in ones, which become one kernel; and what NumPy makes of them."""

import numpy as np
from fusion_case import N_SIZES, W_SIZES, Case, draw

DOMAIN = "my.ops"


def gate(x, b, alpha=1.0):
    """x * sigmoid(alpha * x), plus b where that is positive."""
    return x / (1 + np.exp(-alpha * x)) + np.maximum(b, 0)


def rms_norm(x, w, epsilon=1e-5):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * w


def in_double(function):
    """The function on doubles, rounded once."""

    def call(x, *more, **attributes):
        with np.errstate(all="ignore"):
            return function(x.astype(np.float64), *(a.astype(np.float64) for a in more), **attributes).astype(x.dtype)

    return call


GATE = {
    "name": f"{DOMAIN}::TestGate",
    "inputs": ["x", "b"],
    "attributes": {"alpha": 1.0},
    "expression": "y = x * sigmoid(alpha * x) + max(b, 0)",
    "shape": "x",
}
RMS_NORM = {
    "name": f"{DOMAIN}::TestRmsNorm",
    "inputs": ["x", "w"],
    "attributes": {"epsilon": 1e-5},
    "expression": "x * reciprocal(sqrt(mean(x * x) + epsilon)) * w",
    "shape": "[..., C], [C] -> [..., C]",
}
REFERENCES = {GATE["name"]: in_double(gate), RMS_NORM["name"]: in_double(rms_norm)}


def relu(x):
    return np.maximum(x, 0)


USER_OPS = [
    Case(
        "a scalar op of the user",
        "g (float[N,W] x, float[W] b) => (float[N,W] y)"
        "{ a = Relu (x) s = my.ops.TestGate <alpha: float = 1.5> (a, b) y = Mul (s, x) }",
        dims=W_SIZES,
        ops=[GATE],
        numpy=lambda x, b: {"y": gate(relu(x), b, 1.5) * x},
    ),
    Case(
        "a row op of the user",
        "g (float[N,W] x, float[N,W] r, float[W] w) => (float[N,W] y)"
        "{ a = Add (x, r) n = my.ops.TestRmsNorm (a, w) y = Tanh (n) }",
        dims=W_SIZES,
        hard=False,
        ops=[RMS_NORM],
        numpy=lambda x, r, w: {"y": np.tanh(rms_norm(x + r, w))},
    ),
    Case(
        "a scalar op and a row op of the user in one kernel",
        "g (float[N,4,W] x, float[W] b, float[W] w) => (float[N,4,W] y)"
        "{ a = Neg (x) g = my.ops.TestGate (a, b) n = my.ops.TestRmsNorm <epsilon: float = 0.5> (g, w)"
        " y = Add (n, x) }",
        dims=W_SIZES,
        hard=False,
        ops=[GATE, RMS_NORM],
        numpy=lambda x, b, w: {"y": rms_norm(gate(-x, b), w, 0.5) + x},
    ),
    Case(
        "ops of the user one after the other, with constants",
        "g (float[N,64] x) => (float[N,64] y)"
        "{ n = my.ops.TestRmsNorm (x, w) g = my.ops.TestGate (n, b) m = my.ops.TestRmsNorm (g, w) y = Relu (m) }",
        {"w": draw(64), "b": draw(64, seed=8)},
        N_SIZES,
        hard=False,
        ops=[GATE, RMS_NORM],
        numpy=lambda x: {"y": relu(rms_norm(gate(rms_norm(x, draw(64)), draw(64, seed=8)), draw(64)))},
    ),
]
