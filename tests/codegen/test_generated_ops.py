"""Each op that can stand in a generated kernel, alone and beside another, on ordinary and special values."""

import ml_dtypes
import numpy as np
import pytest
from fused import Fused, assert_same, difference, feeds_of, model

K = {"k": np.float32(0.75), "lo": np.float32(-1), "hi": np.float32(2), "two": np.float32(2)}
UNARY = [
    *("Neg", "Abs", "Sqrt", "Exp", "Log", "Erf", "Tanh", "Sigmoid", "Floor", "Ceil", "Round", "Reciprocal", "Sign"),
    *("Identity", "Relu", "LeakyRelu", "LeakyRelu <alpha = -0.5>", "Elu", "Elu <alpha = 0.3>", "Celu", "Selu"),
    *("Celu <alpha = 2.0>", "ThresholdedRelu", "ThresholdedRelu <alpha = -0.5>", "HardSigmoid", "HardSwish"),
    *("HardSigmoid <alpha = 2.0, beta = -0.5>", "Softplus", "Softsign", "Mish", "Gelu", 'Gelu <approximate = "tanh">'),
]
BINARY = ["Add", "Sub", "Mul", "Div", "Min", "Max", "PRelu", "Sum", "Mean"]
COMPARE = ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"]
POWERS = [-2.0, -1.0, 1.0, 2.0, 3.0, 4.0]
WIDE = {"N": 5, "W": 67}
# ONNX Runtime differs from the formula of the standard here, or has no kernel.
NOT_IN_ORT = {"Sign", "ThresholdedRelu", "ThresholdedRelu <alpha = -0.5>"}


def check(made, hard: bool, ort: bool = True):
    fused = Fused(made, ort=ort)
    fused.assert_generated()
    for seed in range(4 if hard else 1):
        fused.compare(feeds_of(made, WIDE, hard, seed), own_scale=hard, ort=not hard)


@pytest.mark.parametrize("hard", [False, True], ids=["ordinary", "special"])
@pytest.mark.parametrize("op", UNARY)
def test_unary(op, hard):
    check(model(f"g (float[N,W] x) => (float[N,W] y) {{ y = {op} (x) }}"), hard, op not in NOT_IN_ORT)


@pytest.mark.parametrize("hard", [False, True], ids=["ordinary", "special"])
@pytest.mark.parametrize("op", UNARY)
def test_unary_between(op, hard):
    """An operand that the op before it made, and a reader after it."""
    text = f"g (float[N,W] x, float[W] b) => (float[N,W] y) {{ a = Sub (x, b) c = {op} (a) y = Max (c, k) }}"
    check(model(text, {"k": K["k"]}), hard, op not in NOT_IN_ORT)


@pytest.mark.parametrize("hard", [False, True], ids=["ordinary", "special"])
@pytest.mark.parametrize("op", BINARY)
def test_binary(op, hard):
    check(model(f"g (float[N,W] x, float[W] b) => (float[N,W] y) {{ y = {op} (x, b) }}"), hard)


@pytest.mark.parametrize("hard", [False, True], ids=["ordinary", "special"])
@pytest.mark.parametrize("op", COMPARE)
@pytest.mark.parametrize("dtype", ["float", "float16", "double", "int32", "int64", "uint8"])
def test_comparison(op, dtype, hard):
    check(model(f"g ({dtype}[N,W] x, {dtype}[N,W] b) => (bool[N,W] y) {{ y = {op} (x, b) }}"), hard, dtype != "uint8")


@pytest.mark.parametrize("hard", [False, True], ids=["ordinary", "special"])
@pytest.mark.parametrize("power", POWERS)
def test_power(power, hard):
    made = model("g (float[N,W] x) => (float[N,W] y) { y = Pow (x, p) }", {"p": np.float32(power)})
    check(made, hard)


@pytest.mark.parametrize("hard", [False, True], ids=["ordinary", "special"])
@pytest.mark.parametrize(
    "limits", [("lo", "hi"), ("", "hi"), ("lo", ""), ("x", "hi"), ("hi", "lo")], ids=lambda v: ",".join(v)
)
def test_clip(limits, hard):
    low, high = limits
    dims = "" if "x" in limits else "[N,W]"
    text = f"g (float{dims} x) => (float{dims} y) {{ y = Clip (x, {low}, {high}) }}"
    made = model(text, {name: K[name] for name in {low, high} & {"lo", "hi"}})
    check(made, hard, limits != ("hi", "lo"))


