"""Element types and values that regions get right or leave alone: narrow integers, strings, mixed or large values."""

import deepjit
import numpy as np
import pytest
from fused import Fused, assert_same, difference, feeds_of, model
from fusion_case import draw


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_narrow_integers_wrap(dtype):
    made = model(
        f"g ({dtype}[N,W] x, {dtype}[W] b) => ({dtype}[N,W] y) "
        f"{{ a = Add (x, b) c = Mul (a, b) d = Sub (c, x) y = Mul (d, d) }}"
    )
    fused = Fused(made, ort=False)
    limit = np.iinfo(dtype)
    x = np.array([[limit.max, limit.min, 100, 1, 0]], dtype)
    b = np.array([limit.max, 3, 100, limit.min, 7], dtype)
    with np.errstate(over="ignore"):
        want = ((x + b) * b - x) * ((x + b) * b - x)
    assert difference(fused.engine.run({"x": x, "b": b})["y"], want) == ""


@pytest.mark.parametrize("to", [2, 3, 4, 5], ids=["uint8", "int8", "uint16", "int16"])
def test_casts_to_narrow_integers(to):
    name = {2: "uint8", 3: "int8", 4: "uint16", 5: "int16"}[to]
    made = model(
        f"g (int32[N,W] x) => (float[N,W] y) {{ a = Mul (x, k) b = Cast <to = {to}> (a) y = Cast <to = 1> (b) }}",
        {"k": np.int32(77)},
    )
    fused = Fused(made, ort=False)
    x = np.arange(-30, 30, dtype=np.int32).reshape(2, 30)
    assert difference(fused.engine.run({"x": x})["y"], (x * 77).astype(name).astype(np.float32)) == ""


def test_large_unsigned():
    made = model(
        "g (uint32[N,W] x, uint64[N,W] z) => (float[N,W] y) "
        "{ a = Cast <to = 1> (x) b = Cast <to = 1> (z) y = Add (a, b) }"
    )
    feeds = {"x": np.array([[2**32 - 1, 2**31, 5]], np.uint32), "z": np.array([[2**64 - 1, 2**63, 5]], np.uint64)}
    want = feeds["x"].astype(np.float32) + feeds["z"].astype(np.float32)
    assert difference(deepjit.build(made, threads=1).run(feeds)["y"], want) == ""


def test_strings_beside():
    made = model("g (string[N] t, string[N] u, float[N,3] x) => (float[N,3] y) { a = Neg (x) y = Tanh (a) }")
    fused = Fused(made, ort=False)
    feeds = {"t": np.array(["a", "b"], object), "u": np.array(["a", "c"], object), "x": draw(2, 3)}
    assert difference(fused.engine.run(feeds)["y"], np.tanh(-feeds["x"])) == ""


def test_training_batch_norm():
    """Statistics of the batch, not the given ones."""
    made = model(
        "g (float[N,4,9] x, float[4] s, float[4] b, float[4] m, float[4] v) => (float[N,4,9] y)"
        "{ a = Tanh (x) n, rm, rv = BatchNormalization <training_mode = 1> (a, s, b, m, v) y = Relu (n) }"
    )
    fused = Fused(made, ort=False)
    feeds = feeds_of(made, {"N": 3})
    feeds["v"] = np.abs(feeds["v"])
    assert_same(fused.engine.run(feeds), fused.level_0.run(feeds), "level 0")
    a = np.tanh(feeds["x"].astype(np.float64))
    mean, variance = a.mean((0, 2), keepdims=True), a.var((0, 2), keepdims=True)
    column = (slice(None), None)
    want = (a - mean) / np.sqrt(variance + 1e-5) * feeds["s"][column] + feeds["b"][column]
    assert difference(fused.engine.run(feeds)["y"], np.maximum(want, 0).astype(np.float32)) == ""


@pytest.mark.parametrize("stats", ["double", "float16", "float"])
@pytest.mark.parametrize("dtype", ["float", "float16", "double"])
def test_batch_norm_of_mixed_types(dtype, stats):
    made = model(
        f"g ({dtype}[N,4,9] x, {dtype}[4] s, {dtype}[4] b, {stats}[4] m, {stats}[4] v) => ({dtype}[N,4,9] y)"
        "{ a = Neg (x) w = Abs (v) n = BatchNormalization (a, s, b, m, w) y = Relu (n) }"
    )
    fused = Fused(made, ort=False)
    feeds = feeds_of(made, {"N": 3})
    assert_same(fused.engine.run(feeds), fused.level_0.run(feeds), "level 0")


NORMS = {
    "LayerNormalization": "g (float[N,W] x, float[W] s) => (float[N,W] y) { y = LayerNormalization (x, s) }",
    "RMSNormalization": "g (float[N,W] x, float[W] s) => (float[N,W] y) { y = RMSNormalization (x, s) }",
    "InstanceNormalization": "g (float[N,4,W] x, float[4] s) => (float[N,4,W] y)"
    "{ y = InstanceNormalization (x, s, s) }",
}


@pytest.mark.parametrize("op", NORMS)
def test_norm_of_short_rows_is_a_kernel(op):
    Fused(model(NORMS[op].replace("N,", "64,").replace("W", "16"), opset=23), ort=False).assert_generated()


@pytest.mark.parametrize("op", NORMS)
def test_norm_of_large_values(op):
    made = model(NORMS[op], opset=23)
    fused = Fused(made, ort=False)
    feeds = feeds_of(made, {"N": 3, "W": 40})
    feeds["x"] *= np.float32(1e20)
    fused.compare(feeds)
