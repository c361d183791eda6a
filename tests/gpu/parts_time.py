"""Parts of gpu_test.py that measure: compile, bench, contracts, ncu."""

import csv
import io
import json
import math
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from gpu_session import TESTS, TOOL, Session


def compile_times(session: Session) -> None:
    """Builds some models with an empty cache and again with a full one, which compiles none."""
    rows, warm = [], 0
    for name in ("gelu_fp32", "norm_residual_gelu_fp32", "softmax_fp32", "chain_fp32"):
        with tempfile.TemporaryDirectory() as folder:
            command = [TOOL, "build", TESTS / f"bench/{name}.onnx", "-o", Path(folder) / "m.dje"]
            command += ["--device", session.device, "--tune-cache", Path(folder) / "cache", "--json"]
            told = [json.loads(session.run("compile", command)[1] or "{}") for _ in range(2)]
        kernels = told[0].get("kernels_compiled", 0)
        each_ms = told[0].get("compile_s", 0) / max(kernels, 1) * 1e3
        rows.append({"name": name, "kernels": kernels, "ms_a_kernel": each_ms, "build_s": told[0].get("build_s")})
        warm += told[1].get("kernels_compiled", kernels + 1)
        print(f"  {name:32} {kernels} kernels, {each_ms:6.1f} ms each", flush=True)
    session.results["compile"] = rows
    ok = warm == 0 and all(row["kernels"] > 0 for row in rows)
    session.finish("compile", ok, summary=f"{len(rows)} models; {warm} kernels compiled again")


