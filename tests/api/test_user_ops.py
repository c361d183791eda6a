"""Ops of the user: they fuse, agree with their reference, and everything that tells of an engine names them."""

import threading

import deepjit
import numpy as np
import pytest
from onnx import parser
from user_op_models import HEAD, SWISH, model, swish


@pytest.fixture(autouse=True)
def nothing_registered():
    yield
    for name in deepjit.registered_ops():
        deepjit.forget_op(name)


def test_fuses_with_its_neighbours():
    report = deepjit.register_op("my.ops::Swish", reference=swish, **SWISH)
    assert report["with_reference"] and "float32" in report["generated"] and report["cases"] > 20
    made = model(
        "g (float[N,W] x, float[W] b) => (float[N,W] y)"
        "{ a = Relu (x) s = my.ops.Swish <alpha: float = 1.5> (a, b) y = Mul (s, x) }"
    )
    engine = deepjit.build(made, threads=1, force_tactic="llvm")
    launched = [step for step in engine.steps if step["tactic"].startswith("llvm")]
    assert len(launched) == 1 and launched[0]["op"] == "deepjit.Region"
    assert engine.why() == []
    rng = np.random.default_rng(0)
    for n, w in ((3, 17), (1, 64), (2, 1027)):
        x, b = rng.standard_normal((n, w), np.float32), rng.standard_normal(w, np.float32)
        want = swish(np.maximum(x, 0), b, 1.5) * x
        np.testing.assert_allclose(engine.run({"x": x, "b": b})["y"], want, rtol=1e-5, atol=1e-5)


def test_origins_name_the_users_node():
    deepjit.register_op("my.ops::Swish", check=False, **SWISH)
    made = model("g (float[4] x, float[4] b) => (float[4] y) { [mine] y = my.ops.Swish (x, b) }")
    engine = deepjit.build(made, threads=1)
    assert any("mine" in step["origins"] for step in engine.steps)
    assert "max(b, 0)" in engine.metadata["model.op.my.ops::Swish"]


def test_engines_name_the_op_in_all_they_tell(tmp_path):
    deepjit.register_op("my.ops::Swish", check=False, **SWISH)
    made = model(
        "g (float[N,8] x, float[8] b) => (float[N,8] y) <int64 one = {1}>"
        "{ a = Abs (x) [mine] s = my.ops.Swish (a, b) y = CumSum (s, one) }"
    )
    engine = deepjit.build(made, threads=1)
    engine.save(tmp_path / "m.dje")
    deepjit.forget_op("my.ops::Swish")
    for one in (engine, deepjit.load(tmp_path / "m.dje")):
        assert [s["op"] for s in one.steps if s["user_ops"] == ["my.ops::Swish"]][-1] == "deepjit.Region"
        assert all(s["user_ops"] == [] for s in one.steps if "mine" not in s["origins"])
        edges = [e for e in one.why() if e["consumer"][1] == "CumSum"]
        assert [e["producer_user_ops"] for e in edges] == [["my.ops::Swish"]] and not edges[0]["consumer_user_ops"]
        told = one.inspect().splitlines()
        assert any("deepjit.Region" in line and line.endswith(" of my.ops::Swish") for line in told)
        assert any("mine of my.ops::Swish -> " in line for line in told)


def test_nodes_with_names_of_any_kind_are_known():
    deepjit.register_op("my.ops::F", expression="x + 1", inputs="x", check=False)
    deepjit.register_op("my.ops::G", expression="x * 2", inputs="x", check=False)
    made = model("g (float[4] x) => (float[4] y) { a = my.ops.F (x) b = my.ops.G (a) c = Exp (b) y = my.ops.F (c) }")
    names = ["line\nbreak", "back\\slash\\n", "exp", "\\"]
    for node, name in zip(made.graph.node, names, strict=True):
        node.name = name
    steps = deepjit.build(made, threads=1, level=0, tune=False).steps
    told = {origin: step["user_ops"] for step in steps for origin in step["origins"]}
    assert told == {names[0]: ["my.ops::F"], names[1]: ["my.ops::G"], names[2]: [], names[3]: ["my.ops::F"]}


def test_in_bodies_and_functions():
    deepjit.register_op("my.ops::F", expression="x * k + 1", inputs="x", attributes={"k": 2}, check=False)
    made = parser.parse_model(f"""{HEAD[:-2]}, "local" : 1]>
        g (float[4] x, bool c) => (float[4] y) {{
            t = If (c) <then_branch = then () => (float[4] a) {{ a = my.ops.F (x) }},
                        else_branch = else () => (float[4] b) {{ b = local.Twice <k = 3.0> (x) }}>
            y = my.ops.F (t)
        }}
        <domain: "local", opset_import: ["" : 21, "my.ops" : 1]>
        Twice <k> (x) => (y) {{ t = my.ops.F <k: float = @k> (x) y = my.ops.F <k: float = @k> (t) }}
    """)
    x = np.arange(4, dtype=np.float32)
    engine = deepjit.build(made, threads=1)
    for condition, inner in ((True, 2 * x + 1), (False, 3 * (3 * x + 1) + 1)):
        got = engine.run({"x": x, "c": np.array(condition)})["y"]
        np.testing.assert_allclose(got, 2 * inner + 1)


