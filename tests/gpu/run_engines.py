"""Runs engines on random inputs, one after another in this process: something for ncu and compute-sanitizer to watch.

run_engines.py [--runs N] [--seconds S] ENGINE.dje...

Shapes are those in ENGINE.json ({"shapes": {input: dims}}), else the engine's own, with 1 for a dim that is not fixed.
The second run of a shape replays a graph. A failure is told, and the exit code is then 1.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import native
import numpy as np


def feeds_of(engine: native.Engine, shapes: dict) -> dict:
    rng, feeds = np.random.default_rng(0), {}
    for name, info in engine.inputs.items():
        dims = shapes.get(name, [max(1, info.dims[i]) for i in range(info.rank)])
        kind = native.numpy_type(info.dtype)
        if kind.kind in "iub":  # also as indices and masks
            feeds[name] = rng.integers(0, 2, dims).astype(kind)
        else:
            feeds[name] = rng.standard_normal(dims).astype(kind)
    return feeds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("engines", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="no further engine is begun after this time"
    )
    args = parser.parse_args()
    ran, failed, kernels, start = 0, 0, 0, time.monotonic()
    for path in args.engines:
        if time.monotonic() - start > args.seconds:
            break
        beside = path.with_suffix(".json")
        shapes = json.loads(beside.read_text())["shapes"] if beside.exists() else {}
        try:
            engine = native.load(path)
            context = engine.create_context()
            feeds = feeds_of(engine, shapes)
            for _ in range(args.runs):
                context.run(feeds)
            kernels += engine.inspect().count("nvrtc:")
            ran += 1
        except native.Error as error:
            failed += 1
            print(f"{path.name}: {error}", file=sys.stderr, flush=True)
    left = len(args.engines) - ran - failed
    print(f"{ran} engines with {kernels} generated kernels ran, {failed} failed, no time for {left}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
