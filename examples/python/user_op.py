"""Registers an op of its own, tested against a NumPy function, and runs a model with a node of it.

The op is a norm over rows. In the model it stands between two other nodes, and all three become one kernel.
"""

import deepjit
import numpy as np
from onnx import parser


def rms_norm(x, w, epsilon):
    """What it should compute; deepjit calls it with arrays of float32, float64 and float16."""
    wide = x.astype(np.float64)
    return (wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + epsilon) * w).astype(x.dtype)


report = deepjit.register_op(
    "my.ops::RmsNorm",
    inputs=["x", "w"],
    attributes={"epsilon": 1e-5},
    expression="""
        square = mean(x * x)                      # over the last axis, which stays as 1
        y = x * reciprocal(sqrt(square + epsilon)) * w
    """,
    shape="[..., C], [C] -> [..., C]",
    reference=rms_norm,
    dtypes=["float32", "float64"],
    tolerance=1e-4,
)
print(f"{report['op']}: {report['cases']} cases agree, the largest error is {report['largest_error']:.1e}")

model = parser.parse_model("""
    <ir_version: 10, opset_import: ["" : 21, "my.ops" : 1]>
    block (float[N, 64] x, float[N, 64] r, float[64] w) => (float[N, 64] y) {
        s = Add (x, r)
        [norm] n = my.ops.RmsNorm (s, w)
        y = Relu (n)
    }
""")
engine = deepjit.build(model, force_tactic="llvm")
for step in engine.steps:
    if step["tactic"].startswith("llvm"):
        nodes = dict.fromkeys(step["origins"])  # the norm is several: its name is there once for each
        print(f"one kernel: {', '.join(nodes)}; ops of the user: {', '.join(step['user_ops'])}")

rng = np.random.default_rng(0)
x, r = rng.standard_normal((2, 3, 64), np.float32)
w = rng.standard_normal(64, np.float32)
y = engine.run({"x": x, "r": r, "w": w})["y"]
print(f"largest difference: {np.abs(y - np.maximum(rms_norm(x + r, w, 1e-5), 0)).max():.1e}")
