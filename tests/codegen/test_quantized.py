"""Quantized results of elementary functions and rows: one unit beside the truth where that lies on an edge, no more."""

import numpy as np
import pytest
from cases_quantized import KINDS
from fused import Fused, feeds_of, model

BODIES = {
    "Gelu": "a = Gelu (x)",
    "Sigmoid and Mul": "b = Sigmoid (x) a = Mul (b, x)",
    "Softmax": "b = Neg (x) a = Softmax (b)",
    "LayerNormalization": "a = LayerNormalization (x, w)",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", BODIES)
def test_edges(body, kind):
    """65536 values a row of 256, of which some always lie within a float's last digit of an edge for 16 bits."""
    given = {"s": np.float32(0.01 if "8" in kind else 1e-4), "z": KINDS[kind](0 if kind[0] == "i" else 100)}
    if "w" in BODIES[body]:
        given["w"] = np.linspace(0.5, 1.5, 256).astype(np.float32)
    made = model(f"g (float[N,256] x) => ({kind}[N,256] y) {{ {BODIES[body]} y = QuantizeLinear (a, s, z) }}", given)
    fused = Fused(made, ranges={"x": ((1, 256), (64, 256), (256, 256))})
    fused.assert_generated()
    feeds = feeds_of(made, {"N": 256})
    assert fused.launches(feeds) == 1
    got = fused.engine.run(feeds)["y"].astype(np.int64)
    for oracle in (fused.level_0.run, fused.ort):
        apart = np.abs(got - oracle(feeds)["y"].astype(np.int64))
        assert apart.max() <= 1
        assert (apart > 0).mean() < (1e-3 if "8" in kind else 2e-2)


def test_saturates_and_rounds_to_even():
    made = model(
        "g (float[N,W] x) => (int8[N,W] y, uint8[N,W] u)"
        "{ a = Neg (x) y = QuantizeLinear (a, s, z) u = QuantizeLinear (a, s, p) }",
        {"s": np.float32(2), "z": np.int8(1), "p": np.uint8(10)},
    )
    fused = Fused(made)
    fused.assert_generated()
    x = -np.array([[1, 3, 5, -1, -3, 1e9, -1e9, np.inf, -np.inf, np.nan, 0, -0.0, 253, 255]], np.float32)
    got = fused.engine.run({"x": x})
    steps = np.array([0, 2, 2, 0, -2, 1e9, -1e9, 1e9, -1e9, 0, 0, 0, 126, 128])
    zeros = np.where(np.isnan(x[0]), 0, 1)  # NaN becomes 0, not the zero point
    np.testing.assert_array_equal(got["y"][0], np.clip(steps + zeros, -128, 127).astype(np.int8))
    np.testing.assert_array_equal(got["u"][0], np.clip(steps + 10 * zeros, 0, 255).astype(np.uint8))


def test_the_ledger_says_why_a_quantized_value_is_stored():
    made = model(
        "g (float[N,W] x) => (float[N,W] y){ q = QuantizeLinear (x, s, z) f = DequantizeLinear (q, s, z) y = Neg (f) }",
        {"s": np.float32(2), "z": np.int8(1)},
    )
    (entry,) = Fused(made).engine.why()
    assert entry["rule"] == "op-not-generated" and "quantized value" in entry["reason"]


def test_blocks_are_not_generated():
    made = model(
        "g (int8[N,8] x, float[N,2] s) => (float[N,8] y)"
        "{ f = DequantizeLinear <axis = 1, block_size = 4> (x, s) y = Neg (f) }"
    )
    fused = Fused(made, ort=False)
    assert [entry["rule"] for entry in fused.engine.why()] == ["op-not-generated"]
    feeds = feeds_of(made, {"N": 3})
    want = -feeds["x"].astype(np.float32) * np.repeat(feeds["s"], 4, axis=1)
    np.testing.assert_array_equal(fused.engine.run(feeds)["y"], want)
