"""Profiles of engines on a GPU, on machines without one: by CUPTI's records, and by events where CUPTI is no help."""

from pathlib import Path

import pytest
import stand_in_gpu

HERE = Path(__file__).parent


@pytest.mark.parametrize("cupti", ["", "unknown", "refuses", "renamed", "misses"])
def test_profiles_on_the_stand_in_gpu(monkeypatch, cupti):
    monkeypatch.setenv("DEEPJIT_FAKE_CUPTI", cupti)
    done = stand_in_gpu.run_tests(HERE / "on_stand_in_gpu.py")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout, done.stdout[-2000:]
