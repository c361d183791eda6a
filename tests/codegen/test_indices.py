"""Indices of a run that lie outside: an error that tells the step and the index, and an engine that goes on."""

import deepjit
import numpy as np
import pytest
from fused import Fused, assert_equal_bits, feeds_of, model
from fusion_case import draw

TABLE = {"table": draw(11, 24)}
EMBEDDED = "g (int64[N,S] t) => (float[N,S,24] y) { e = Gather (table, t) y = Neg (e) }"


def fails(engine, feeds: dict, *words: str) -> None:
    with pytest.raises(deepjit.Error) as caught:
        engine.run(feeds)
    assert caught.value.name == "INDEX_RANGE"
    for word in words:
        assert word in str(caught.value), caught.value


def step_by_step(fused: Fused):
    return deepjit.build(fused.made, tune=False, threads=1)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("place", [0, 16, 50])
@pytest.mark.parametrize("index", [11, -12, 2**40, -(2**63)])
def test_an_index_outside(index, place, threads):
    fused = Fused(model(EMBEDDED, TABLE), threads=threads)
    fused.assert_generated()
    good = feeds_of(fused.made, {"N": 3, "S": 17})
    before = fused.compare(good)
    bad = {"t": good["t"].copy()}
    bad["t"].flat[place] = index
    for engine in (fused.engine, fused.level_0, step_by_step(fused)):
        fails(engine, bad, 'node "Gather_0" (Gather): ', f"index {index} is out of range [-11, 10]")
    assert_equal_bits(fused.engine.run(good), before)


@pytest.mark.parametrize("index", [10, -11])
def test_the_limits_themselves(index):
    fused = Fused(model(EMBEDDED, TABLE))
    fused.compare({"t": np.full((2, 3), index)})


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_narrow_indices_outside(dtype):
    text = f"g ({dtype}[N] t) => (float[N,24] y) {{ i = Cast <to = 7> (t) e = Gather (table, i) y = Neg (e) }}"
    fused = Fused(model(text, TABLE))
    fused.assert_generated()
    assert len(fused.regions) == 1
    fused.compare({"t": np.array([10, -11, 0], dtype)})
    fails(fused.engine, {"t": np.array([0, 11, 0], dtype)}, "Gather_1", "index 11 ")


def test_outside_of_an_open_dim():
    """What lies inside at one size lies outside at another."""
    made = model("g (float[V,4] x, int64[N] t) => (float[N,4] y) { a = Abs (x) e = Gather (a, t) y = Neg (e) }")
    fused = Fused(made)
    fused.assert_generated()
    assert len(fused.regions) == 1
    t = np.array([4, -5])
    fused.compare({"x": draw(5, 4), "t": t})
    fails(fused.engine, {"x": draw(4, 4), "t": t}, "index 4 is out of range [-4, 3]")
    fails(fused.engine, {"x": draw(0, 4), "t": t}, "index 4 ")
    fused.compare({"x": draw(0, 4), "t": np.zeros(0, np.int64)})


def test_elements_outside():
    text = "g (float[N,6] x, int64[N,2] i) => (float[N,2] y) { e = GatherElements <axis = 1> (x, i) y = Neg (e) }"
    made = model(text)
    fused = Fused(made)
    fused.assert_generated()
    good = {"x": draw(3, 6), "i": np.array([[0, -6], [5, 1], [2, 2]])}
    fused.compare(good)
    fails(fused.engine, {**good, "i": good["i"] + 1}, "index 6 ")
    fused.compare(good)


@pytest.mark.parametrize("threads", [1, 2])
def test_indices_that_a_kernel_of_the_same_launch_makes(threads):
    """A sum is no index that is known to lie inside: it is written first, and looked through before it is used."""
    made = model(
        "g (int64[N,S] t, int64[N,S] d) => (int64[N,S] i, float[N,S,24] y)"
        "{ i = Add (t, d) e = Gather (table, i) y = Neg (e) }",
        TABLE,
    )
    joint = deepjit.build(made, force_tactic="llvm", threads=threads)
    assert [step["tactic"][:5] for step in joint.steps if "&" in step["name"]] == ["llvm:"]
    reference = deepjit.build(made, level=0, tune=False)
    good = {"t": np.array([[3, -3, 4]]), "d": np.array([[7, -8, 1]])}
    assert_equal_bits(joint.run(good), reference.run(good))
    fails(joint, {**good, "t": good["t"] + 1}, "Gather_1", "index 11 ")
    fails(joint, {**good, "t": good["t"] - 1}, "Gather_1", "index -12 ")
    assert_equal_bits(joint.run(good), reference.run(good))
    large = {"t": np.full((400, 300), -11), "d": np.full((400, 300), 21)}
    assert_equal_bits(joint.run(large), reference.run(large))
    fails(joint, {**large, "t": large["t"] + 1}, "index 11 ")
