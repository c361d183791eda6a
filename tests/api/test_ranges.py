"""Several shape ranges in one engine: each tuned by itself, chosen by the shapes of a run, sharing what is equal."""

import deepjit
import numpy as np
import pytest
from onnx import helper, numpy_helper
from small_models import conv_relu, image, model, reference, value

ONE = ((1, 3, 8, 8), (1, 3, 8, 8), (2, 3, 8, 8))
MANY = ((3, 3, 8, 8), (16, 3, 8, 8), (32, 3, 8, 8))


def conv_of(engine, of_range: int) -> str:
    (step,) = [s for s in engine.steps_of(of_range) if "Conv" in s["op"]]
    return step["tactic"]


def reference_in(lock: str, alone: str) -> str:
    """The lockfile with the reference for what a build of one range alone chose for its convolution."""
    fingerprints = [line.split()[0] for line in alone.splitlines() if "Conv" in line]
    lines = []
    for line in lock.splitlines():
        words = line.split()
        if words[0] in fingerprints:
            words[2] = "reference"
        lines.append(" ".join(words))
    return "\n".join(lines) + "\n"


def test_each_range_has_tactics_of_its_own(tmp_path):
    """A lockfile decides the convolution of each range: of the first the reference, of the second a library's."""
    both = deepjit.build(conv_relu(), ranges={"x": [ONE, MANY]}, force_tactic="onednn")
    alone = deepjit.build(conv_relu(), ranges={"x": ONE}, force_tactic="onednn")
    lock = tmp_path / "m.lock"
    lock.write_text(reference_in(both.lock_text, alone.lock_text))
    engine = deepjit.build(conv_relu(), ranges={"x": [ONE, MANY]}, lock=lock)
    assert engine.report["tuning"]["measured"] == 0
    assert conv_of(engine, 0) == "reference" and conv_of(engine, 1).startswith("onednn")
    loaded = deepjit.load(engine.serialize())
    assert loaded.serialize() == engine.serialize()
    for built in (engine, loaded):
        context = built.create_context()
        for n in (1, 2, 3, 16, 32, 31, 2, 3):
            feeds = {"x": image(n)}
            np.testing.assert_allclose(
                context.run(feeds)["y"], reference(conv_relu(), feeds)["y"], rtol=1e-4, atol=1e-5
            )
    for n, tactic in ((2, "reference"), (7, conv_of(engine, 1))):
        told = loaded.profile({"x": image(n)}, iterations=3, warm_up=0)
        ran = [s["provider"] for s in told["steps"] if "Conv" in s["op"] and s["calls"]]
        assert ran == [tactic.split(":")[0]]
    assert "range 2: x [3,3,8,8] to [32,3,8,8]" in loaded.inspect()


def test_what_ranges_share_is_held_once():
    one = deepjit.build(conv_relu(), ranges={"x": ONE}, force_tactic="onednn")
    two = deepjit.build(conv_relu(), ranges={"x": [ONE, MANY]}, force_tactic="onednn")
    assert len(two.ranges) == 2 and conv_of(two, 0) == conv_of(two, 1) == conv_of(one, 0)
    assert two.report["weight_bytes"] == one.report["weight_bytes"]
    assert two.memory_use({"x": (2, 3, 8, 8)})["constants"] == one.memory_use({"x": (2, 3, 8, 8)})["constants"]


def test_ranges_are_told():
    engine = deepjit.build(conv_relu(), ranges={"x": [ONE, MANY]}, tune=False)
    assert engine.ranges == [{"x": ONE}, {"x": MANY}]
    assert engine.inputs[0].range == ONE and engine.inputs[0].shape == ("N", 3, 8, 8)
    assert engine.memory_use()["outputs"] == 32 * 4 * 8 * 8 * 4
    assert deepjit.build(conv_relu(), ranges={"x": ONE}, tune=False).ranges == [{"x": ONE}]
    assert deepjit.build(conv_relu(), tune=False).ranges == [{}]
    with pytest.raises(deepjit.Error) as told:
        engine.steps_of(2)
    assert told.value.code == 804 and "2 ranges" in told.value.message


