"""Wrong inputs to a good engine, misuse of a context, and what a failed run leaves behind: nothing."""

import os
import subprocess
import sys
import threading

import deepjit
import numpy as np
import pytest
from bad_models import good, model, node, value
from expect import expect, expect_no_leak
from onnx import TensorProto, numpy_helper

RANGES = {"x": ((1, 3), (2, 3), (4, 3))}


@pytest.fixture(scope="module")
def engine():
    return deepjit.build(good().SerializeToString(), ranges=RANGES)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


BAD_FEEDS = {
    "nothing": (501, {}, "x"),
    "unknown_input": (501, {"x": floats(1, 3), "ghost": floats(1)}, "ghost"),
    "other_name": (501, {"X": floats(1, 3)}, "x"),
    "double": (502, {"x": floats(1, 3).astype(np.float64)}, "x"),
    "int64": (502, {"x": np.ones((1, 3), np.int64)}, "x"),
    "objects": (502, {"x": np.array([[1.0, None, 2.0]], dtype=object)}, "x"),
    "other_byte_order": (502, {"x": floats(1, 3).astype(">f4")}, "x"),
    "rank_too_low": (503, {"x": floats(3)}, "x"),
    "rank_too_high": (503, {"x": floats(1, 1, 3)}, "x"),
    "fixed_dim_differs": (503, {"x": floats(1, 4)}, "x"),
    "below_the_range": (504, {"x": floats(0, 3)}, "x"),
    "above_the_range": (504, {"x": floats(5, 3)}, "x"),
}


@pytest.mark.parametrize("name", BAD_FEEDS)
def test_bad_feeds(engine, name):
    code, feeds, word = BAD_FEEDS[name]
    expect(code, lambda: engine.run(feeds), word)


def test_an_engine_works_after_every_failure(engine):
    x = floats(2, 3)
    want = engine.run({"x": x})["y"]
    context = engine.create_context()
    for code, feeds, _ in BAD_FEEDS.values():
        expect(code, lambda feeds=feeds: context.run(feeds))
        np.testing.assert_array_equal(context.run({"x": x})["y"], want)


def test_strided_input_is_taken_as_it_is(engine):
    x = floats(4, 6)
    np.testing.assert_array_equal(
        engine.run({"x": x[::2, ::2]})["y"], engine.run({"x": np.ascontiguousarray(x[::2, ::2])})["y"]
    )


def test_shapes_that_disagree_with_each_other():
    nodes = [node("Add", ["a", "b"], ["y"])]
    made = model(nodes, [value("a", ["N"]), value("b", ["N"])], [value("y", ["N"])])
    both = deepjit.build(made.SerializeToString(), ranges=dict.fromkeys("ab", ((1,), (2,), (4,))))
    expect(503, lambda: both.run({"a": floats(2), "b": floats(3)}))


def by_index(op: str, **attributes):
    data = numpy_helper.from_array(floats(5, 3), "table")
    index = value("i", [2, 2] if op != "GatherND" else [2, 1], TensorProto.INT64)
    made = model([node(op, ["table", "i"], ["y"], **attributes)], [index], [value("y", None)], [data])
    return deepjit.build(made.SerializeToString())


@pytest.mark.parametrize("index", [5, -6, 1 << 40, -(1 << 62)])
@pytest.mark.parametrize("op", ["Gather", "GatherElements", "GatherND"])
def test_index_out_of_range(op, index):
    engine = by_index(op)
    shape = (2, 1) if op == "GatherND" else (2, 2)
    indices = np.zeros(shape, dtype=np.int64)
    engine.run({"i": indices})
    indices[1, -1] = index
    expect(505, lambda: engine.run({"i": indices}))
    engine.run({"i": np.full(shape, -5)})  # counts from the end, in range


@pytest.mark.parametrize("index", [4, -5, 1 << 40])
def test_scatter_index_out_of_range(index):
    inputs = [value("x", [4, 2]), value("i", [1, 2], TensorProto.INT64), value("u", [1, 2])]
    made = model([node("ScatterElements", ["x", "i", "u"], ["y"], axis=0)], inputs, [value("y", [4, 2])])
    engine = deepjit.build(made.SerializeToString())
    feeds = {"x": floats(4, 2), "i": np.array([[0, index]]), "u": floats(1, 2)}
    expect(505, lambda: engine.run(feeds))


def test_reshape_at_run_time_to_another_count():
    inputs = [value("x", [2, 3]), value("s", [2], TensorProto.INT64)]
    made = model([node("Reshape", ["x", "s"], ["y"])], inputs, [value("y", None)])
    engine = deepjit.build(made.SerializeToString())
    assert engine.run({"x": floats(2, 3), "s": np.array([3, 2])})["y"].shape == (3, 2)
    expect(203, lambda: engine.run({"x": floats(2, 3), "s": np.array([4, 2])}))


def slow_engine(size: int = 768, steps: int = 12):
    """A chain of products that takes a while."""
    nodes = [node("MatMul", [f"v{k}", "w"], [f"v{k + 1}"], f"n{k}") for k in range(steps)]
    weights = numpy_helper.from_array((floats(size, size) / np.sqrt(size)).astype(np.float32), "w")
    made = model(nodes, [value("v0", [size, size])], [value(f"v{steps}", [size, size])], [weights])
    return deepjit.build(made.SerializeToString(), threads=1), {"v0": floats(size, size)}


def test_one_context_in_two_threads_is_refused_or_right():
    engine, feeds = slow_engine()
    want = next(iter(engine.run(feeds).values()))
    context = engine.create_context()
    start = threading.Barrier(4)
    errors, results = [], []

    def work():
        start.wait()
        for _ in range(5):
            try:
                results.append(next(iter(context.run(feeds).values())))
            except deepjit.Error as error:
                errors.append(error.code)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert set(errors) == {801}, "four threads on one context were never refused"
    assert results
    for got in results:
        np.testing.assert_array_equal(got, want)


def test_one_context_a_thread_is_right():
    engine, feeds = slow_engine(size=128)
    want = next(iter(engine.run(feeds).values()))
    failures = []

    def work():
        context = engine.create_context()
        for _ in range(20):
            try:
                np.testing.assert_array_equal(next(iter(context.run(feeds).values())), want)
            except Exception as error:  # reported below, in the main thread
                failures.append(repr(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []


FORK = """
import os, sys
sys.path.insert(0, sys.argv[1])
import deepjit, numpy as np
from bad_models import good
context = deepjit.build(good().SerializeToString()).create_context()
feeds = {"x": np.ones((2, 3), np.float32)}
context.run(feeds)
child = os.fork()
if child == 0:
    try:
        context.run(feeds)
    except deepjit.Error as error:
        os._exit(0 if error.code == 802 else 3)
    os._exit(4)
_, status = os.waitpid(child, 0)
context.run(feeds)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_context_in_a_forked_child_is_refused():
    command = [sys.executable, "-c", FORK, os.path.dirname(__file__)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"exit code {done.returncode} (3: another error, 4: it ran)\n{done.stderr}"


def test_200_failed_runs_leak_nothing(engine):
    context = engine.create_context()

    def fail_all():
        for _, feeds, _ in BAD_FEEDS.values():
            with pytest.raises(deepjit.Error):
                context.run(feeds)

    expect_no_leak(fail_all)


def test_200_contexts_and_engines_leak_nothing(tmp_path):
    path = str(tmp_path / "m.dje")
    deepjit.build(good().SerializeToString(), ranges=RANGES).save(path)

    def cycle():
        deepjit.load(path).create_context().run({"x": floats(2, 3)})

    expect_no_leak(cycle, mib=8)
