"""ONNX's node tests as one check: enough pass, none crashes, and nothing differs from the list of known failures."""

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import run_nodes  # noqa: E402

FLOOR = 1658  # tests that must pass; raise it when more do


@pytest.fixture(scope="module")
def outcomes(deepjit_present):
    return run_nodes.run_tests(run_nodes.select(None), workers=2)


def test_enough_pass(outcomes):
    count = Counter(o.status for o in outcomes.values())
    assert count["passed"] >= FLOOR, dict(count)


def test_none_crashes(outcomes):
    assert [f"{n}: {o.reason}" for n, o in outcomes.items() if o.status == "crashed"] == []


def test_known_failures_are_up_to_date(outcomes):
    assert run_nodes.surprises(outcomes, run_nodes.read_known()) == []
