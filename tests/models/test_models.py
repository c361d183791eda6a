"""Real models give what ONNX Runtime gives, for every shape of one engine, step after step, and after a reload.

Needs the model files of tools/fetch_models.py. The tolerance is relative to the largest magnitude of each output, plus
what ONNX Runtime's own sigmoid loses: by its optimization level it gives 8.9e-8 or 2.1e-7 where 7.3e-8 is right.
"""

import subprocess
import sys

import deepjit
import model_feeds
import models
import numpy as np
import onnxruntime
import pytest
from model_feeds import image

TOLERANCE = 1e-4
RESOLUTION = 2e-7


def reference(name: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(models.path(name)), options, providers=["CPUExecutionProvider"])


def reference_run(session, feeds: dict) -> dict:
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def assert_close(got: dict, want: dict, what: str):
    assert set(got) == set(want)
    for name, expected in want.items():
        actual = np.asarray(got[name])
        assert actual.dtype == expected.dtype and actual.shape == expected.shape, f"{what}: {name}"
        assert np.isfinite(actual).all(), f"{what}: {name} has values that are not finite"
        scale = np.abs(expected).max()
        assert scale > 0, f"{what}: {name} is all zeros, the test says nothing"
        error = np.abs(actual - expected).max()
        assert error <= TOLERANCE * scale + RESOLUTION, (
            f"{what}: {name} is off by {error:.2e}, its scale is {scale:.3g}"
        )


def assert_same_class(actual: np.ndarray, expected: np.ndarray):
    """Equal argmax on the last axis, wherever the reference's own lead exceeds the tolerance."""
    ordered = np.sort(expected, axis=-1)
    clear = ordered[..., -1] - ordered[..., -2] > 2 * TOLERANCE * np.abs(expected).max()
    assert clear.mean() > 0.5, "too few clear decisions: the test says little"
    assert (actual.argmax(-1) == expected.argmax(-1))[clear].all()


def check_shapes(name: str, ranges: dict, makers: list, classes: str | None = None):
    """One engine, several inputs, in an order that grows, shrinks and comes back."""
    engine = deepjit.build(str(models.path(name)), ranges=ranges)
    session = reference(name)
    rng = np.random.default_rng(11)
    inputs = [make(rng) for make in makers]
    for feeds in [*inputs, inputs[0]]:
        want = reference_run(session, feeds)
        got = engine.run(feeds)
        assert_close(got, want, f"{name} {[v.shape for v in feeds.values()]}")
        if classes:
            assert_same_class(got[classes], want[classes])


def test_text_detection_three_sizes():
    sizes = [(320, 320), (640, 480), (96, 608)]
    check_shapes("ppocr_det", model_feeds.DET_RANGE, [model_feeds.page("x", (1, 3, *s)) for s in sizes])


def test_text_recognition_three_widths():
    shapes = [(1, 3, 48, 320), (2, 3, 48, 192), (1, 3, 48, 640)]
    makers = [image("x", s, 0.5) for s in shapes]
    check_shapes("ppocr_rec", model_feeds.REC_RANGE, makers, classes="softmax_11.tmp_0")


def test_text_angle():
    makers = [image("x", (n, 3, 48, 192), 0.5) for n in (1, 6)]
    check_shapes("ppocr_cls", model_feeds.CLS_RANGE, makers, classes="save_infer_model/scale_0.tmp_1")


def test_text_angle_in_two_ranges():
    """Each range gives what the reference gives; what both want lies in the engine once."""
    one, few = ((1, 3, 48, 192),) * 3, ((2, 3, 48, 192), (6, 3, 48, 192), (8, 3, 48, 192))
    makers = [image("x", (n, 3, 48, 192), 0.5) for n in (1, 6, 2, 8)]
    ranges = {"x": [one, few]}
    check_shapes("ppocr_cls", ranges, makers, classes="save_infer_model/scale_0.tmp_1")
    options = {"force_tactic": "onednn", "budget": "20s"}
    both = deepjit.build(str(models.path("ppocr_cls")), ranges=ranges, **options)
    alone = [deepjit.build(str(models.path("ppocr_cls")), ranges={"x": r}, **options) for r in (one, few)]
    weights = [engine.report["weight_bytes"] for engine in alone]
    assert max(weights) <= both.report["weight_bytes"] < 0.75 * sum(weights)


def test_file_type():
    makers = [model_feeds.file_bytes, model_feeds.one_file]
    check_shapes("magika", model_feeds.MAGIKA_RANGE, makers, classes="target_label")


def test_image_safety():
    makers = [image("input_0", (n, 224, 224, 3), 60.0) for n in (1, 2)]
    check_shapes("open_nsfw", model_feeds.NSFW_RANGE, makers, classes="4195")


def test_music_transcription():
    check_shapes("basic_pitch", model_feeds.PITCH_RANGE, [model_feeds.music])


@pytest.mark.parametrize("rate", [16000, 8000])
def test_voice_activity_200_chained_steps(rate):
    """Each side feeds back its own state, so an error that grows from step to step is seen."""
    engine = deepjit.build(str(models.path("silero_vad")), ranges=model_feeds.vad_range(rate))
    session = reference("silero_vad")
    frame = model_feeds.vad_frame(rate)
    hop = frame * 8 // 9
    audio = model_feeds.sound(np.random.default_rng(5), hop * 200 + frame, rate)
    sr = np.array(rate, dtype=np.int64)
    ours = theirs = np.zeros((2, 1, 128), dtype=np.float32)
    probabilities = []
    for step in range(200):
        chunk = audio[None, step * hop : step * hop + frame]
        got = engine.run({"input": chunk, "state": ours, "sr": sr})
        want = reference_run(session, {"input": chunk, "state": theirs, "sr": sr})
        assert_close(got, want, f"step {step}")
        ours, theirs = got["stateN"], want["stateN"]
        probabilities.append(float(want["output"][0, 0]))
    assert np.ptp(probabilities) > 0.01, "the signal never moved the detector: the test says nothing"


def test_both_sample_rates_on_one_engine():
    low, high = model_feeds.vad_range(8000), model_feeds.vad_range(16000)
    ranges = {"input": (low["input"][0], high["input"][0], high["input"][0]), "state": high["state"]}
    engine = deepjit.build(str(models.path("silero_vad")), ranges=ranges)
    session = reference("silero_vad")
    rng = np.random.default_rng(3)
    for rate in (16000, 8000, 16000):
        feeds = model_feeds.vad_step(rate)(rng)
        assert_close(engine.run(feeds), reference_run(session, feeds), f"{rate} Hz")


RELOAD = """
import sys
import numpy as np
import deepjit
engine = deepjit.load(sys.argv[1])
feeds = dict(np.load(sys.argv[2]))
np.savez(sys.argv[3], **engine.run(feeds))
"""


@pytest.mark.parametrize("name", ["ppocr_rec_48x320", "magika", "silero_vad_16k", "open_nsfw"])
def test_saved_engine_gives_equal_bits_in_another_process(name, tmp_path):
    case = model_feeds.case(name)
    engine = deepjit.build(str(models.path(case.model)), ranges=case.ranges)
    feeds = case.make(np.random.default_rng(7))
    want = engine.run(feeds)
    engine.save(str(tmp_path / "m.dje"))
    np.savez(tmp_path / "in.npz", **feeds)
    command = [sys.executable, "-c", RELOAD, *(str(tmp_path / n) for n in ("m.dje", "in.npz", "out.npz"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as got:
        assert set(got.files) == set(want)
        for key, value in want.items():
            assert got[key].tobytes() == np.ascontiguousarray(value).tobytes(), key
