"""Results do not depend on what the optimiser does: each pass off, every level, and all of it off agree."""

import functools

import deepjit
import model_feeds
import models
import numpy as np
import onnxruntime
import pytest

TOLERANCE = 1e-4
CASES = {case.name: case for case in model_feeds.CASES}
MODELS = ["magika", "ppocr_cls", "silero_vad"]  # small ones: no tuning, so each build takes well under a second


def find_case(name: str):
    return next(case for case in CASES.values() if name in (case.name, case.model))


@functools.cache
def expected(name: str):
    case = find_case(name)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(models.path(case.model)), options, providers=["CPUExecutionProvider"])
    feeds = case.make(np.random.default_rng(3))
    return feeds, dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))


def check(name: str, **options):
    case = find_case(name)
    feeds, want = expected(name)
    ranges = {key: value.shape for key, value in feeds.items()}
    engine = deepjit.build(str(models.path(case.model)), ranges=ranges, tune=False, threads=1, **options)
    got = engine.run(feeds)
    for key, value in want.items():
        scale = np.abs(value).max()
        assert scale > 0
        assert np.abs(got[key] - value).max() <= TOLERANCE * scale, (name, key, options)
    return engine


def pass_names(name: str) -> list[str]:
    return [entry["name"] for entry in check(name).report["passes"]]


@pytest.mark.parametrize("name", MODELS)
def test_each_pass_off(name):
    names = pass_names(name)
    assert len(names) >= 10
    for entry in names:
        engine = check(name, disable=[entry])
        assert entry not in [p["name"] for p in engine.report["passes"]]


@pytest.mark.parametrize("name", MODELS)
def test_all_passes_off(name):
    check(name, disable=pass_names(name))


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_levels(name, level):
    check(name, level=level)
