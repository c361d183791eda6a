"""Whole engines for a GPU on machines without one: see stand_in_gpu.py."""

from pathlib import Path

import pytest
import stand_in_gpu

HERE = Path(__file__).parent


@pytest.mark.parametrize("module", ["on_stand_in_gpu", "on_stand_in_io", "on_stand_in_detector", "on_stand_in_ranges"])
def test_engines_on_the_stand_in_gpu(module, pytestconfig):
    options = ["--all-models"] if pytestconfig.getoption("--all-models") else []
    done = stand_in_gpu.run_tests(HERE / f"{module}.py", *options)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout, done.stdout[-2000:]
