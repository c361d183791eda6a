"""The two sides of a comparison on the CPU, deepjit and ONNX Runtime, behind one small interface; and a subprocess mode
that measures what only a fresh process can show: time to create or load, and peak memory.

usage as a program (run by `fresh`): sides.py SIDE WHAT MODEL THREADS FEEDS.npz RANGES-JSON [OUT.npz]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SIDES = ("deepjit", "onnxruntime")


class OrtSide:
    """ONNX Runtime, all optimisations on, CPU provider."""

    name = "onnxruntime"

    def __init__(self, model: str, threads: int):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.outputs = [o.name for o in self.session.get_outputs()]

    def run(self, feeds: dict) -> dict:
        return dict(zip(self.outputs, self.session.run(self.outputs, feeds), strict=True))


class DeepjitSide:
    """deepjit: an ONNX model is built, a saved engine (.dje) is loaded."""

    name = "deepjit"

    def __init__(self, model: str, threads: int, ranges: dict | None = None):
        import deepjit

        if model.endswith(".dje"):
            self.engine = deepjit.load(model, threads=threads)
        else:
            self.engine = deepjit.build(model, threads=threads, ranges=ranges)
        self.context = self.engine.create_context()

    def run(self, feeds: dict) -> dict:
        return self.context.run(feeds)


def versions() -> dict[str, str]:
    import deepjit
    import onnxruntime

    return {"deepjit": getattr(deepjit, "__version__", "unknown"), "onnxruntime": onnxruntime.__version__}


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def resident(field: str) -> int:
    """VmRSS (now) or VmHWM (peak) of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def as_ranges(text: str) -> dict | None:
    parsed = json.loads(text)
    return parsed and {name: tuple(tuple(shape) for shape in shapes) for name, shapes in parsed.items()}


def measure_here(
    side: str, what: str, model: str, threads: int, feeds_path: str, ranges: dict | None, out: str
) -> dict:
    """Runs in the fresh process. `what` is create (also: load, for a .dje) or run (8 inferences after it)."""
    with np.load(feeds_path) as stored:
        feeds = dict(stored)
    if side == "deepjit":
        import deepjit  # noqa: F401
    else:
        import onnxruntime  # noqa: F401
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is resident now
    before, start = resident("VmRSS"), time.perf_counter()
    made = DeepjitSide(model, threads, ranges) if side == "deepjit" else OrtSide(model, threads)
    result = {"seconds": time.perf_counter() - start}
    if what == "run":
        for _ in range(8):
            outputs = made.run(feeds)
        np.savez(out, **outputs)
    elif out and side == "deepjit":
        made.engine.save(out)
    result["memory"] = max(0, resident("VmHWM") - before)
    return result


def fresh(
    side: str, what: str, model: str, threads: int, feeds_path: str, ranges: dict | None = None, out: str = ""
) -> dict:
    """`measure_here` in a new process; the answer has seconds and memory (peak growth of resident bytes)."""
    command = [sys.executable, __file__, side, what, model, str(threads), feeds_path, json.dumps(ranges), out]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=1800)
    if done.returncode != 0:
        raise RuntimeError(f"{side} {what} {model}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def start_times(model: str, engine: str, threads: int, feeds_path: str, repeats: int) -> dict[str, float]:
    """Median seconds until ready, ONNX Runtime's session and deepjit's saved engine in turn, each process fresh."""
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    for _ in range(repeats):
        seconds["onnxruntime"].append(fresh("onnxruntime", "create", model, threads, feeds_path)["seconds"])
        seconds["deepjit"].append(fresh("deepjit", "create", engine, threads, feeds_path)["seconds"])
    return {side: statistics.median(values) for side, values in seconds.items()}


def relative_difference(got: dict, want: dict) -> float:
    """Largest difference over all outputs, relative to the largest magnitude of the output it is in."""
    worst = 0.0
    for name, expected in want.items():
        actual = np.asarray(got[name], dtype=np.float64)
        if actual.shape != expected.shape or not np.isfinite(actual).all():
            return float("inf")
        scale = float(np.abs(expected).max()) or 1.0
        worst = max(worst, float(np.abs(actual - expected).max(initial=0)) / scale)
    return worst


def scratch() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="deepjit-bench-")


if __name__ == "__main__":
    side_, what_, model_, threads_, feeds_, ranges_, out_ = sys.argv[1:8]
    print(json.dumps(measure_here(side_, what_, model_, int(threads_), feeds_, as_ranges(ranges_), out_)))
