"""Tiny models and a way to run the program, for the tests of the command line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).parent))
from cli_models import ROOT, save  # noqa: E402

PROGRAM = ROOT / "build" / "dev" / "cli" / "deepjit"
TIMEOUT_S = 120


@pytest.fixture(autouse=True, scope="session")
def deepjit_present():
    """Overrides the shared fixture: these tests need the program, not the Python module."""
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} is missing (build it with ./dev build)", pytrace=False)


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        return json.loads(self.out)


@pytest.fixture
def cli(tmp_path, monkeypatch):
    """cli("build", "m.onnx", ...) in a fresh folder; `env` adds variables."""
    for name in ("DUMP", "DUMP_DIR", "DISABLE", "FORCE_TACTIC"):
        monkeypatch.delenv(f"DEEPJIT_{name}", raising=False)

    def call(*arguments, env: dict | None = None) -> Result:
        for name, value in (env or {}).items():
            monkeypatch.setenv(name, value)
        done = subprocess.run(
            [str(PROGRAM), *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        return Result(done.returncode, done.stdout, done.stderr)

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
