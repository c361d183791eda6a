"""Several small kernels in one launch: which join, that the numbers keep every bit, and that memory does not grow."""

import json
import subprocess
from dataclasses import dataclass, field

import deepjit
import numpy as np
import onnx
import pytest
from fused import CLI, REGION, assert_equal_bits, assert_same, feeds_of, launches, model, nodes
from fusion_case import AXES, draw
from onnx import TensorProto, helper
from random_regions import RandomGraph

OFF = ["combos"]
AXES_2 = {"two": AXES["two"], "one": AXES["one"]}


def build(made, combos: bool = True, **options):
    off = [] if combos else OFF
    options = {"threads": 1, "force_tactic": "llvm", **options}
    return deepjit.build(made, **{**options, "disable": [*options.get("disable", ()), *off]})


@dataclass
class Case:
    name: str
    text: str
    apart: int  # launches without combos
    joint: int = 1
    constants: dict = field(default_factory=dict)
    dims: tuple = ({"N": 3}, {"N": 1}, {"N": 17}, {"N": 400}, {"N": 0})

    def __str__(self):
        return self.name.replace(" ", "-")


SOFTMAXES = nodes("v{i} = Softmax <axis = 1> (u{i}) u{i}x = Softmax <axis = 2> (v{i})", 15)
for _i in range(15, 0, -1):
    SOFTMAXES = SOFTMAXES.replace(f"(u{_i})", f"(u{_i - 1}x)" if _i > 1 else "(x)")
CASES = [
    Case(
        "equal siblings",
        "g (float[N,8] x, float[N,8] z) => (float[N,8] y, float[N,8] w) { y = Tanh (x) w = Sigmoid (z) }",
        2,
    ),
    Case(
        "siblings of other shapes",
        "g (float[N,8] x, float[3,M,5] z, float v) => (float[N,8] y, float[3,M,5] w, float u)"
        "{ y = Tanh (x) w = Sigmoid (z) u = Exp (v) }",
        3,
        dims=({"N": 3, "M": 2}, {"N": 0, "M": 7}, {"N": 5, "M": 0}, {"N": 3000, "M": 40}, {"N": 1, "M": 5000}),
    ),
    Case(
        "rows beside points",
        "g (float[N,W] x, float[N,4] z) => (float[N,W] y, float[N,4] w, float[N,1] s)"
        "{ y = Softmax (x) w = Exp (z) a = Neg (z) s = ReduceSum (a, one) }",
        3,
        constants=AXES_2,
        dims=({"N": 3, "W": 17}, {"N": 1, "W": 1}, {"N": 5, "W": 0}, {"N": 0, "W": 3}, {"N": 900, "W": 300}),
    ),
    Case(
        "siblings of one input",
        "g (float[N,8] x) => (float[N,8] y, float[N,1] w)"
        "{ a = Softmax <axis = 0> (x) b = Softmax <axis = 1> (x) y = Mul (a, b) w = ReduceMax (b, one) }",
        2,
        constants=AXES_2,
        dims=({"N": 3}, {"N": 1}, {"N": 17}, {"N": 400}),
    ),
    Case("thirty that need each other", f"g (float[N,4,6] x) => (float[N,4,6] u15x) {{ {SOFTMAXES} }}", 30),
    Case(
        "a view between",
        "g (float[N,4,6] x) => (float[N,24] y)"
        "{ a = Softmax (x) r = Reshape (a, shape) s = Softmax (r) t = Exp (r) y = Sub (s, t) }",
        2,
        constants={"shape": np.array([-1, 24])},
        dims=({"N": 3}, {"N": 1}, {"N": 400}),
    ),
    Case(
        "a view that is an output",
        "g (float[N,4,6] x) => (float[N,24] r, float[N,24] y)"
        "{ a = Softmax (x) r = Reshape (a, shape) y = Softmax (r) }",
        2,
        2,
        {"shape": np.array([-1, 24])},
        ({"N": 3}, {"N": 1}, {"N": 400}),
    ),
    Case(
        "a foreign op in the middle",
        "g (float[N,4,4] x) => (float[N,4,4] y)"
        "{ a = Softmax <axis = 1> (x) b = Softmax <axis = 2> (a) m = CumSum (b, k)"
        " c = Softmax <axis = 1> (m) y = Softmax <axis = 2> (c) }",
        5,
        3,
        {"k": np.array(1)},
        ({"N": 3}, {"N": 1}, {"N": 400}),
    ),
]


