"""ONNX's other sets of tests: models of old opsets, and sequences. Nothing differs from each list of known failures."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import run_nodes  # noqa: E402

SIZES = {"pytorch-converted": 82, "pytorch-operator": 35, "simple": 23}


@pytest.mark.parametrize("name", SIZES)
def test_set(deepjit_present, name):
    tests = run_nodes.select(None, name)
    assert len(tests) >= SIZES[name]
    outcomes = run_nodes.run_tests(tests, workers=2)
    assert run_nodes.surprises(outcomes, run_nodes.read_known(name)) == []