@pytest.mark.parametrize("to", [1, 10, 16, 11, 6, 7, 9])
@pytest.mark.parametrize("dtype", ["float", "float16", "double", "int32", "int64", "bool", "uint8", "int16"])
@pytest.mark.parametrize("hard", [False, True], ids=["ordinary", "special"])
def test_cast(dtype, to, hard):
    name = {1: "float", 10: "float16", 16: "bfloat16", 11: "double", 6: "int32", 7: "int64", 9: "bool"}[to]
    if name == dtype:
        pytest.skip("casts to its own type")
    made = model(f"g ({dtype}[N,W] x) => ({name}[N,W] y) {{ y = Cast <to = {to}> (x) }}")
    check(made, hard, ort=to != 16)


LOGIC = "{ a = And (p, q) o = Or (p, q) x = Xor (a, o) n = Not (x) e = Equal (n, p) y = Where (e, q, n) }"


def test_logic():
    check(model(f"g (bool[N,W] p, bool[W] q) => (bool[N,W] y) {LOGIC}"), False, ort=False)


@pytest.mark.parametrize("attributes", ["", "<detect_positive = 0>", "<detect_negative = 0>"])
def test_is_inf(attributes):
    check(model(f"g (float[N,W] x) => (bool[N,W] y) {{ y = IsInf {attributes} (x) }}"), True)


@pytest.mark.parametrize(
    "body",
    [
        "a = Sigmoid (x) y = Mul (a, b)",
        "a = Sigmoid (x) y = Log (a)",
        "a = Sigmoid (x) y = Reciprocal (a)",
        "a = Exp (x) c = Add (a, k) y = Log (c)",
        "a = Exp (x) y = Div (k, a)",
        "a = Tanh (x) y = Div (b, a)",
        "a = Erf (x) c = Add (x, a) y = Mul (c, b)",
        "a = Softplus (x) c = Tanh (a) y = Mul (x, c)",
        "a = Neg (x) c = Relu (a) d = Neg (c) y = Add (d, b)",
        "a = Mul (x, b) c = Div (a, b) y = Sub (c, x)",
        "a = Sqrt (x) c = Mul (a, a) y = Sub (c, x)",
        "a = Min (x, b) c = Max (x, b) y = Sub (c, a)",
    ],
)
def test_pairs_on_special_values(body):
    given = {"k": np.float32(1)} if "k" in body else {}
    check(model(f"g (float[N,W] x, float[N,W] b) => (float[N,W] y) {{ {body} }}", given), True)


SIXTEEN = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
TO = {"float16": 10, "bfloat16": 16}
HARD_TO_KEEP = [0.1, 1, 100, 200, 3e4, -3e4, 1e-3, 0, 999.5]  # near 1000, or times 1000, in 16 bits


def between(body: str, dtype: str, to: str):
    """A model over x and k = 1000 of a type, whose result is of the type `to` or what the op says."""
    result = "bool" if "IsInf" in body or "Equal" in body else "int64" if "to = 7" in body or "Arg" in body else to
    shape = "[N,1]" if "Reduce" in body or "Arg" in body else "[N,W]"
    constants = {"k": np.asarray(1000).astype(SIXTEEN.get(dtype, np.float32))}
    constants |= {"last": np.array([-1])} if "last" in body else {}
    constants |= {"c": np.asarray(1000).astype(SIXTEEN[to])} if "c)" in body else {}
    made = model(f"g ({dtype}[N,W] x) => ({result}{shape} y) {{ {body} }}", constants)
    return made, np.resize(np.asarray(HARD_TO_KEEP).astype(constants["k"].dtype), (3, 33))


