"""Tiny models and a way to run the program, for the tests of the command line."""

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from program import Result, deepjit_present, run_program  # noqa: F401

sys.path.insert(0, str(Path(__file__).parent))
from cli_models import save  # noqa: E402


@pytest.fixture
def cli(tmp_path, monkeypatch):
    """cli("build", "m.onnx", ...) in a fresh folder; `env` adds variables."""
    for name in ("DUMP", "DUMP_DIR", "DISABLE", "FORCE_TACTIC"):
        monkeypatch.delenv(f"DEEPJIT_{name}", raising=False)

    def call(*arguments, env: dict | None = None) -> Result:
        for name, value in (env or {}).items():
            monkeypatch.setenv(name, value)
        return run_program(tmp_path, *arguments)

    return call


@pytest.fixture
def mlp(tmp_path) -> Path:
    """y = relu(x @ w1 + b1) @ w2 over N rows; the hidden value is "h"."""
    rng = np.random.default_rng(0)
    weights = {
        "w1": rng.standard_normal((8, 16)).astype(np.float32),
        "b1": rng.standard_normal(16).astype(np.float32),
        "w2": rng.standard_normal((16, 4)).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["m"], name="first"),
        helper.make_node("Add", ["m", "b1"], ["a"], name="bias"),
        helper.make_node("Relu", ["a"], ["h"], name="relu"),
        helper.make_node("MatMul", ["h", "w2"], ["y"], name="second"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])
    save(tmp_path / "mlp.onnx", nodes, [x], [y], weights)
    return tmp_path / "mlp.onnx"


@pytest.fixture
def identity(tmp_path):
    """identity(dtype): a model that returns x, of any shape [A,B], as y."""

    def make(dtype: int) -> Path:
        x = helper.make_tensor_value_info("x", dtype, ["A", "B"])
        y = helper.make_tensor_value_info("y", dtype, ["A", "B"])
        save(tmp_path / "identity.onnx", [helper.make_node("Identity", ["x"], ["y"])], [x], [y])
        return tmp_path / "identity.onnx"

    return make