def test_functions_within_the_model_come_first():
    deepjit.register_op("my.ops::F", expression="x + 1", inputs="x", check=False)
    made = parser.parse_model(f"""{HEAD}
        g (float[4] x) => (float[4] y) {{ y = my.ops.F (x) }}
        <domain: "my.ops", opset_import: ["" : 21]> F (x) => (y) {{ y = Neg (x) }}
    """)
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(deepjit.build(made, threads=1).run({"x": x})["y"], -x)


def test_small_attributes_keep_their_digits_in_the_metadata():
    options = {"expression": "x + e", "inputs": ["x"], "attributes": {"e": 1e-7, "k": 0.5, "n": 2}}
    deepjit.register_op("my.ops::Shift", check=False, **options)
    engine = deepjit.build(model("g (float[4] x) => (float[4] y) { y = my.ops.Shift (x) }"), threads=1)
    assert engine.metadata["model.op.my.ops::Shift"].startswith("Shift(x; e=1e-07, k=0.5, n=2): ")


def normalize(x, w, axis, epsilon):
    t = x.astype(np.float64)
    t = t - t.mean(axis=int(axis), keepdims=True)
    t = t / np.sqrt((t * t).mean(axis=int(axis), keepdims=True) + epsilon)
    return (t * w).astype(x.dtype)


@pytest.mark.parametrize("axis", [-1, -2, 0])
def test_row_expression(axis):
    deepjit.register_op(
        "my.ops::Norm",
        expression="t = x - mean(x)\ny = t * reciprocal(sqrt(mean(t * t) + epsilon)) * w",
        inputs=["x", "w"],
        attributes={"axis": axis, "epsilon": 1e-5},
        shape="x",
        reference=normalize,
        dtypes="float64",
        tolerance=1e-6,
    )
    made = model("g (double[N,5,7] x, double[7] w) => (double[N,5,7] y) { y = my.ops.Norm (x, w) }")
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((3, 5, 7)), rng.standard_normal(7)
    got = deepjit.build(made, threads=1).run({"x": x, "w": w})["y"]
    np.testing.assert_allclose(got, normalize(x, w, axis, 1e-5), rtol=1e-9, atol=1e-9)


def test_reductions_outputs_and_a_pattern():
    deepjit.register_op(
        "my.ops::Stats",
        expression="low = min_of(x); high = max_of(x); total = squeeze(sum(x))",
        inputs="x",
        outputs=["low", "high", "total"],
        shape="[..., C] -> [..., 1], [..., 1], [...]",
        reference=lambda x: (
            x.min(-1, keepdims=True),
            x.max(-1, keepdims=True),
            x.sum(-1, dtype=np.float64).astype(x.dtype),
        ),
        dtypes="float32",
    )
    made = model(
        "g (float[2,9] x) => (float[2,1] a, float[2,1] b, float[2] c) { a, b, c = my.ops.Stats (x) }",
    )
    x = np.random.default_rng(2).standard_normal((2, 9), np.float32)
    got = deepjit.build(made, threads=1).run({"x": x})
    np.testing.assert_array_equal(got["a"], x.min(-1, keepdims=True))
    np.testing.assert_array_equal(got["b"], x.max(-1, keepdims=True))
    np.testing.assert_allclose(got["c"], x.sum(-1), rtol=1e-5)


def test_conditions_types_and_powers():
    deepjit.register_op(
        "my.ops::Pick",
        expression="where(mask and not (x != x), x ** 2, where(strict > 0, nan, -1))",
        inputs=["x", "mask: bool"],
        attributes={"strict": 0},
        reference=lambda x, mask, strict: np.where(mask & (x == x), x * x, x.dtype.type(-1)),
    )
    made = model("g (float[3] x, bool[3] m) => (float[3] y) { y = my.ops.Pick <strict: int = 1> (x, m) }")
    x, mask = np.array([2, 3, np.nan], np.float32), np.array([True, False, True])
    got = deepjit.build(made, threads=1).run({"x": x, "m": mask})["y"]
    np.testing.assert_array_equal(got, np.array([4, np.nan, np.nan], np.float32))


