"""Engines on the stand-in GPU, numbers included; run by test_stand_in_gpu.py."""

import deepjit
import model_feeds
import models
import numpy as np
import pytest
from onnx import numpy_helper, parser

CONSTANTS = {
    "last": np.array([-1]),
    "one": np.array(1),
    "three": np.array([3]),
    "trips": np.array(3),
    "yes": np.array(True),
    "w": np.linspace(-1, 1, 64, dtype=np.float32),
    "row": np.ones((1, 64), np.float32),
    "lw": np.random.default_rng(1).standard_normal((1, 32, 64), np.float32) / 8,
    "lr": np.random.default_rng(2).standard_normal((1, 32, 8), np.float32) / 8,
}

CASES = {
    "pointwise": "g (float[N,64] x) => (float[N,64] y) { a = Mul (x, w) b = Tanh (a) y = Add (b, x) }",
    "lone step": "g (float[N,64] x) => (float[N,64] y) { y = Softmax (x) }",
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


# Steps on the GPU and on the CPU in one model: its inputs and outputs, its nodes, and what runs on the CPU.
ONE = "(float[N,64] x) => (float[N,64] y)"
MIXED = {
    "sums between kernels": (
        ONE,
        "a = Mul (x, w) b = Tanh (a) c = CumSum (b, one) d = Sub (c, x) y = Exp (d)",
        "CumSum (1)",
    ),
    "many readers": (
        "(float[N,64] x) => (float[N,64] y, float[N,64] z, float[N,64] t)",
        "a = Mul (x, w) b = Tanh (a) y = CumSum (b, one) z = CumSum <reverse = 1> (b, one)"
        " s = Add (y, z) t = Mul (s, b)",
        "CumSum (2)",
    ),
    "the host only": (ONE, "y = CumSum (x, one)", "CumSum (1)"),
    "the largest": (
        "(float[N,64] x) => (float[N,3] v, int64[N,3] i)",
        "a = Mul (x, w) b = Tanh (a) v, i = TopK (b, three)",
        "TopK (1)",
    ),
    "what is not zero": (
        "(float[N,64] x) => (int64[2,K] z, float[N,64] y, int64[K,2] t)",
        "a = Mul (x, w) b = Relu (a) z = NonZero (b) t = Transpose <perm = [1, 0]> (z) y = Exp (b)",
        "NonZero (1)",
    ),
    "a dynamic value comes back": (
        ONE,
        "a = Mul (x, w) z = NonZero (a) f = Cast <to = 1> (z) s = ReduceSum <keepdims = 0> (f) t = Tanh (s)"
        " u = Add (a, t) y = Exp (u)",
        "NonZero (1)",
    ),
    "a loop": (
        ONE,
        "a = Mul (x, w) b = Tanh (a) c = Loop (trips, yes, b) <body = step (int64 i, bool go, float[N,64] v)"
        " => (bool more, float[N,64] u) { more = Identity (go) s = Add (v, b) u = Tanh (s) }> y = Exp (c)",
        "Loop (1)",
    ),
    "a branch of data": (
        ONE,
        "a = Mul (x, w) s = ReduceSum <keepdims = 0> (a) z = Sub (s, s) c = Greater (s, z)"
        " b = If (c) <then_branch = p () => (float[N,64] t) { t = Exp (a) },"
        " else_branch = n () => (float[N,64] e) { e = Neg (a) }> y = Tanh (b)",
        "If (1)",
    ),
    "a recurrent layer": (
        "(float[N,1,64] x) => (float[N,1,1,8] y)",
        "a = Tanh (x) b = Exp (a) l = LSTM <hidden_size = 8> (b, lw, lr) y = Neg (l)",
        "LSTM (1)",
    ),
}


def mixed(name: str):
    values, nodes, _ = MIXED[name]
    return model(f"g {values} {{ {nodes} }}")


@pytest.mark.parametrize("tune", [False, True])
@pytest.mark.parametrize("name", MIXED)
def test_steps_without_a_kernel_run_on_the_cpu(name, tune):
    on_host = MIXED[name][2]
    built = mixed(name)
    on_cpu = deepjit.build(built, tune=False)
    on_gpu = deepjit.build(built, device="cuda", targets="sm_90", tune=tune)
    told = [warning for warning in on_gpu.report["warnings"] if warning.startswith("on the CPU run ")]
    assert len(told) == 1 and on_host in told[0], on_gpu.report["warnings"]
    assert on_host in on_gpu.metadata["build.host_steps"]
    context = on_gpu.create_context()
    for n in (2, 7, 7, 7, 40, 2):
        x = np.random.default_rng(n).standard_normal((n, 1, 64) if "LSTM" in on_host else (n, 64), np.float32)
        for sign in (1, -1):
            want, got = on_cpu.run({"x": sign * x}), context.run({"x": sign * x})
            for output in want:
                np.testing.assert_allclose(got[output], want[output], rtol=1e-5, atol=1e-5, err_msg=output)


@pytest.mark.parametrize("tactic", ["reference", "llvm"])
def test_a_tactic_of_the_cpu_moves_steps_there(tactic):
    built = model(CASES["softmax"])
    engine = deepjit.build(built, device="cuda", targets="sm_90", force_tactic=tactic)
    assert any(step["tactic"].startswith(tactic) for step in engine.steps)
    assert "build.host_steps" in engine.metadata
    x = np.random.default_rng(1).standard_normal((5, 64), np.float32)
    want = deepjit.build(built, tune=False).run({"x": x})["y"]
    np.testing.assert_allclose(engine.run({"x": x})["y"], want, rtol=1e-5, atol=1e-6)


def test_the_ledger_tells_where_values_cross():
    engine = deepjit.build(mixed("sums between kernels"), device="cuda", targets="sm_90", tune=False)
    crossing = [entry for entry in engine.why() if entry["rule"] == "device-limit"]
    assert {entry["value"] for entry in crossing} == {"b", "c"}
    assert all("CumSum" in entry["reason"] and "on the CPU" in entry["reason"] for entry in crossing)


LARGE = [pytest.param(name, marks=pytest.mark.large) for name in ("magika", "ppocr_cls", "basic_pitch")]


@pytest.mark.parametrize("name", ["silero_vad_16k", *LARGE])
def test_real_models(name):
    case = model_feeds.case(name)
    options = {"ranges": case.ranges, "tune": False}
    on_cpu = deepjit.build(str(models.path(case.model)), **options)
    on_gpu = deepjit.build(str(models.path(case.model)), device="cuda", targets="sm_90", **options)
    context = on_gpu.create_context()
    rng = np.random.default_rng(4)
    for _ in range(3):
        feeds = case.make(rng)
        want, got = on_cpu.run(feeds), context.run(feeds)
        for output in want:
            scale = np.abs(want[output]).max()
            np.testing.assert_allclose(got[output], want[output], rtol=0, atol=1e-4 * scale + 1e-6, err_msg=output)


def test_an_index_that_lies_outside_is_told():
    """By the kernel itself; runs before and after it are right, as graphs too."""
    table = np.random.default_rng(0).standard_normal((10, 8)).astype(np.float32)
    made = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (int64[N] i) => (float[N,8] y)'
        "{ e = Gather (table, i) y = Neg (e) }"
    )
    made.graph.initializer.append(numpy_helper.from_array(table, "table"))
    engine = deepjit.build(made, device="cuda", targets="sm_90", ranges={"i": ((1,), (4,), (9,))}, device_only=True)
    context = engine.create_context()
    good = np.array([0, 9, -10, 3])
    for _ in range(3):
        np.testing.assert_array_equal(context.run({"i": good})["y"], -table[good])
        for bad in (10, -11):
            with pytest.raises(deepjit.Error) as told:
                context.run({"i": np.array([1, bad, 2, 3])})
            assert told.value.code == 505 and "Gather_0" in str(told.value)


