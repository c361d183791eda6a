"""deepjit by its command line, for the comparisons on a GPU: building, timing; and what is known of the GPU itself."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / "models"), str(ROOT / "tools")]

import native  # noqa: E402


class Built(NamedTuple):
    engine: Path
    build_s: float
    kernels: int | None  # compiled for it


def text_of(dims) -> str:
    return "x".join(map(str, dims))


def range_text(shapes) -> str:
    """One shape, or (min, opt, max)."""
    return ":".join(text_of(shape) for shape in shapes) if hasattr(shapes[0], "__len__") else text_of(shapes)


class Tool:
    """The program, with the environment in which it finds CUDA's libraries."""

    def __init__(self, path: Path, device: str = "cuda"):
        self.path, self.device = path.resolve(), device
        self.env = dict(os.environ)
        if folders := native.cuda_folders():
            self.env.setdefault("DEEPJIT_CUDA_PATH", folders)
        beside = self.path.parents[1] / "lib"
        self.env.setdefault("DEEPJIT_LIBRARY", str(beside if beside.is_dir() else ROOT / "build" / "dev"))
        os.environ.setdefault("DEEPJIT_LIBRARY", self.env["DEEPJIT_LIBRARY"])

    def call(self, *words, limit_s: float | None = None, stderr=subprocess.PIPE) -> subprocess.CompletedProcess:
        command = [str(word) for word in (self.path, *words)]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=self.env, timeout=limit_s)

    def build(self, model: Path, engine: Path, ranges: dict, options: list, limit_s: float | None = None) -> Built:
        """What it tells goes to ENGINE.log; the shapes it is tuned at to ENGINE.json, for tests/gpu/run_engines.py."""
        words = [word for name, shapes in ranges.items() for word in ("--range", f"{name}={range_text(shapes)}")]
        log, start = engine.with_suffix(".log"), time.time()
        with open(log, "w") as file:
            done = self.call("build", model, "-o", engine, "--device", self.device, "--json", "--verbose", *words,
                             *options, limit_s=limit_s, stderr=file)  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(log.read_text()[-1500:])
        tuned = {name: s[1] if hasattr(s[0], "__len__") else s for name, s in ranges.items()}
        engine.with_suffix(".json").write_text(json.dumps({"shapes": {n: list(dims) for n, dims in tuned.items()}}))
        return Built(engine, time.time() - start, json.loads(done.stdout).get("kernels_compiled"))

    def bench(self, engine: Path, *options, seconds: float = 0.5, shapes: dict | None = None) -> dict:
        words = [word for name, dims in (shapes or {}).items() for word in ("--shapes", f"{name}={text_of(dims)}")]
        done = self.call("bench", engine, "--json", "--seconds", seconds, *words, *options)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-1500:])
        return json.loads(done.stdout)


def gpu_facts() -> dict:
    """Name, driver and clocks of the GPU as they are now; empty without nvidia-smi."""
    names = ["name", "driver_version", "clocks.sm", "clocks.mem", "temperature.gpu", "power.draw"]
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=20,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return {}
    if done.returncode != 0 or not done.stdout.strip():
        return {}
    return dict(zip(names, map(str.strip, done.stdout.splitlines()[0].split(",")), strict=False))
