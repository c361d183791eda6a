"""Engines of 16 bits from float32 models on the stand-in GPU; run by test_precision.py."""

import deepjit
import numpy as np
import pytest
from onnx import numpy_helper, parser

W = np.linspace(0.5, 1.5, 64, dtype=np.float32)

CASES = {
    "norm": "{ a = Mul (x, w) n = LayerNormalization <axis = -1> (a, w) b = Gelu (n) y = Add (b, x) }",
    "exponent": "{ a = Mul (x, w) e = Exp (a) f = Mul (e, w) y = Tanh (f) }",
    "mask": "{ h = Mul (x, w) c = Greater (x, w) a = Where (c, h, low) y = Softmax (a) }",
    "written out": "{ h = Mul (x, w) s = Mul (h, h) m = ReduceMean (s, last) e = Add (m, eps) r = Sqrt (e)"
    " d = Div (h, r) y = Mul (d, w) }",
}
CONSTANTS = {
    "w": W,
    "low": np.array(-3.4e38, np.float32),
    "eps": np.array(1e-12, np.float32),
    "last": np.array([-1]),
}


def model(text: str):
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> g (float[N,64] x) => (float[N,64] y) {text}')
    for name, value in CONSTANTS.items():
        if any(name in node.input for node in made.graph.node):
            made.graph.initializer.append(numpy_helper.from_array(value, name))
    return made


@pytest.mark.parametrize(("precision", "error"), [("tf32", 1e-5), ("fp16", 2e-3), ("bf16", 2e-2)])
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_fp32(name, precision, error):
    built = model(CASES[name])
    on_cpu = deepjit.build(built, tune=False)
    on_gpu = deepjit.build(built, device="cuda", targets="sm_90", precision=precision)
    assert any(step["tactic"].startswith("nvrtc") for step in on_gpu.steps)
    for n in (1, 7, 33):
        x = np.random.default_rng(n).standard_normal((n, 64), np.float32)
        want, got = on_cpu.run({"x": x})["y"], on_gpu.run({"x": x})["y"]
        assert got.dtype == np.float32 and np.isfinite(got).all()
        assert np.abs(got - want).max() <= error * np.abs(want).max()
        assert precision == "tf32" or (got != want).any()
