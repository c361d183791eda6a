"""Engines with several shape ranges on the stand-in GPU; run by test_stand_in_gpu.py."""

import os
import subprocess
import sys

import deepjit
import model_feeds
import models
import numpy as np
import pytest
from onnx import numpy_helper, parser

ONE = ((1, 64), (1, 64), (3, 64))
MANY = ((4, 64), (100, 64), (300, 64))
TEXT = "g (float[N,64] x) => (float[N,64] y) { a = MatMul (x, w) b = Tanh (a) s = Softmax (b) y = Add (s, x) }"


def made():
    built = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {TEXT}')
    weights = np.random.default_rng(3).standard_normal((64, 64)).astype(np.float32) / 8
    built.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return built


def rows(n: int) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, 64)).astype(np.float32)


@pytest.fixture(scope="module")
def both():
    return deepjit.build(
        made(), device="cuda", targets="sm_90", ranges={"x": [ONE, MANY]}, tune=False, device_only=True
    )


def test_every_range_agrees_with_the_cpu(both):
    on_cpu = deepjit.build(made(), tune=False)
    context = both.create_context()
    for n in (1, 4, 1, 3, 300, 4, 7, 300, 1, 100):  # the second run of a shape replays a graph
        want = on_cpu.run({"x": rows(n)})["y"]
        np.testing.assert_allclose(context.run({"x": rows(n)})["y"], want, rtol=1e-5, atol=1e-5)
    with pytest.raises(deepjit.Error) as told:
        context.run({"x": rows(301)})
    assert told.value.code == 504 and "x [1,64] to [3,64]; or x [4,64] to [300,64]" in told.value.message


def test_constants_lie_on_the_device_once(both):
    one = deepjit.build(made(), device="cuda", targets="sm_90", ranges={"x": ONE}, tune=False)
    tactics = [[s["tactic"] for s in both.steps_of(k)] for k in (0, 1)]
    assert tactics[0] == tactics[1] == [s["tactic"] for s in one.steps]
    shapes = {"x": (2, 64)}
    assert both.memory_use(shapes)["constants"] == one.memory_use(shapes)["constants"] > 0


def test_a_real_model():
    """One voice, and several at once: one range for each."""
    case = model_feeds.case("silero_vad_16k")
    frame = case.ranges["input"][0][1]

    def of(axis, shape, batches):
        return tuple((*shape[:axis], n, *shape[axis:]) for n in batches)

    bounds = ((1, 1, 1), (2, 3, 4))
    ranges = {"input": [of(0, (frame,), b) for b in bounds], "state": [of(1, (2, 128), b) for b in bounds]}
    on_cpu = deepjit.build(str(models.path(case.model)), tune=False)
    engine = deepjit.build(str(models.path(case.model)), device="cuda", targets="sm_90", ranges=ranges, tune=False)
    feeds = case.make(np.random.default_rng(4))
    for n in (1, 3, 4, 1):
        own = {**feeds, "input": np.tile(feeds["input"], (n, 1)), "state": np.tile(feeds["state"], (1, n, 1))}
        want, got = on_cpu.run(own), engine.run(own)
        for output in want:
            scale = np.abs(want[output]).max()
            np.testing.assert_allclose(got[output], want[output], rtol=0, atol=1e-4 * scale + 1e-6, err_msg=output)


def test_each_range_says_what_runs_on_the_cpu():
    """A lockfile takes the product of the second range away from the GPU's kernels."""
    options = {"device": "cuda", "targets": "sm_90", "tune": False}
    engine = deepjit.build(made(), ranges={"x": [ONE, MANY]}, force_tactic="reference", **options)
    assert sum(w.count("on the CPU run") for w in engine.report["warnings"]) == 2
    assert any(w.startswith("range 2: on the CPU run") for w in engine.report["warnings"])
    for n in (2, 200):
        want = deepjit.build(made(), tune=False).run({"x": rows(n)})["y"]
        np.testing.assert_allclose(engine.run({"x": rows(n)})["y"], want, rtol=1e-5, atol=1e-5)


RUN = """
import sys, deepjit, numpy as np
engine = deepjit.load(sys.argv[1])
for n in map(int, sys.argv[2].split(",")):
    x = np.random.default_rng(n).standard_normal((n, 64)).astype(np.float32)
    np.save(f"{sys.argv[1]}.{n}.npy", engine.run({"x": x})["y"])
"""


def test_an_unseen_shape_compiles_nothing(both, tmp_path):
    """A process without any compiler runs shapes that no build has seen."""
    both.save(tmp_path / "m.dje")
    unseen = (2, 5, 77, 299)
    environment = {**os.environ, "DEEPJIT_CUDA_PATH": str(tmp_path / "nothing")}
    command = [sys.executable, "-c", RUN, str(tmp_path / "m.dje"), ",".join(map(str, unseen))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    on_cpu = deepjit.build(made(), tune=False)
    for n in unseen:
        got = np.load(f"{tmp_path / 'm.dje'}.{n}.npy")
        np.testing.assert_allclose(got, on_cpu.run({"x": rows(n)})["y"], rtol=1e-5, atol=1e-5)