def shapes_of(made, dims: dict) -> dict:
    return {name: array.shape for name, array in feeds_of(made, dims).items()}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_joint_and_apart(case, threads, tmp_path):
    made = model(case.text, case.constants)
    joint, apart = build(made, threads=threads), build(made, combos=False, threads=threads)
    shapes = shapes_of(made, case.dims[0])
    assert (launches(apart, shapes, tmp_path), launches(joint, shapes, tmp_path)) == (case.apart, case.joint)
    level_0 = deepjit.build(made, level=0, tune=False, threads=1)
    for seed, dims in enumerate(case.dims):
        feeds = feeds_of(made, dims, seed=seed)
        got = joint.run(feeds)
        assert_equal_bits(got, apart.run(feeds))
        assert_same(got, level_0.run(feeds), "level 0")
        hard = feeds_of(made, dims, hard=True, seed=seed)
        assert_equal_bits(joint.run(hard), apart.run(hard))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_in_16_bits(case, dtype, tmp_path):
    """What one kernel hands to another is rounded, in one launch as in two: the combo is verified so."""
    made = model(case.text.replace("float", dtype), case.constants)
    joint, apart = build(made), build(made, combos=False)
    shapes = shapes_of(made, case.dims[0])
    assert (launches(apart, shapes, tmp_path), launches(joint, shapes, tmp_path)) == (case.apart, case.joint)
    for seed, dims in enumerate(case.dims):
        for hard in (False, True):
            feeds = feeds_of(made, dims, hard, seed)
            assert_equal_bits(joint.run(feeds), apart.run(feeds))


@pytest.mark.parametrize("seed", range(24))
def test_random_graphs(seed):
    graph = RandomGraph(seed)
    made = graph.model()
    joint, apart = (build(made, combos, ranges=graph.ranges()) for combos in (True, False))
    for k, dims in enumerate(graph.dims(3)):
        feeds = feeds_of(made, dims, seed=k)
        assert_equal_bits(joint.run(feeds), apart.run(feeds))


