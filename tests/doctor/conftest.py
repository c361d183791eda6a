"""doctor(...) runs the program's doctor on a model or a Net."""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import onnx
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from doctor_models import Net  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = ROOT / "build" / "dev" / "cli" / "deepjit"
TIMEOUT_S = 120


@pytest.fixture(autouse=True, scope="session")
def deepjit_present():
    """Overrides the shared fixture: these tests need the program, and most of them not the Python module."""
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} is missing (build it with ./dev build)", pytrace=False)


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        return json.loads(self.out)

    @property
    def rules(self) -> list[str]:
        return [f["rule"] for f in self.json["findings"]]


@pytest.fixture
def run(tmp_path):
    """run("doctor", "m.onnx", ...) in a fresh folder."""

    def call(*arguments) -> Result:
        done = subprocess.run(
            [str(PROGRAM), *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        return Result(done.returncode, done.stdout, done.stderr)

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
