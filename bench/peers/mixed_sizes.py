"""Requests of mixed sizes, one after another, on one engine that was loaded from its file: what a service sees.

mixed_sizes.py ENGINE.dje [--requests 200] [--scale 1] [--json FILE]

The trace comes from a seed; each size has one frame. It runs twice: "first", where most sizes are new to the context,
and "again". Each size by itself then gives the steady P50. A request's ratio is its latency over the steady P50 of its
size. Compiling would need a compiler in the process: those that are mapped when all is done are listed.
"""

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "models"), str(HERE.parent.parent / "tools"), str(HERE)]

import blocks  # noqa: E402
from boxes import scene  # noqa: E402

SIZES = [(480, 640), (540, 960), (600, 800), (640, 640), (720, 1280), (768, 1024), (800, 1280), (960, 1280),
         (1080, 1920), (1200, 1600), (1280, 720), (1080, 1440)]  # fmt: skip
LARGEST = (1920, 1920)
COMPILERS = re.compile(r"[^/]*(?:nvrtc|nvJitLink|ptxjitcompiler|nvvm)[^/]*\.so[^/]*$")


def frames_of(scale: int = 1) -> dict[str, np.ndarray]:
    return {f"{h}x{w}": scene(h // scale, w // scale, seed=n) for n, (h, w) in enumerate(SIZES)}


def requests(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    names = [f"{h}x{w}" for h, w in SIZES]
    return [names[i] for i in rng.integers(0, len(names), count)]


def compilers() -> list[str]:
    """Libraries of this process that could compile kernels."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return sorted({found[0] for line in maps if (found := COMPILERS.search(line))})


def timed_ms(call: Callable[[], None]) -> float:
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1e3


def rounded(values: dict) -> dict:
    return {key: round(value, 4) for key, value in values.items()}


def measure(calls: dict[str, Callable[[], None]], order: list[str], steady_runs: int) -> dict:
    """calls: of each size. The first requests of a process pay for starting it, so one size runs before all."""
    for _ in range(3):
        calls[order[0]]()
    passes = [[timed_ms(calls[name]) for name in order] for _ in range(2)]
    steady = {}
    for name, call in calls.items():
        for _ in range(5):
            call()
        steady[name] = statistics.median(timed_ms(call) for _ in range(steady_runs))
    told: dict = {"requests": len(order), "steady_p50_ms": rounded(steady)}
    for what, times in zip(("first", "again"), passes, strict=True):
        ratios = [t / steady[name] for t, name in zip(times, order, strict=True)]
        told[what] = {"ms": rounded(blocks.percentiles(times)), "of_steady": rounded(blocks.percentiles(ratios)),
                      "slowest_ms": round(max(times), 4)}  # fmt: skip
    return told


def run(engine_path: Path, count: int, scale: int, steady_runs: int) -> dict:
    import native

    start = time.perf_counter()
    engine = native.load(engine_path)
    context = engine.create_context()
    load_ms = (time.perf_counter() - start) * 1e3
    prepared = {name: context.prepared({"frame": frame}) for name, frame in frames_of(scale).items()}
    calls = {name: (lambda p=p: context.run_prepared(p)) for name, p in prepared.items()}
    told = measure(calls, requests(count), steady_runs)
    found = {}
    for name, call in calls.items():
        call()
        found[name] = len(context.outputs()["scores"])
    return told | {"load_ms": round(load_ms, 2), "boxes": found, "compilers_loaded": compilers()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", type=Path)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--steady", type=int, default=30, help="runs of each size by itself")
    parser.add_argument("--scale", type=int, default=1, help="divides the sides of all frames")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    told = run(args.engine, args.requests, args.scale, args.steady)
    if args.json:
        args.json.write_text(json.dumps(told, indent=1))
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
