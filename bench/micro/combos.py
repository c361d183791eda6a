"""Times small graphs with and without combos (several kernels in one launch), alternating in one process.

usage: combos.py [--rounds N] [--iterations N]      DEEPJIT_MODELS has silero_vad; without it only the chains run
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import deepjit
import numpy as np
from onnx import numpy_helper, parser

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
CHAINS = ((30, (1, 2, 2)), (60, (1, 2, 2)), (30, (1, 4, 16)), (60, (1, 4, 16)), (60, (4, 8, 64)))


def chain(count: int, shape: tuple) -> tuple:
    """A model of `count` kernels that each reduce over another axis than the one before, and its input."""
    lines, value = [], "x"
    for i in range(count):
        axis = "one" if i % 2 else "two"
        lines.append(f"m{i} = ReduceMax <keepdims = 1> ({value}, {axis}) v{i} = Sub ({value}, m{i})")
        value = f"v{i}"
    dims = ",".join(map(str, shape))
    text = f"g (float[{dims}] x) => (float[{dims}] {value}) {{ {' '.join(lines)} }}"
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    for name, axis in (("one", 1), ("two", 2)):
        made.graph.initializer.append(numpy_helper.from_array(np.array([axis]), name))
    return made, {"x": np.random.default_rng(7).standard_normal(shape, dtype=np.float32)}


def compare(model, feeds: dict, rounds: int, iterations: int, **options) -> dict:
    sides = {
        "joint": deepjit.build(model, threads=1, **options),
        "apart": deepjit.build(model, threads=1, disable=["combos"], **options),
    }
    contexts = {name: engine.create_context() for name, engine in sides.items()}
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides)[:: 1 if number % 2 else -1]:
            run = contexts[name].run
            for _ in range(iterations // 10 + 1):
                run(feeds)
            start = time.perf_counter()
            for _ in range(iterations):
                run(feeds)
            spent[name].append((time.perf_counter() - start) / iterations * 1e6)
    result = {f"{name}_us": round(statistics.median(times), 2) for name, times in spent.items()}
    return {**result, "combos": sum("&" in step["name"] for step in sides["joint"].steps)}


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--rounds", type=int, default=16)
    args.add_argument("--iterations", type=int, default=2000)
    given = args.parse_args()
    for count, shape in CHAINS:
        made, feeds = chain(count, shape)
        row = compare(made, feeds, given.rounds, given.iterations, force_tactic="llvm")
        print(json.dumps({"kernels": count, "shape": shape, **row}), flush=True)
    if "DEEPJIT_MODELS" not in os.environ:
        return
    import model_feeds
    import models

    case = model_feeds.case("silero_vad_16k")
    feeds = case.make(np.random.default_rng(7))
    row = compare(models.path(case.model), feeds, given.rounds, given.iterations // 8, ranges=case.ranges)
    print(json.dumps({"model": case.name, **row}))


if __name__ == "__main__":
    main()
