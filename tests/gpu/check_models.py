"""Runs real models on the GPU and on the CPU through the C ABI and compares. Needs numpy; of 8-bit models also onnx.

check_models.py FOLDER [CASE...] [--device cuda] [--precision fp32] [--tune] [--workers 4] [--seconds 300] [--json FILE]

FOLDER holds the models as tools/models.py places them; those that are not there are left out and told. Each case runs
in a process of its own. The bound is relative to the largest value of each output: 1e-4 in fp32, as in tests/models,
2e-2 in 16 bits. A model with 8-bit arithmetic jumps, so it may also move by 1/255 of its range, or by twice what the
CPU's answer does when the model's floats change by a millionth. Untuned, no kernel is left out for being wrong.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
for tools in (HERE.parent / "tools", HERE.parents[1] / "tools"):
    sys.path.insert(0, str(tools))

import model_feeds  # noqa: E402
import models  # noqa: E402
import native  # noqa: E402
import wide_model_feeds  # noqa: E402

BOUNDS = {"fp32": 1e-4, "tf32": 1e-2, "fp16": 2e-2, "bf16": 1e-1}
RESOLUTION = 2e-7


class Case(NamedTuple):
    name: str
    model: str
    makes: list
    ranges: dict | None = None
    eight_bits: bool = False


def all_cases() -> list[Case]:
    wide = [Case(w.model, w.model, w.makes, None, w.eight_bits) for w in wide_model_feeds.WIDE]
    covered = {case.model for case in wide}
    narrow = [c for c in model_feeds.CASES if c.model not in covered]
    return [Case(c.name, c.model, [c.make], c.ranges) for c in narrow] + wide


def distance(got, want: np.ndarray) -> float:
    """In units of the largest value; of whole numbers, the part that differs."""
    got = np.asarray(got)
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    if want.dtype.kind in "iub":
        return float((got != want).mean()) if want.size else 0.0
    wide = want.astype(np.float64)
    if not np.isfinite(got.astype(np.float64)).all():
        return float("inf")
    scale = np.abs(wide).max(initial=0)
    error = np.abs(got.astype(np.float64) - wide).max(initial=0)
    return float(max(0.0, error - RESOLUTION) / scale) if scale > 0 else float(error > 0)


def moved_by(case: Case, path: str, feeds: list[dict], answers: list[dict]) -> list[dict]:
    """How far each output of each feed moves when the model's floats change by a millionth: of an 8-bit model."""
    moved = [dict.fromkeys(answer, 0.0) for answer in answers]
    for seed in range(3):
        engine = native.build(wide_model_feeds.nudged(path, seed), ranges=case.ranges, tune=False)
        for i, (feed, answer) in enumerate(zip(feeds, answers, strict=True)):
            got = engine.run(feed)
            for name, want in answer.items():
                moved[i][name] = max(moved[i][name], distance(got[name], want))
    return moved


def allowed(case: Case, bound: float, want: np.ndarray, moved: float) -> float:
    if not case.eight_bits:
        return bound
    scale = np.abs(want).max(initial=0) or 1
    return float(max(bound, np.ptp(np.append(want, 0)) / 255 / scale, 2 * moved))


def host_steps(engine: native.Engine) -> str:
    """What the build said about steps on the CPU, by the packed tool."""
    tool = native.library_path().parents[1] / "bin/deepjit"
    if not tool.exists():
        return ""
    with tempfile.TemporaryDirectory() as folder:
        engine.save(Path(folder) / "m.dje")
        done = subprocess.run([tool, "inspect", Path(folder) / "m.dje", "--json"], capture_output=True, text=True)
    return json.loads(done.stdout)["metadata"].get("build.host_steps", "") if done.returncode == 0 else ""


def check(case: Case, device: str, precision: str, tune: bool) -> dict:
    path, start = str(models.path(case.model)), time.time()
    options = {"ranges": case.ranges, "tune": False}
    on_cpu = native.build(path, **options)
    begun = time.time()
    on_gpu = native.build(path, device=device, precision=precision, **options | {"tune": tune})
    build_s = time.time() - begun
    rng = np.random.default_rng(11)
    feeds = [make(rng) for make in case.makes]
    answers = [on_cpu.run(feed) for feed in feeds]
    moved = moved_by(case, path, feeds, answers) if case.eight_bits else [dict.fromkeys(a, 0.0) for a in answers]
    context, worst = on_gpu.create_context(), []
    order = [*range(len(feeds)), 0, 0]  # the first shape comes again: as a graph
    for i in order:
        got = context.run(feeds[i])
        for name, want in answers[i].items():
            error, most = distance(got[name], want), allowed(case, BOUNDS[precision], want, moved[i][name])
            worst.append((error / most, error, most, name))
    _, error, most, output = max(worst)
    steps = on_gpu.inspect()
    kernels = sum(steps.count(f"{provider}:") for provider in ("nvrtc", "cublaslt", "cudnn"))
    return {"ok": error <= most, "error": error, "allowed": most, "output": output, "kernels": kernels,
            "host": host_steps(on_gpu),
            "build_s": round(build_s, 1), "seconds": round(time.time() - start, 1)}  # fmt: skip


def in_process(case: Case, args) -> dict:
    """check() in a process of its own, which may crash or hang."""
    row = {"case": case.name, "precision": args.precision, "ok": False}
    command = [sys.executable, __file__, str(args.folder), case.name, "--one", "--device", args.device]
    command += ["--precision", args.precision] + (["--tune"] if args.tune else [])
    left = args.until - time.monotonic()
    if left < 5:
        return row | {"failed": "no time was left"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=left)
    except subprocess.TimeoutExpired:
        return row | {"failed": f"no answer after {left:.0f} s"}
    if done.returncode != 0:
        return row | {"failed": f"exit code {done.returncode}: {done.stderr.strip()[-500:]}"}
    return row | json.loads(done.stdout.splitlines()[-1])


def line_of(row: dict) -> str:
    if "failed" in row:
        return f"  {row['case']:22} {row['precision']} FAILED {row['failed']}"
    verdict = "ok" if row["ok"] else "DIFFERS"
    told = f"{row['kernels']} kernels, {row['seconds']} s {row['host']}"
    return f"  {row['case']:22} {row['precision']} {verdict} {row['error']:.1e} of {row['allowed']:.1e}; {told}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", choices=BOUNDS, default="fp32")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", action="store_true", help="run one case in this process and print its row")
    args = parser.parse_args()
    os.environ["DEEPJIT_MODELS"] = str(args.folder)
    wanted = [case for case in all_cases() if not args.cases or case.name in args.cases]
    if args.one:
        print(json.dumps(check(wanted[0], args.device, args.precision, args.tune)))
        return 0
    args.until = time.monotonic() + args.seconds
    here = [case for case in wanted if (args.folder / models.MODELS[case.model].member).exists()]
    for name in sorted({case.model for case in wanted} - {case.model for case in here}):
        print(f"  {name}: not here, left out", flush=True)
    rows = []
    with ThreadPoolExecutor(args.workers) as pool:
        for row in pool.map(lambda case: in_process(case, args), here):
            rows.append(row)
            print(line_of(row), flush=True)
            if args.json:
                args.json.write_text(json.dumps(rows, indent=1))
    return 0 if rows and all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