@pytest.mark.parametrize("dtype", SIXTEEN)
@pytest.mark.parametrize(
    "body",
    [
        "a = Mul (x, k) y = Div (a, k)",
        "a = Mul (x, k) y = IsInf (a)",
        "a = Add (x, k) y = Equal (a, k)",
        "a = Add (x, k) y = Sub (a, k)",
        "a = Div (x, k) y = Floor (a)",
        "a = Mul (x, x) b = Mul (a, x) y = Min (b, k)",
        "a = Mul (x, k) b = Mul (a, k) y = ArgMax <axis = 1> (b)",
        "a = Mul (x, k) b = ReduceMean (a, last) y = Div (b, k)",
        "a = Add (x, k) y = Cast <to = 7> (a)",
    ],
)
def test_16_bit_values_between_steps_are_float32(body, dtype):
    """What overflows, vanishes or ties in 16 bits does not do so inside a kernel."""
    made, x = between(body, dtype, dtype)
    fused = Fused(made, ort=False)
    fused.assert_generated()
    assert_same(fused.engine.run({"x": x}), fused.truth.run({"x": x}), "numpy in float32", own_scale=True)


@pytest.mark.parametrize(
    ("dtype", "to"), [("float", t) for t in SIXTEEN] + [(t, u) for t in SIXTEEN for u in SIXTEEN if t != u]
)
@pytest.mark.parametrize("body", ["y = Sub (h, c)", "y = IsInf (h)", "y = Equal (h, c)", "n = Neg (h) y = Relu (n)"])
def test_casts_to_16_bits_round_inside(body, dtype, to):
    made, x = between(f"a = Add (x, k) h = Cast <to = {TO[to]}> (a) {body}", dtype, to)
    fused = Fused(made, ort=False)
    fused.assert_generated()
    want = (x.astype(np.float32) + np.float32(1000)).astype(SIXTEEN[to])
    with np.errstate(over="ignore"):
        want = {
            "Sub": lambda: (want.astype(np.float32) - 1000).astype(SIXTEEN[to]),
            "IsInf": lambda: np.isinf(want),
            "Equal": lambda: want == 1000,
            "Relu": lambda: np.maximum(-want.astype(np.float32), 0).astype(SIXTEEN[to]),
        }[body.split("y = ")[1].split()[0]]()
    assert_same(fused.engine.run({"x": x}), {"y": want}, "numpy", own_scale=True)


@pytest.mark.parametrize("dtype", SIXTEEN)
def test_the_truth_of_16_bits_is_not_that_of_the_steps(dtype):
    """A kernel that rounds at each step, as the steps one by one do, would not pass."""
    made, x = between("a = Add (x, k) y = Sub (a, k)", dtype, dtype)
    fused = Fused(made, ort=False)
    with pytest.raises(AssertionError, match="numpy"):
        assert_same(fused.no_regions.run({"x": x}), fused.truth.run({"x": x}), "numpy in float32", own_scale=True)
    assert_same(fused.no_regions.run({"x": x}), fused.level_0.run({"x": x}), "level 0")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4028235e38, 0.1, 16777217.0])
def test_scalar_constants_in_code(value):
    """Scalars become part of the code, whatever they are."""
    given = {"k": np.float32(value)}
    made = model("g (float[N,W] x) => (float[N,W] y) { a = Add (x, k) b = Max (a, k) y = Mul (b, k) }", given)
    check(made, True)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integer_constants_are_exact(dtype):
    limit = np.iinfo(dtype)
    name = np.dtype(dtype).name
    for value in (limit.max, limit.min, limit.max - 1, 2**24 + 1):
        made = model(
            f"g ({name}[N,W] x) => ({name}[N,W] y, bool[N,W] m)"
            "{ a = Add (x, k) m = Less (a, k) b = Mul (a, k) y = Max (b, x) }",
            {"k": dtype(value)},
        )
        fused = Fused(made, ort=False)
        fused.assert_generated()
        x = np.array([[0, 1, -1, limit.max, limit.min, 7]], dtype)
        assert_same(fused.engine.run({"x": x}), fused.level_0.run({"x": x}), "level 0")


def test_double_constants_are_exact():
    made = model("g (double[N,W] x) => (double[N,W] y) { a = Mul (x, k) y = Sub (a, x) }", {"k": np.float64(1 / 3)})
    fused = Fused(made)
    fused.assert_generated()
    feeds = feeds_of(made, WIDE)
    assert difference(fused.engine.run(feeds)["y"], feeds["x"] * (1 / 3) - feeds["x"]) == ""