def inspected(engine, folder, *words) -> dict:
    engine.save(folder / "m.dje")
    done = subprocess.run(
        [str(w) for w in [CLI, "inspect", folder / "m.dje", "--json", *words]],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_memory_is_that_of_the_kernels_apart(tmp_path):
    """A value between two kernels of one launch lives no longer than between two launches."""
    made = model(next(case.text for case in CASES if case.apart == 30))
    needs = []
    for combos in (True, False):
        plan = inspected(build(made, combos), tmp_path, "--plan", "--shapes", "x=7x4x6")["plan"]
        needs.append(plan["arena_bytes"])
    assert needs[0] == needs[1] > 0


def test_large_kernels_stay_apart(tmp_path):
    """Sizes decide at the shapes tuned for; an engine is right at all others."""
    made = model("g (float[N,8] x, float[N,8] z) => (float[N,8] y, float[N,8] w) { y = Tanh (x) w = Sigmoid (z) }")
    for n, count in ((16, 1), (100_000, 2)):
        engine = build(made, ranges={"x": ((1, 8), (n, 8), (200_000, 8)), "z": ((1, 8), (n, 8), (200_000, 8))})
        assert launches(engine, {"x": (4, 8), "z": (4, 8)}, tmp_path) == count


def test_what_switches_them_off(tmp_path):
    made = model(CASES[0].text)
    shapes = {"x": (3, 8), "z": (3, 8)}
    for options in ({"disable": OFF}, {"disable": ["regions"]}, {"level": 1}, {"tune": False}):
        assert launches(deepjit.build(made, threads=1, **options), shapes, tmp_path) == 2


def test_what_the_ledger_says(tmp_path):
    made = model(next(case.text for case in CASES if case.name == "a view between"), CASES[5].constants)
    joint, apart = build(made), build(made, combos=False)
    pairs = list(zip(joint.why(), apart.why(), strict=True))
    assert sum(before["launches"] for _, before in pairs) == 1
    for told, before in pairs:
        same = ("value", "producer", "consumer", "rule", "bytes", "fix")
        assert [told[key] for key in same] == [before[key] for key in same]
        assert told["launches"] == 0 and told["reason"] == before["reason"] + "; both kernels run in one launch"
    found = inspected(joint, tmp_path)
    assert found["launches"] == 1 and sum(found["tactics"].values()) == 1
    ((index, combo),) = [(i, s) for i, s in enumerate(found["steps"]) if "&" in s["name"]]
    inside = [s for s in found["steps"] if s["op"] == REGION and s is not combo]
    assert len(inside) == 2 and {s["runs"] for s in inside} == {f"in step {index}"}


def test_saved_and_loaded():
    made = model(CASES[2].text, CASES[2].constants)
    engine = build(made)
    feeds = feeds_of(made, {"N": 4, "W": 33})
    assert_equal_bits(deepjit.load(engine.serialize()).run(feeds), engine.run(feeds))


def test_lockfile(tmp_path):
    made = model(CASES[4].text)
    options = {"threads": 1, "lock": tmp_path / "m.lock"}
    first = deepjit.build(made, force_tactic="llvm", **options)
    again = deepjit.build(made, **options)
    assert again.report["tuning"]["measured"] == 0
    assert again.steps == first.steps and again.serialize() == first.serialize()


def test_in_a_loop(tmp_path):
    """v = x; n times: two softmaxes over different axes, and a sibling of them that is collected."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Softmax", ["v"], ["a"], axis=0),
            helper.make_node("Softmax", ["a"], ["b"], axis=1),
            helper.make_node("Add", ["b", "x"], ["v_out"]),
            helper.make_node("ReduceMax", ["v"], ["seen"], keepdims=0),
            helper.make_node("Identity", ["go"], ["go_out"]),
        ],
        "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("v", 1, ["R", 5])],
        [info("go_out", TensorProto.BOOL, []), info("v_out", 1, ["S", 5]), info("seen", 1, [])],
    )
    made = model("g (float[N,5] x, int64 n) => (float[P,5] y, float[Q] c) { y = Exp (x) }")
    del made.graph.node[0]
    made.graph.node.append(helper.make_node("Loop", ["n", "", "x"], ["y", "c"], body=body))
    joint, apart = build(made), build(made, combos=False)
    level_0 = deepjit.build(made, level=0, tune=False, threads=1)
    assert sum("&" in step["name"] for step in joint.steps) == 1
    for turns in (0, 1, 4):
        for n in (1, 3, 700):
            feeds = {"x": draw(n, 5), "n": np.array(turns)}
            assert_equal_bits(joint.run(feeds), apart.run(feeds))
            assert_same(joint.run(feeds), level_0.run(feeds), "level 0")


def test_outputs_between_and_at_the_end(tmp_path):
    """Values that later kernels of the launch read may be outputs too, and one value several."""
    made = model(
        "g (float[N,4,6] x) => (float[N,4,6] a, float[N,4,6] b, float[N,4,6] c, float[N,4,6] d)"
        "{ a = Softmax <axis = 1> (x) b = Softmax <axis = 2> (a) c = Softmax <axis = 1> (b) d = Identity (b) }"
    )
    joint, apart = build(made), build(made, combos=False)
    for n in (1, 5, 0):
        feeds = feeds_of(made, {"N": n})
        assert_equal_bits(joint.run(feeds), apart.run(feeds))


def test_too_many_for_one(tmp_path):
    names = [f"x{i}" for i in range(70)]
    made = model(
        f"g ({', '.join(f'float[N,{i + 1}] {n}' for i, n in enumerate(names))}) => "
        f"({', '.join(f'float[N,{i + 1}] y{i}' for i in range(70))}) "
        f"{{ {' '.join(f'y{i} = Exp ({n})' for i, n in enumerate(names))} }}"
    )
    assert isinstance(made, onnx.ModelProto)
    engine = build(made)
    feeds = feeds_of(made, {"N": 2})
    assert launches(engine, {name: array.shape for name, array in feeds.items()}, tmp_path) == 2
    assert_same(engine.run(feeds), deepjit.build(made, level=0, tune=False).run(feeds), "level 0")
