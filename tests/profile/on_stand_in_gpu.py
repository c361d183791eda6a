"""Profiles on the stand-in GPU, run by test_device_profile.py; EXPECTED says what CUPTI's stand-in is told to do."""

import json
import os

import deepjit
import numpy as np
import pytest
from onnx import numpy_helper, parser

EXPECTED = os.environ.get("DEEPJIT_FAKE_CUPTI", "")
TEXT = (
    "g (float[N,64] x) => (float[N,64] y, float[N,64] z) { a = Mul (x, w) s = Softmax <axis = 1> (a)"
    "t = Softmax <axis = 0> (s) u = Softmax <axis = 1> (t) y = Exp (u) z = Identity (x) }"
)


@pytest.fixture(scope="module")
def engine():
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {TEXT}')
    made.graph.initializer.append(numpy_helper.from_array(np.linspace(-1, 1, 64, dtype=np.float32), "w"))
    for node in made.graph.node:
        node.name = f"the_{node.op_type}"
    return deepjit.build(made, device="cuda", targets="sm_90", tune=False)


def feeds(n: int = 32) -> dict:
    return {"x": np.random.default_rng(n).standard_normal((n, 64), np.float32)}


@pytest.fixture(scope="module")
def result(engine):
    return engine.profile(feeds(), iterations=20, warm_up=0.02)


def part(result: dict, name: str) -> float:
    return next(one["typical_us"] for one in result["parts"] if one["part"] == name)


def test_says_how_it_measured(result):
    notes = {"unknown": "CUPTI", "refuses": "39", "renamed": "number ", "misses": "a replay ran "}
    assert result["method"] == ("events" if EXPECTED else "cupti") and result["device"] == "cuda"
    assert (result["note"] is None) if not EXPECTED else (notes[EXPECTED] in result["note"])


def test_parts_are_the_wall_time(result):
    total = sum(one["typical_us"] for one in result["parts"])
    assert total == pytest.approx(result["wall"]["typical_us"], rel=0.02) and total > 0
    for name in ("steps", "copy in", "copy out", "host"):
        assert part(result, name) > 0, name
    steps = sum(step["typical_us"] for step in result["steps"] if step["step"] >= 0)
    assert steps == pytest.approx(part(result, "steps"), rel=0.02)
    without = sum(one["typical_us"] for one in result["parts"] if one["part"] != "profiling")
    assert without <= max(result["unprofiled"]["typical_us"], result["wall"]["typical_us"]) * 1.02
    assert result["runs"] == 20 and 0 < result["unprofiled_device"]["p50_us"] < result["unprofiled"]["p50_us"]


def test_steps_have_their_kernels(result):
    kernels = [step for step in result["steps"] if step["calls"] > 0 and step["step"] >= 0]
    assert len(kernels) >= 3 and all(step["provider"] == "nvrtc" for step in kernels)
    assert all(step["launches"] == step["calls"] == 1 and step["typical_us"] > 0 for step in kernels)
    assert {"the_Mul", "the_Softmax", "the_Exp"} <= {o for step in kernels for o in step["origins"]}
    assert result["launches"] == len(kernels)
    copies = [step for step in result["steps"] if step["step"] < 0]
    assert all(step["bytes"] == 2 * 32 * 64 * 4 for step in copies)


def test_limits_are_those_of_the_device(result):
    assert result["limits"]["gflop_s"] is None and len(result["limits"]["copies"]) == 2
    for step in result["steps"]:
        assert step["bound"] in ("memory", None) and (step["of_roofline"] is None) == (step["bound"] is None)


def test_trace(engine, tmp_path):
    engine.profile(feeds(), iterations=5, warm_up=0, trace=tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    threads = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
    assert threads == {"host": 1, "cuda": 2, "copies": 3}
    spans = [e for e in events if e["ph"] == "X"]
    run = spans[0]
    assert run["name"] == "run" and run["tid"] == 1
    end = {2: 0.0, 3: 0.0}
    for span in spans[1:]:
        assert span["cat"] == ("step" if span["tid"] == 2 else "copy")
        assert end[span["tid"]] <= span["ts"] + 1e-9 and span["ts"] + span["dur"] <= run["dur"] + 1e-9
        end[span["tid"]] = span["ts"] + span["dur"]
        if not EXPECTED and span["tid"] == 2:
            assert span["args"]["kernel"]
    assert [e["name"] for e in spans if e["tid"] == 3][0] == "copy in"


def test_other_contexts_do_not_mix(engine):
    result = engine.profile(feeds(), iterations=10, warm_up=0, contexts=2)
    assert result["contexts"] == 2
    if not EXPECTED:
        assert result["method"] == "cupti" and all(step["launches"] == step["calls"] for step in result["steps"])


def test_profiles_again_and_runs_after(engine):
    """CUPTI's recorder is one for the process, and must be given back."""
    for n in (8, 16):
        assert engine.profile(feeds(n), iterations=5, warm_up=0)["method"] == ("events" if EXPECTED else "cupti")
    assert engine.run(feeds())["y"].shape == (32, 64)
