"""The detector of bench/models/detector.py: valid, of the size it says, with boxes to suppress, and as ONNX Runtime."""

import sys
from pathlib import Path

import deepjit
import numpy as np
import onnx
import onnxruntime
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "models"))

import detector  # noqa: E402
from boxes import agreement, scene  # noqa: E402

NAMES = ("boxes", "scores", "classes")
FRAMES = {"fixed": [(720, 1280)] * 2, "dynamic": [(640, 640), (720, 1000), (1037, 479), (640, 640)]}
RANGES = {"fixed": None, "dynamic": {"frame": tuple((1, side, side, 3) for side in (64, 640, 1920))}}


@pytest.fixture(scope="module", params=["fixed", "dynamic"])
def made(request):
    return request.param, detector.detector(request.param)


def test_is_valid_and_of_the_usual_size(made):
    _, model = made
    onnx.checker.check_model(model, full_check=True)
    assert 10 < detector.gflop(model) < 30
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("Conv") == 83 and kinds.count("NonMaxSuppression") == 1
    labels = [node.name for node in model.graph.node]
    assert len(set(labels)) == len(labels) and all(label.startswith("/") for label in labels)


def test_agrees_with_onnx_runtime(made):
    kind, model = made
    data = model.SerializeToString()
    engine = deepjit.build(data, tune=False, threads=2, ranges=RANGES[kind])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    counts = []
    for seed, frame in enumerate(FRAMES[kind], 3):
        x = scene(*frame, seed=seed)
        want = dict(zip(NAMES, session.run(NAMES, {"frame": x}), strict=True))
        got = engine.run({"frame": x})
        counts.append(len(want["boxes"]))
        # Scores that are as good as 1 may change places, and with them a box in a few hundred.
        assert abs(len(got["boxes"]) - len(want["boxes"])) <= 2
        assert agreement(want, got, least=0.999, score=1e-4) >= 0.98
        inside = np.array([frame[1], frame[0]] * 2)
        assert (np.abs(want["boxes"] - inside / 2) < 2 * inside).all()
    assert max(counts) >= 20 and min(counts) < detector.MOST_BOXES, counts


def test_suppression_takes_boxes_away():
    """Of the positions above the threshold, most are neighbours of a better one."""
    size = detector.Size(width=0.125)
    x = scene(*size.frame, seed=4)
    all_of = deepjit.build(detector.detector("fixed", size, suppressed=False).SerializeToString(), tune=False)
    left = deepjit.build(detector.detector("fixed", size).SerializeToString(), tune=False).run({"frame": x})
    scores = all_of.run({"frame": x})["scores"]
    assert scores.shape == (1, 1, 80 * 80 + 40 * 40 + 20 * 20)
    candidates = int((scores > detector.THRESHOLD).sum())
    assert 10 <= len(left["scores"]) < 0.8 * candidates
    assert np.isin(left["scores"], scores).all() and (np.diff(left["scores"]) <= 0).all()


def test_agreement_sees_what_differs():
    boxes = np.array([[0, 0, 10, 10], [50, 50, 90, 70]], dtype=np.float32)
    answer = {"boxes": boxes, "scores": np.array([0.9, 0.5]), "classes": np.array([3, 4])}
    assert agreement(answer, answer) == 1
    assert agreement(answer, answer | {"boxes": boxes + np.float32(0.5)}) == 0.5
    assert agreement(answer, answer | {"classes": np.array([3, 5])}) == 0.5
    assert agreement(answer, answer | {"scores": np.array([0.8, 0.5])}) == 0.5
    assert agreement(answer, {k: v[:1] for k, v in answer.items()}) == pytest.approx(2 / 3)
    assert agreement(answer, {k: v[:0] for k, v in answer.items()}) == 0
