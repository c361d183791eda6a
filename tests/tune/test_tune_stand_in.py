"""Tuning for a GPU on machines without one: see stand_in_gpu.py."""

from pathlib import Path

import stand_in_gpu


def test_tuning_on_the_stand_in_gpu():
    done = stand_in_gpu.run_tests(Path(__file__).parent / "on_stand_in_tuning.py", timeout_s=1200)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout, done.stdout[-2000:]
