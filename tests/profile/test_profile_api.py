"""engine.profile() of Python: the same records as the program's JSON."""

import json

import deepjit
import numpy as np
import pytest
from profile_models import loop, mlp
from test_profile import KEYS, check_trace

X = {"x": np.ones((4, 64), np.float32)}


@pytest.fixture(scope="module")
def engine():
    return deepjit.build(mlp(), tune=False, threads=1)


def test_gives_the_same_keys_as_the_program(engine):
    result = engine.profile(X, iterations=10, warm_up=0)
    assert list(result) == [key for key in KEYS if key != "shapes"]
    assert result["runs"] == 10 and result["threads"] == 1 and result["device"] == "cpu"
    steps = {step["step"]: step for step in result["steps"] if step["step"] >= 0}
    for number, step in enumerate(engine.steps):
        if number not in steps:
            continue  # inside a region
        assert steps[number]["name"] == step["name"] and steps[number]["op"] == step["op"]
        assert steps[number]["origins"] == step["origins"]


def test_seconds_end_it(engine):
    result = engine.profile(X, seconds=0.2, warm_up=0.0)
    assert result["runs"] >= 5


def test_trace_goes_to_a_file(tmp_path):
    engine = deepjit.build(loop(3), tune=False, threads=1)
    engine.profile(X, iterations=5, warm_up=0, trace=tmp_path / "t.json")
    check_trace(json.loads((tmp_path / "t.json").read_text()), {"host"})


def test_an_engine_from_a_file_and_contexts(engine):
    loaded = deepjit.load(engine.serialize())
    result = loaded.profile(X, iterations=5, warm_up=0, contexts=2, threads=1)
    assert result["contexts"] == 2 and result["launches"] >= 1
    assert loaded.run(X)["y"].shape == (4, 32)


@pytest.mark.parametrize(
    "options, word",
    [
        ({"iterations": 0}, "iterations"),
        ({"iterations": -3}, "iterations"),
        ({"iterations": 10**6}, "iterations"),
        ({"seconds": 0}, "seconds"),
        ({"seconds": float("nan")}, "seconds"),
        ({"warm_up": -1}, "warm-up"),
        ({"contexts": 0}, "contexts"),
        ({"threads": 0}, "threads"),
    ],
)
def test_bad_options(engine, options, word):
    with pytest.raises(deepjit.Error) as caught:
        engine.profile(X, **options)
    assert caught.value.name == "ARGUMENT" and word in str(caught.value)


def test_bad_inputs(engine):
    with pytest.raises(deepjit.Error) as caught:
        engine.profile({"q": X["x"]}, iterations=1)
    assert caught.value.name == "INPUT_NAME"
    with pytest.raises(deepjit.Error) as caught:
        engine.profile({"x": np.ones((4, 65), np.float32)}, iterations=1)
    assert caught.value.name == "INPUT_SHAPE"
