"""Shared by all Python tests: where deepjit, the tools and the models are."""

import os
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

MISSING = None
try:
    import deepjit  # noqa: F401
except ImportError as error:
    MISSING = str(error)
    # Test modules still import; the fixture below then fails or skips each test.
    stand_in = types.ModuleType("deepjit")
    stand_in.Error = RuntimeError
    sys.modules["deepjit"] = stand_in


@pytest.fixture(autouse=True, scope="session")
def deepjit_present():
    """Tests fail without deepjit; DEEPJIT_ALLOW_MISSING=1 turns that into a skip."""
    if MISSING is None:
        return
    text = f"import deepjit failed: {MISSING}"
    if os.environ.get("DEEPJIT_ALLOW_MISSING") == "1":
        pytest.skip(text)
    pytest.fail(text + " (build it with ./dev build)", pytrace=False)
