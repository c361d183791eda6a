"""A GPU for machines without one: the stand-ins for CUDA's driver and compiler, which run kernels on the CPU.

A process finds its driver and compiler once, so tests that need the stand-ins run in a process of their own.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "dev" / "tests" / "fake_gpu"


def environment() -> dict[str, str]:
    """The environment in which `--device cuda` is the stand-in GPU, an sm_90."""
    return {**os.environ, "DEEPJIT_CUDA_DRIVER": str(FOLDER / "libcuda.so"), "DEEPJIT_CUDA_PATH": str(FOLDER)}


def run_tests(module: Path, *options: str, timeout_s: int = 600) -> subprocess.CompletedProcess:
    """Runs a file of tests on the stand-in GPU."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(module), *options]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=timeout_s, check=False
    )