def test_a_shape_outside_names_the_ranges():
    engine = deepjit.build(conv_relu(), ranges={"x": [ONE, ((8, 3, 8, 8),) * 3]}, tune=False)
    for n in (3, 7, 9):
        with pytest.raises(deepjit.Error) as told:
            engine.run({"x": image(n)})
        assert told.value.code == 504
        assert "x [1,3,8,8] to [2,3,8,8]; or x [8,3,8,8] to [8,3,8,8]" in told.value.message
    assert engine.run({"x": image(8)})["y"].shape == (8, 4, 8, 8)


def two_inputs():
    """y = x * m + 1 over x[N,8] and m[M]."""
    nodes = [
        helper.make_node("ReduceMean", ["m"], ["s"], keepdims=0),
        helper.make_node("Mul", ["x", "s"], ["p"]),
        helper.make_node("Add", ["p", "one"], ["y"]),
    ]
    one = numpy_helper.from_array(np.ones(8, np.float32), "one")
    return model(nodes, [value("x", ["N", 8]), value("m", ["M"])], [value("y", ["N", 8])], [one])


def fixed(*shape):
    return (shape,) * 3


def test_the_kth_ranges_of_all_inputs_belong_together():
    x = [fixed(1, 8), fixed(2, 8), fixed(4, 8)]
    engine = deepjit.build(two_inputs(), ranges={"x": x, "m": ((1,), (2,), (9,))}, tune=False)
    assert engine.ranges == [{"x": one, "m": ((1,), (2,), (9,))} for one in x]
    feeds = {"x": np.ones((4, 8), np.float32), "m": np.full(5, 3, np.float32)}
    np.testing.assert_array_equal(engine.run(feeds)["y"], np.full((4, 8), 4, np.float32))
    paired = deepjit.build(two_inputs(), ranges={"x": x[:2], "m": [fixed(3), fixed(5)]}, tune=False)
    with pytest.raises(deepjit.Error) as told:
        paired.run({"x": np.ones((1, 8), np.float32), "m": np.ones(5, np.float32)})
    assert told.value.code == 504 and "together" in told.value.message
    with pytest.raises(deepjit.Error) as told:
        deepjit.build(two_inputs(), ranges={"x": x, "m": [fixed(3), fixed(5)]}, tune=False)
    assert told.value.code == 804 and "has 2 ranges" in told.value.message + "has 3 ranges"


@pytest.mark.parametrize(
    "ranges", [[ONE, (1, 3, 8, 8)], [ONE, ONE[:2]], [ONE, (ONE,)], [[]], [ONE, [(1, 3), (1, 3, 8, 8)]]]
)
def test_a_list_of_ranges_is_one_of_triples(ranges):
    with pytest.raises(deepjit.Error) as told:
        deepjit.build(conv_relu(), ranges={"x": ranges}, tune=False)
    assert told.value.code == 804


def test_a_budget_is_shared():
    engine = deepjit.build(conv_relu(), ranges={"x": [ONE, MANY]}, budget=1e-6)
    assert engine.report["tuning"]["out_of_budget"] >= 2
    for n in (1, 16):
        feeds = {"x": image(n)}
        np.testing.assert_allclose(engine.run(feeds)["y"], reference(conv_relu(), feeds)["y"], rtol=1e-4, atol=1e-5)


def test_ranges_add_to_one_lockfile_and_cache(tmp_path):
    """What another build measured is not measured again; kernels of regions are compiled once for all ranges."""
    first = deepjit.build(conv_relu(), ranges={"x": ONE}, tune_cache=tmp_path)
    both = deepjit.build(conv_relu(), ranges={"x": [ONE, MANY]}, tune_cache=tmp_path)
    alone = deepjit.build(conv_relu(), ranges={"x": MANY}, tune_cache=tmp_path)
    assert both.report["tuning"]["reused"] >= first.report["tuning"]["measured"] > 0
    assert alone.report["tuning"]["measured"] == 0
    lines = {line.split()[0] for line in both.lock_text.splitlines()}
    assert lines == {line.split()[0] for built in (first, alone) for line in built.lock_text.splitlines()}
