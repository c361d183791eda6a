"""A way to profile a model by the program."""

import sys
from pathlib import Path

import onnx
import pytest

from program import deepjit_present, run_program  # noqa: F401

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def profile(tmp_path):
    """profile(model, *arguments): the JSON of a short profile."""

    def call(model: onnx.ModelProto, *arguments, tune: bool = False) -> dict:
        onnx.save(model, tmp_path / "m.onnx")
        quick = ["--warm-up", 0.02, "--iterations", 25, "--threads", 1, "--json", *([] if tune else ["--no-tune"])]
        result = run_program(tmp_path, "profile", "m.onnx", *quick, *arguments)
        assert result.code == 0, result.err
        return result.json

    return call