def half(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


# What only contractions are made of, in 16 bits: inputs, results, nodes, constants.
CONTRACTIONS = {
    "stem and depthwise": (
        "(float16[N,3,16,16] x) => (float16[N,16,4,4] y)",
        "c = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w1, b1) r = Relu (c)"
        " d = Conv <group = 16, pads = [1, 1, 1, 1]> (r, w2) s = Add (d, r)"
        " y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (s)",
        {"w1": half(16, 3, 3, 3) / 5, "b1": half(16, seed=1), "w2": half(16, 1, 3, 3, seed=2) / 3},
        (3, 16, 16),
    ),
    "attention": (
        "(float16[N,20,32] x) => (float16[N,20,32] y)",
        "q = MatMul (x, w1) k = MatMul (x, w2) v = MatMul (x, w3) q4 = Reshape (q, split) k4 = Reshape (k, split)"
        " v4 = Reshape (v, split) q5 = Transpose <perm = [0, 2, 1, 3]> (q4) k5 = Transpose <perm = [0, 2, 3, 1]> (k4)"
        " v5 = Transpose <perm = [0, 2, 1, 3]> (v4) s = MatMul (q5, k5) t = Mul (s, quarter) p = Softmax (t)"
        " o = MatMul (p, v5) o2 = Transpose <perm = [0, 2, 1, 3]> (o) o3 = Reshape (o2, join) y = Add (o3, x)",
        {
            "w1": half(32, 32) / 6,
            "w2": half(32, 32, seed=1) / 6,
            "w3": half(32, 32, seed=2) / 6,
            "split": np.array([0, 0, 2, 16]),
            "join": np.array([0, 0, 32]),
            "quarter": np.array(0.25, np.float16),
        },
        (20, 32),
    ),
}


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_contractions_agree_with_the_cpu(name):
    ends, nodes, constants, dims = CONTRACTIONS[name]
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> g {ends} {{ {nodes} }}')
    made.graph.initializer.extend(numpy_helper.from_array(value, key) for key, value in constants.items())
    ranges = {"x": tuple((n, *dims) for n in (1, 2, 3))}
    engine = deepjit.build(made, device="cuda", targets="sm_90", ranges=ranges, device_only=True)
    kinds = ("deepjit.Conv", "deepjit.MaxPool", "MatMul", "deepjit.MatMul", "deepjit.Attention")
    tactics = [step["tactic"] for step in engine.steps if step["op"] in kinds]
    assert len(tactics) >= 2 and all(t.split(":")[1].startswith(("mma", "window", "attention")) for t in tactics), (
        tactics
    )
    assert any("attention" in t for t in tactics) == (name == "attention")
    reference = deepjit.build(made, tune=False)
    for n in (1, 2, 3, 2):
        x = half(n, *dims, seed=n)
        want = reference.run({"x": x})["y"].astype(np.float32)
        got = engine.run({"x": x})["y"].astype(np.float32)
        assert np.abs(got - want).max() < 4e-3 * np.abs(want).max()


SQUEEZE = (
    "g (float16[N,24,6,7] x) => (float16[N,16,6,7] y) { m = GlobalAveragePool (x) c = Conv (m, w1) s = HardSigmoid (c)"
    " z = Mul (x, s) d = Conv (z, w2, b2) y = Relu (d) }"
)


# The factors of a squeeze-and-excite are the prologue of the convolution that reads them.
def test_a_product_does_what_comes_before_it(tmp_path):
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {SQUEEZE}')
    weights = {"w1": half(24, 24, 1, 1) / 4, "w2": half(16, 24, 1, 1, seed=1) / 4, "b2": half(16, seed=2)}
    made.graph.initializer.extend(numpy_helper.from_array(value, key) for key, value in weights.items())
    ranges = {"x": tuple((n, 24, 6, 7) for n in (1, 2, 3))}
    engine = deepjit.build(made, device="cuda", ranges=ranges, force_tactic="nvrtc", disable=["combos"])
    engine.save(tmp_path / "e.dje")
    engine = deepjit.load(tmp_path / "e.dje")
    joined = [s for s in engine.steps if s["op"] == "deepjit.Region" and "mma" in s["tactic"]]
    assert len(joined) == 1 and "Conv" not in [s["op"] for s in engine.steps], engine.steps
    again = deepjit.tune(engine, force_tactic="nvrtc")  # which parts them and joins them anew
    assert [(s["op"], s["name"]) for s in again.steps] == [(s["op"], s["name"]) for s in engine.steps]
    reference = deepjit.build(made, tune=False)
    for n in (1, 3, 2):
        x = half(n, 24, 6, 7, seed=n)
        want = reference.run({"x": x})["y"].astype(np.float32)
        for one in (engine, again):
            got = one.run({"x": x})["y"].astype(np.float32)
            assert np.abs(got - want).max() < 4e-3 * np.abs(want).max()
