"""Exported networks with all dims open build without any hint from the user, and one engine gives what ONNX Runtime
gives at every size: small, large, odd, one, none."""

import sys
from pathlib import Path

import deepjit
import numpy as np
import onnxruntime
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import dynamic_models as exports  # noqa: E402

TOLERANCE = 2e-5


def runtime(model, feeds: dict) -> dict:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def assert_equal(got: dict, want: dict, what: str):
    for name, expected in want.items():
        actual = np.asarray(got[name])
        assert actual.dtype == expected.dtype and actual.shape == expected.shape, f"{what}: {name} {actual.shape}"
        if expected.dtype.kind != "f":
            np.testing.assert_array_equal(actual, expected, f"{what}: {name}")
        elif expected.size:
            scale = np.abs(expected).max()
            assert scale > 0
            np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE * scale, err_msg=f"{what}: {name}")


def text(rng, batch: int, length: int) -> dict:
    mask = np.ones((batch, length), np.int64)
    for b in range(batch):
        mask[b, max(1, length - b) :] = 0
    return {"ids": rng.integers(0, exports.VOCABULARY, (batch, length)), "mask": mask}


def picture(rng, *shape: int) -> dict:
    return {"image": rng.standard_normal(shape).astype(np.float32)}


TEXTS = [(2, 7), (1, 1), (3, 40), (5, 2), (1, 16), (2, 7), (0, 5)]
PICTURES = [(1, 3, 32, 48), (2, 3, 33, 17), (1, 3, 8, 8), (3, 3, 64, 40), (1, 3, 1, 1), (1, 3, 32, 48), (0, 3, 24, 24)]
BUILDS = {"O0": {"level": 0, "tune": False}, "O3": {"tune": False}, "tuned": {"budget": 2.0}}


@pytest.mark.parametrize("opset", [14, 18])
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("network", ["transformer", "detector"])
def test_network(network, build, opset):
    model = getattr(exports, network)(opset)
    engine = deepjit.build(model, threads=1, **BUILDS[build])
    rng = np.random.default_rng(5)
    found = 0
    for shape in TEXTS if network == "transformer" else PICTURES:
        feeds = text(rng, *shape) if network == "transformer" else picture(rng, *shape)
        want = runtime(model, feeds)
        assert_equal(engine.run(feeds), want, f"{shape}")
        found += sum(a.size for a in want.values())
    assert found > 100  # boxes do survive


def test_shape_arithmetic_stays_symbolic():
    """The outputs' sizes are told in terms of the inputs', through every Shape, Gather, Concat and Reshape."""
    engine = deepjit.build(exports.transformer(), threads=1, tune=False)
    shapes = {t.name: list(t.shape) for t in engine.outputs}
    assert shapes["hidden"] == ["batch", "sequence", exports.WIDTH]
    assert shapes["pooled"] == ["batch", exports.WIDTH]
