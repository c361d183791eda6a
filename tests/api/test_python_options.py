"""The options of deepjit.build, good and bad, and the exception class."""

import copy
import pickle

import deepjit
import numpy as np
import pytest
from small_models import conv_relu, image, reference

RANGES = {"x": ((1, 3, 8, 8), (2, 3, 8, 8), (4, 3, 8, 8))}


@pytest.fixture(scope="module")
def engine():
    return deepjit.build(conv_relu().SerializeToString(), ranges=RANGES)


# Errors


def test_error_class():
    with pytest.raises(deepjit.Error) as caught:
        deepjit.build("/no/such/model.onnx")
    error = caught.value
    assert isinstance(error, RuntimeError)
    assert (error.code, error.name) == (304, "FILE_NOT_FOUND") and "model.onnx" in error.message
    assert str(error).startswith("error[E304 FILE_NOT_FOUND]: ")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (other.code, other.name, other.message, str(other)) == (304, error.name, error.message, str(error))


BAD = {
    "device": {"device": 3},
    "precision": {"precision": None},
    "threads_text": {"threads": "two"},
    "threads_huge": {"threads": 2**40},
    "level": {"level": 4},
    "level_negative": {"level": -1},
    "pass": {"disable": ["no_such_pass"]},
    "pass_type": {"disable": 3},
    "budget_negative": {"budget": -1},
    "budget_nan": {"budget": float("nan")},
    "budget_text": {"budget": "soon"},
    "ranges_type": {"ranges": [1, 2]},
    "range_of_two": {"ranges": {"x": ((1, 3, 8, 8), (2, 3, 8, 8))}},
    "range_text": {"ranges": {"x": "1x3x8x8"}},
    "range_number": {"ranges": {"x": 3}},
    "range_fraction": {"ranges": {"x": (1.5, 3, 8, 8)}},
    "range_negative": {"ranges": {"x": (-1, 3, 8, 8)}},
    "range_huge": {"ranges": {"x": (2**70, 3, 8, 8)}},
    "range_rank": {"ranges": {"x": (1,) * 40}},
    "cache": {"tune_cache": 3},
}


@pytest.mark.parametrize("name", BAD)
def test_bad_options(name):
    with pytest.raises(deepjit.Error) as caught:
        deepjit.build(conv_relu(), **BAD[name])
    assert (caught.value.code, caught.value.name) == (804, "ARGUMENT")


def test_bad_sources():
    for call in (deepjit.build, deepjit.load):
        with pytest.raises(deepjit.Error) as caught:
            call(42)
        assert caught.value.code == 804


# Options


def test_one_shape_as_a_range():
    made = deepjit.build(conv_relu(), ranges={"x": [np.int64(2), 3, 8, 8]}, tune=False)
    assert made.inputs[0].shape == (2, 3, 8, 8) and made.outputs[0].shape == (2, 4, 8, 8)
    with pytest.raises(deepjit.Error) as caught:
        made.run({"x": image(1)})
    assert caught.value.code in (503, 504)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level_gives_the_same(level, engine):
    got = deepjit.build(conv_relu(), level=level).run({"x": image()})["y"]
    np.testing.assert_allclose(got, engine.run({"x": image()})["y"], rtol=1e-5, atol=1e-5)


def test_progress_and_log():
    stages, lines = [], []
    deepjit.build(conv_relu(), progress=lambda *a: stages.append(a), log=lines.append)
    assert [s for s, _, _ in stages if s != "tune"] == ["import", "passes", "lower", "plan"]
    assert any(total > 0 and done == total for s, done, total in stages if s == "tune")
    assert lines and all(isinstance(line, str) for line in lines)


def test_an_exception_in_a_callback_ends_the_build():
    class MyError(Exception):
        pass

    def stop(stage, done, total):
        if stage == "lower":
            raise MyError(stage)

    with pytest.raises(MyError, match="lower"):
        deepjit.build(conv_relu(), progress=stop)


def test_lockfile_makes_equal_engines(tmp_path):
    lock = tmp_path / "m.lock"
    first = deepjit.build(conv_relu(), ranges=RANGES, lock=lock)
    assert lock.read_text() == first.lock_text != ""
    second = deepjit.build(conv_relu(), ranges=RANGES, lock=lock)
    assert second.report["tuning"]["measured"] == 0 and second.report["tuning"]["reused"] > 0
    assert second.serialize() == first.serialize()


def test_tuning_cache_is_reused(tmp_path):
    for measured in (True, False):
        report = deepjit.build(conv_relu(), ranges=RANGES, tune_cache=tmp_path / "cache").report
        assert (report["tuning"]["measured"] > 0) == measured


def test_reference_can_be_forced():
    for options in ({"tune": False}, {"force_tactic": "reference"}):
        steps = deepjit.build(conv_relu(), **options).steps
        assert {s["tactic"].split(":")[0] for s in steps} == {"reference"}


def test_budget_forms():
    for budget in (0.001, "1ms", "0.5s", "1m", None):
        got = deepjit.build(conv_relu(), budget=budget).run({"x": image()})["y"]
        np.testing.assert_allclose(got, reference(conv_relu(), {"x": image()})["y"], rtol=1e-5, atol=1e-5)
