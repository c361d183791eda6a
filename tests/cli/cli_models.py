"""Tiny models for the tests of the command line, and what they must compute."""

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent.parent


def save(path: Path, nodes, inputs, outputs, weights: dict | None = None) -> None:
    initializers = [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()]
    graph = helper.make_graph(nodes, "main", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path)


def mlp_expected(path: Path, x: np.ndarray) -> np.ndarray:
    weights = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in onnx.load(path).graph.initializer}
    return np.maximum(x.astype(np.float64) @ weights["w1"] + weights["b1"], 0) @ weights["w2"]