@pytest.mark.parametrize("reference", [lambda x: x * x * x * x.dtype.type(1e-3), None], ids=["reference", "steps"])
def test_float16_that_overflows_between_steps(reference):
    """256 cubed does so step by step, and in a kernel not."""
    report = deepjit.register_op(
        "my.ops::Cube", expression="x * x * x * 0.001", inputs="x", reference=reference, dtypes="float16"
    )
    assert report["generated"] == ["float16"]
    with pytest.raises(deepjit.Error, match="the generated kernel|step by step"):
        deepjit.register_op(
            "my.ops::Cubes", expression="x * x * x * 0.001", inputs="x", dtypes="float16", reference=lambda x: x * 2
        )
    assert "my.ops::Cubes" not in deepjit.registered_ops()


def test_other_threads_see_an_op_when_it_has_passed():
    seen = []

    def reference(x):
        seen.append(list(deepjit.registered_ops()))
        return x + x

    deepjit.register_op("my.ops::Twice", expression="x + x", inputs="x", reference=reference, dtypes="float32")
    assert seen and not any(seen) and deepjit.registered_ops() == ["my.ops::Twice"]


def test_registering_twice():
    deepjit.register_op("my.ops::Swish", check=False, **SWISH)
    deepjit.register_op("my.ops::Swish", check=False, **SWISH)
    with pytest.raises(deepjit.Error, match="E803"):
        deepjit.register_op("my.ops::Swish", expression="x", inputs="x", check=False)
    made = model("g (float[2] x, float[2] b) => (float[2] y) { y = my.ops.Swish (x, b) }")
    feeds = {"x": np.ones(2, np.float32), "b": np.ones(2, np.float32)}
    before = deepjit.build(made, threads=1)
    other = {**SWISH, "expression": "x - b + alpha"}
    deepjit.register_op("my.ops::Swish", check=False, replace=True, **other)
    np.testing.assert_allclose(deepjit.build(made, threads=1).run(feeds)["y"], [1, 1])
    np.testing.assert_allclose(before.run(feeds)["y"], swish(**feeds, alpha=1.0), rtol=1e-5)


def test_changed_definition_with_a_tuning_cache(tmp_path):
    made = model("g (float[64] x) => (float[64] y) { a = my.ops.F (x) y = Abs (a) }")
    x = np.linspace(-2, 2, 64, dtype=np.float32)
    for factor in (2, 3):
        deepjit.register_op("my.ops::F", expression=f"x * {factor} + 1", inputs="x", check=False, replace=True)
        engine = deepjit.build(made, threads=1, tune_cache=tmp_path, force_tactic="llvm")
        np.testing.assert_allclose(engine.run({"x": x})["y"], np.abs(x * factor + 1), rtol=1e-6)


def test_integers_and_bools():
    twice = deepjit.register_op(
        "my.ops::Ints",
        expression="max(2 * x - 3, -5)",
        inputs="x",
        dtypes=["int32", "int64"],
        reference=lambda x: np.maximum(2 * x - 3, -5),
    )
    assert twice["largest_error"] == 0 and twice["generated"] == ["int32", "int64"]
    deepjit.register_op("my.ops::Not", expression="not x", inputs="x", dtypes="bool", reference=np.logical_not)
    deepjit.register_op(
        "my.ops::Is",
        expression="where(m == 1, x, 0)",
        inputs=["x", "m: bool"],
        reference=lambda x, m: np.where(m, x, x.dtype.type(0)),
    )


@pytest.mark.parametrize("expression", ["mean(x * x)", "sqrt(sum(x * x))", "x * reciprocal(mean(abs(x)) + 1)"])
def test_rows_of_large_values_are_no_false_alarm(expression):
    assert deepjit.register_op("my.ops::Row", expression=expression, inputs="x")["cases"] == 45


def test_doctor_knows_it():
    made = model("g (float[4] x, float[4] b) => (float[4] y) { y = my.ops.Swish (x, b) }")
    found = [finding.message for finding in deepjit.doctor(made) if finding.rule == "DJ121"]
    assert len(found) == 1 and found[0].startswith('"my.ops::Swish" is a custom operator')
    deepjit.register_op("my.ops::Swish", check=False, **SWISH)
    assert "DJ121" not in {finding.rule for finding in deepjit.doctor(made)}


def test_threads_register_and_build():
    made = model("g (float[8] x) => (float[8] y) { y = my.ops.T (x) }")
    deepjit.register_op("my.ops::T", expression="x + 1", inputs="x", check=False)
    faults = []

    def work(number: int) -> None:
        try:
            deepjit.register_op(f"my.ops::T{number}", expression=f"x + {number}", inputs="x", check=False)
            got = deepjit.build(made, threads=1, tune=False).run({"x": np.zeros(8, np.float32)})["y"]
            assert (got == 1).all()
        except Exception as e:  # noqa: BLE001
            faults.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults and len(deepjit.registered_ops()) == 7
