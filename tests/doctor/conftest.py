"""doctor(...) runs the program's doctor on a model or a Net."""

import sys
from pathlib import Path

import onnx
import pytest

import program
from program import deepjit_present  # noqa: F401

sys.path.insert(0, str(Path(__file__).parent))
from doctor_models import Net  # noqa: E402


class Result(program.Result):
    @property
    def rules(self) -> list[str]:
        return [f["rule"] for f in self.json["findings"]]


@pytest.fixture
def run(tmp_path):
    """run("doctor", "m.onnx", ...) in a fresh folder."""

    def call(*arguments) -> Result:
        return Result(*program.run_program(tmp_path, *arguments))

    return call


@pytest.fixture
def doctor(tmp_path, run):
    """doctor(model, *options) with --json. A --settings option that holds JSON becomes a file."""

    def call(model, *options) -> Result:
        path = model
        if isinstance(model, (Net, onnx.ModelProto)):
            path = tmp_path / "m.onnx"
            onnx.save(model.model() if isinstance(model, Net) else model, path)
        options = list(map(str, options))
        for i, option in enumerate(options):
            if option.startswith("{"):
                (tmp_path / "settings.json").write_text(option)
                options[i] = "settings.json"
        return run("doctor", path, "--json", *options)

    return call
