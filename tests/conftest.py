"""Shared by all Python tests: where deepjit, the tools, the models and the shared helpers are."""

import os
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "tests"))

MISSING = None
try:
    import deepjit  # noqa: F401
except ImportError as error:
    MISSING = str(error)
    # Test modules still import; the fixture below then fails or skips each test.
    stand_in = types.ModuleType("deepjit")
    stand_in.Error = RuntimeError
    sys.modules["deepjit"] = stand_in


def pytest_addoption(parser):
    parser.addoption("--all-models", action="store_true", help="fetch and run the large models too")


def pytest_configure(config):
    config.addinivalue_line("markers", "large: needs a model of many megabytes; runs with --all-models only")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--all-models"):
        return
    large = [item for item in items if item.get_closest_marker("large")]
    config.hook.pytest_deselected(items=large)
    items[:] = [item for item in items if not item.get_closest_marker("large")]


@pytest.fixture(autouse=True, scope="session")
def deepjit_present():
    """Tests fail without deepjit; DEEPJIT_ALLOW_MISSING=1 turns that into a skip."""
    if MISSING is None:
        return
    text = f"import deepjit failed: {MISSING}"
    if os.environ.get("DEEPJIT_ALLOW_MISSING") == "1":
        pytest.skip(text)
    pytest.fail(text + " (build it with ./dev build)", pytrace=False)
