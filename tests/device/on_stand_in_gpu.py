"""Engines on the stand-in GPU, numbers included; run by test_stand_in_gpu.py."""

import deepjit
import numpy as np
import pytest
from onnx import numpy_helper, parser

CONSTANTS = {"last": np.array([-1]), "w": np.linspace(-1, 1, 64, dtype=np.float32)}

CASES = {
    "pointwise": "g (float[N,64] x) => (float[N,64] y) { a = Mul (x, w) b = Tanh (a) y = Add (b, x) }",
    "softmax": "g (float[N,64] x) => (float[N,64] y) { a = Mul (x, w) y = Softmax (a) }",
    "two outputs": "g (float[N,64] x) => (float[N,64] y, float[N,1] m)"
    "{ c = Tanh (x) m = ReduceMean (c, last) y = Sub (c, m) }",
    "transposed": "g (float[N,64] x) => (float[64,N] y) { a = Exp (x) y = Transpose <perm = [1, 0]> (a) }",
}


def model(text: str):
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    for name, value in CONSTANTS.items():
        if any(name in node.input for node in made.graph.node):
            made.graph.initializer.append(numpy_helper.from_array(value, name))
    return made


@pytest.mark.parametrize("tune", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_cpu(name, tune):
    built = model(CASES[name])
    on_cpu = deepjit.build(built, tune=False)
    on_gpu = deepjit.build(built, device="cuda", targets="sm_90", tune=tune)
    assert any(step["tactic"].startswith("nvrtc") for step in on_gpu.steps)
    context = on_gpu.create_context()
    for n in (1, 7, 7, 300, 7):  # the second run of a shape replays a graph
        x = np.random.default_rng(n).standard_normal((n, 64), np.float32)
        want, got = on_cpu.run({"x": x}), context.run({"x": x})
        for output in want:
            np.testing.assert_allclose(got[output], want[output], rtol=1e-5, atol=1e-5)
