"""The wall of small operators: scale, shift, clip, Gelu, gate, residual, twelve times, and a norm."""

import numpy as np


def chain(dtype, width: int, depth: int = 12) -> tuple[str, dict]:
    """The nodes from x to y, and their constants, in numpy's `dtype`."""
    rng = np.random.default_rng(0)
    constants = {"lo": dtype(-3), "hi": dtype(3), "one": np.ones(width, dtype)}
    body = []
    for i in range(depth):
        constants[f"s{i}"], constants[f"b{i}"] = (rng.random(width).astype(dtype) for _ in range(2))
        y = "x" if i == 0 else f"y{i - 1}"
        body.append(
            f"m{i} = Mul ({y}, s{i}) a{i} = Add (m{i}, b{i}) z{i} = Clip (a{i}, lo, hi) g{i} = Gelu (z{i})"
            f" e{i} = Sigmoid (z{i}) r{i} = Mul (x, e{i}) y{i} = Add (g{i}, r{i})"
        )
    body.append(f"y = LayerNormalization (y{depth - 1}, one)")
    return " ".join(body), constants
