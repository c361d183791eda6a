"""The command line program, for the tests that run it."""

import json
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "dev" / "cli" / "deepjit"
TIMEOUT_S = 120


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        return json.loads(self.out)


def run_program(folder: Path, *arguments, environment: dict[str, str] | None = None) -> Result:
    """Runs the program in `folder`, with more in its environment."""
    done = subprocess.run(
        [str(PROGRAM), *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, **(environment or {})},
    )
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture(autouse=True, scope="session")
def deepjit_present():
    """Overrides the shared fixture: these tests need the program, and most of them not the Python module."""
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} is missing (build it with ./dev build)", pytrace=False)
