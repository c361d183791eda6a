"""Times real models on the CPU: deepjit against ONNX Runtime, in one run, on the same inputs and thread counts.

usage: bench_models.py [--quick] [--models a,b] [--threads 1,2] [--out FILE]
Prints a table and writes JSON. The ratio is ONNX Runtime's time over deepjit's: above 1 deepjit is faster. ready is the
time to a usable state in a fresh process: a session created from the model against a saved engine loaded.
"""

import argparse
import datetime
import json
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import interleave  # noqa: E402
import model_feeds  # noqa: E402
import models  # noqa: E402
import sides  # noqa: E402

COLUMNS = (
    f"{'model':<17}{'thr':>4} | {'ours p50':>9}{'p95':>9}{'cpu':>9} | {'ort p50':>9}{'p95':>9}{'cpu':>9} |"
    f" {'ratio':>6} {'(low..high)':<13} | {'ready ms':>9}{'ort':>8} | {'build s':>8} | {'MiB':>6}{'ort':>7}"
    f" | {'max diff':>9}"
)


def progress(text: str):
    print(text, file=sys.stderr, flush=True)


def bench_case(case: model_feeds.Case, threads: int, quick: bool, folder: Path) -> dict:
    """All numbers of one model at one thread count."""
    model = str(models.path(case.model))
    feeds = case.make(np.random.default_rng(7))
    feeds_path, engine_path = str(folder / "feeds.npz"), str(folder / "model.dje")
    np.savez(feeds_path, **feeds)
    built = sides.fresh("deepjit", "create", model, threads, feeds_path, case.ranges, engine_path)
    ours, theirs = sides.DeepjitSide(engine_path, threads), sides.OrtSide(model, threads)
    difference = sides.relative_difference(ours.run(feeds), theirs.run(feeds))
    pairs, block_s = (5, 0.1) if quick else (8, 0.5)
    result = interleave.compare(ours, theirs, feeds, case.feedback, pairs, block_s)
    del ours, theirs
    ready = sides.start_times(model, engine_path, threads, feeds_path, 3 if quick else 7)
    out = str(folder / "out.npz")
    memory = {
        "deepjit": sides.fresh("deepjit", "run", engine_path, threads, feeds_path, out=out)["memory"],
        "onnxruntime": sides.fresh("onnxruntime", "run", model, threads, feeds_path, out=out)["memory"],
    }
    return {
        "model": case.name,
        "threads": threads,
        "shapes": {name: list(array.shape) for name, array in feeds.items()},
        "deepjit": result.ours._asdict(),
        "onnxruntime": result.theirs._asdict(),
        "ratio": result.ratio,
        "ratio_spread": [result.ratio_low, result.ratio_high],
        "build_s": built["seconds"],
        "ready_s": ready,
        "peak_bytes": memory,
        "max_rel_difference": difference,
    }


def row(r: dict) -> str:
    ours, theirs = r["deepjit"], r["onnxruntime"]
    low, high = r["ratio_spread"]
    spread = f"({low:.2f}..{high:.2f})"
    ready, memory = r["ready_s"], r["peak_bytes"]
    return (
        f"{r['model']:<17}{r['threads']:>4} | {ours['p50_ms']:>9.3f}{ours['p95_ms']:>9.3f}{ours['cpu_ms']:>9.3f}"
        f" | {theirs['p50_ms']:>9.3f}{theirs['p95_ms']:>9.3f}{theirs['cpu_ms']:>9.3f} | {r['ratio']:>6.2f} {spread:<13}"
        f" | {ready['deepjit'] * 1e3:>9.1f}{ready['onnxruntime'] * 1e3:>8.1f} | {r['build_s']:>8.2f}"
        f" | {memory['deepjit'] / 2**20:>6.1f}{memory['onnxruntime'] / 2**20:>7.1f} | {r['max_rel_difference']:>9.1e}"
    )


def select(text: str | None) -> list[model_feeds.Case]:
    """Cases whose own or model's name is listed; all without a list."""
    wanted = text.split(",") if text else None
    known = {n for c in model_feeds.CASES for n in (c.name, c.model)}
    if wanted and not set(wanted) <= known:
        sys.exit(f"unknown model {', '.join(set(wanted) - known)}; known: {', '.join(sorted(known))}")
    return [c for c in model_feeds.CASES if not wanted or c.name in wanted or c.model in wanted]


def header() -> dict:
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": sides.cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": sides.versions(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short blocks: about 5 s a row instead of 20 s")
    parser.add_argument("--models", help="comma-separated names of cases or models")
    parser.add_argument("--threads", default="1,2", help="comma-separated thread counts")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results" / "cpu_models.json")
    args = parser.parse_args()
    report = header()
    if report["load_before"] > 0.5 * report["cores"]:
        progress(f"the machine is busy (load {report['load_before']:.1f}): the spread will be wide")
    print(f"{report['cpu']}, {report['cores']} cores; times in ms\n{COLUMNS}", flush=True)
    rows, failures, start = [], [], time.monotonic()
    jobs = [(c, int(t)) for c in select(args.models) for t in args.threads.split(",")]
    for k, (case, threads) in enumerate(jobs):
        progress(f"[{k + 1}/{len(jobs)}] {case.name}, {threads} threads, {time.monotonic() - start:.0f} s so far")
        try:
            with sides.scratch() as folder:
                rows.append(bench_case(case, threads, args.quick, Path(folder)))
            print(row(rows[-1]), flush=True)
        except Exception as error:  # one model that fails must not hide the others
            failures.append({"model": case.name, "threads": threads, "error": str(error)[:500]})
            print(f"{case.name:<17}{threads:>4} | failed: {str(error)[:200]}", flush=True)
    ratios = [r["ratio"] for r in rows]
    if ratios:
        report["geometric_mean_ratio"] = float(np.exp(np.mean(np.log(ratios))))
        print(f"geometric mean of the ratios: {report['geometric_mean_ratio']:.2f}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report | {"results": rows, "failures": failures}, indent=1) + "\n")
    progress(f"written: {args.out}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
