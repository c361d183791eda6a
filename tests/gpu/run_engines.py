"""Runs engines on random inputs, one after another in this process: something for ncu and compute-sanitizer to watch.

run_engines.py [--runs N] ENGINE.dje...

Shapes are those in ENGINE.json ({"shapes": {input: dims}}), else the engine's own, with 1 for a dim that is not fixed.
The second run of a shape replays a graph. A failure is told, and the exit code is then 1.
"""

import argparse
import json
import sys
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
    args = parser.parse_args()
    failed, kernels = 0, 0
    for path in args.engines:
        beside = path.with_suffix(".json")
        shapes = json.loads(beside.read_text())["shapes"] if beside.exists() else {}
        try:
            engine = native.load(path)
            context = engine.create_context()
            feeds = feeds_of(engine, shapes)
            for _ in range(args.runs):
                context.run(feeds)
            kernels += engine.inspect().count("nvrtc:")
        except native.Error as error:
            failed += 1
            print(f"{path.name}: {error}", file=sys.stderr, flush=True)
    print(f"{len(args.engines) - failed} engines with {kernels} generated kernels ran, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
