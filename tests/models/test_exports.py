"""The networks of bench/models/exports.py are valid, have the size of the real ones, and run as in ONNX Runtime."""

import sys
from pathlib import Path

import deepjit
import numpy as np
import onnxruntime
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "models"))

import exports  # noqa: E402

# Nodes and millions of weights of the real exports.
SIZES = {"resnet50": (122, 25.5), "mobilenet_v3": (140, 5.5), "convnext_tiny": (292, 28.6)}


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name):
    made = exports.MAKERS[name]()
    nodes, millions = SIZES[name]
    assert len(made.graph.node) == nodes
    assert sum(np.prod(w.dims) for w in made.graph.initializer) / 1e6 == pytest.approx(millions, abs=0.1)


def test_runs_at_several_batches():
    data = exports.MAKERS["mobilenet_v3"]().SerializeToString()
    engine = deepjit.build(data, tune=False, threads=1)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    for batch in (1, 2):
        x = np.random.default_rng(batch).standard_normal((batch, 3, 224, 224), dtype=np.float32)
        (want,) = session.run(None, {"input": x})
        got = engine.run({"input": x})["output"]
        assert got.shape == want.shape == (batch, 1000)
        assert np.abs(got - want).max() <= 1e-4 * np.abs(want).max()