def time_one(session: Session, run: dict) -> tuple[int, str]:
    """Builds and times one model. Tuned on at most 16M elements: the reference, too, has to compute them."""
    ranges, shapes = [], []
    for name, dims in run["shapes"].items():
        tuned = min(dims[0], max(1, (1 << 24) // math.prod(dims[1:])))
        low, opt, high = ("x".join(map(str, [first, *dims[1:]])) for first in (1, tuned, dims[0]))
        ranges += ["--range", f"{name}={low}:{opt}:{high}"]
        shapes += ["--shapes", f"{name}={high}"]
    with tempfile.TemporaryDirectory() as folder:
        engine = Path(folder) / "m.dje"
        model = TESTS / "bench" / run["file"]
        code, _ = session.run("bench", [TOOL, "build", model, "-o", engine, "--device", session.device, *ranges])
        if code != 0:
            return code, ""
        return session.run("bench", [TOOL, "bench", engine, "--json", "--seconds", "1", *shapes])


def bench(session: Session) -> None:
    """Kernels timed, with the bandwidth that they reach."""
    rows, failed = [], []
    peak = next((d.get("copy_gb_s", 0) for d in session.results.get("devices", {}).get("devices", [])
                 if d["name"].startswith(session.device)), 0)  # fmt: skip
    for run in json.loads((TESTS / "bench/bench.json").read_text())["runs"]:
        code, text = time_one(session, run)
        if code != 0:
            failed.append(run["name"])
            continue
        told = json.loads(text)
        us = told["device_us"]["p50"]
        row = {"name": run["name"], "device_us": told["device_us"], "host_us": told["host_us"]}
        row |= {"launches": told["launches"], "bytes": run["bytes"], "gb_s": run["bytes"] / us / 1e3}
        row["of_copy"] = row["gb_s"] / peak if peak else None
        rows.append(row)
        print(f"  {run['name']:32} {us:9.2f} us  {row['gb_s']:7.0f} GB/s  {told['launches']} launches", flush=True)
        session.results["bench"] = rows
    session.finish("bench", not failed, failed=failed, summary=f"{len(rows)} timed, {len(failed)} failed")


def contracts(session: Session) -> None:
    """Convolutions, products and attention, every tactic of each; needs onnx and numpy."""
    rows, failed = [], []
    session.run("contracts", [sys.executable, TESTS / "export_contracts.py", TESTS / "contracts"])
    for case in json.loads((TESTS / "contracts/contracts.json").read_text()):
        with tempfile.TemporaryDirectory() as folder:
            command = [TOOL, "build", TESTS / f"contracts/{case['name']}.onnx", "--verbose"]
            command += ["-o", Path(folder) / "m.dje", "--device", session.device]
            log = session.out / "contracts.log"
            start = log.stat().st_size if log.exists() else 0
            code, _ = session.run("contracts", command)
            told = log.read_text()[start:]
        found = re.findall(
            rf"(\S*{case['step']}): (\S+) ([\d.]+) us \+-[\d.]+, error (\S+?)( <- selected)?$", told, re.M
        )
        dropped = re.findall(rf"{case['step']}: (\S+ dropped: .*)", told)
        if code != 0 or not found:
            failed.append(case["name"])
            continue
        best = next(f for f in found if f[4])
        us = float(best[2])
        row = case | {"us": us, "tactic": best[1], "error": float(best[3]), "dropped": dropped}
        row |= {"tflops": 2e-6 * case["macs"] / us, "gb_s": case["bytes"] / us / 1e3}
        row["all"] = sorted((float(f[2]), f[1]) for f in found)
        rows.append(row)
        print(f"  {case['name']:28} {us:8.2f} us {row['tflops']:6.1f} TFLOP/s  {best[1]}", *dropped, flush=True)
        session.results["contracts"] = rows
    faults = [row["name"] for row in rows if row["dropped"]]
    session.finish("contracts", not failed and not faults, failed=failed, faults=faults, summary=f"{len(rows)} timed")


# ---- counters


METRICS = {
    "us": "gpu__time_duration.sum",
    "sm": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "tensor": "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
    "dram": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "waves": "launch__waves_per_multiprocessor",
}
UNITS_US = {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6}


def find_program(name: str) -> str | None:
    """One of NVIDIA's tools, on the PATH or where toolkits and packages keep them."""
    if found := shutil.which(name):
        return found
    places = [os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    places += [str(p) for p in sorted(Path("/usr/local").glob("cuda-*"), reverse=True)]
    places += [str(p) for p in sorted(Path("/opt/nvidia").glob("*/*"), reverse=True)] + ["/opt/nvidia"]
    places += [str(p) for folder in sys.path for p in Path(folder).glob("nvidia/*")]
    for place in filter(None, places):
        for inside in ("", "compute-sanitizer", "bin", "target/linux-desktop-glibc_2_11_3-x64"):
            path = Path(place) / inside / name
            if path.is_file():
                if not os.access(path, os.X_OK):  # as pip leaves what it unpacks
                    for helper in filter(Path.is_file, path.parent.glob("[!.]*")):
                        helper.chmod(0o755)
                return str(path)
    return None


def read_counters(text: str) -> list[dict]:
    """One row a kernel, in the order of the launches, from ncu's CSV."""
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    kernels: dict[str, dict] = {}
    short = {metric: name for name, metric in METRICS.items()}
    for row in csv.DictReader(io.StringIO("\n".join(lines[first:]))):
        if not row.get("Metric Name") or row["Metric Name"] not in short:
            continue
        kernel = kernels.setdefault(row["ID"], {"kernel": row["Kernel Name"], "grid": row.get("Grid Size")})
        try:
            value = float(row["Metric Value"].replace(",", ""))
        except ValueError:
            continue
        name = short[row["Metric Name"]]
        kernel[name] = value * (UNITS_US.get(row["Metric Unit"], 1) if name == "us" else 1)
    return list(kernels.values())


def ncu(session: Session) -> None:
    """Counters of each kernel of the engines in $DEEPJIT_ENGINES (else those that bench/peers left), slowest first."""
    program = find_program("ncu")
    if not program:
        return session.finish("ncu", False, summary="ncu is not installed here")
    folder = Path(os.environ.get("DEEPJIT_ENGINES") or "/tmp/deepjit_nets")
    rows, failed = {}, []
    for engine in sorted(folder.glob("*.dje")):
        if session.left_s("ncu") < 20:
            failed.append(f"{engine.stem}: no time")
            continue
        command = [program, "--clock-control", "none", "--csv", "--metrics", ",".join(METRICS.values())]
        command += [sys.executable, TESTS / "run_engines.py", "--runs", "1", engine]
        code, text = session.run("ncu", command, session.left_s("ncu"))
        kernels = read_counters(text)
        if code != 0 or not kernels:
            failed.append(f"{engine.stem}: exit code {code}")
            continue
        kernels = [{"launch": i, **kernel} for i, kernel in enumerate(kernels)]
        kernels.sort(key=lambda kernel: -kernel.get("us", 0))
        rows[engine.stem] = kernels
        for kernel in kernels[:8]:
            shown = " ".join(f"{name} {kernel[name]:.1f}" for name in METRICS if name in kernel)
            print(f"  {engine.stem:20} {shown}  {kernel['kernel'][:60]}", flush=True)
    (session.out / "ncu.json").write_text(json.dumps(rows, indent=1))
    session.finish("ncu", bool(rows) and not failed, failed=failed, summary=f"{len(rows)} engines of {folder}")
