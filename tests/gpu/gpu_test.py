"""Tests and times a packed deepjit on a machine with a GPU. Needs Python 3 and nothing else.

gpu_test.py [--out FOLDER] [--device cuda] [--only PART,PART]

Parts, each with a time limit of its own so that one that fails loses little: devices (what is here, and how fast it
copies), conformance (the device's promises), libraries (what cuBLASLt and cuDNN offer, where they are installed), cases
(every model of the fusion tests against the CPU), compile (what NVRTC takes for a kernel, and that a second build
compiles none), bench (kernels timed, with the bandwidth that they reach), contracts (convolutions, products and
attention, every tactic of each; needs onnx and numpy). results.json and a log for each part go to FOLDER: $OUT, else
build/gpu-test. Exit code 0 only when all parts passed.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
# compile, bench and contracts: of one build
LIMITS_S = {"devices": 60, "conformance": 90, "libraries": 120, "cases": 300, "compile": 40, "bench": 40}
LIMITS_S |= {"contracts": 40}


def library_folders() -> str:
    """Where this Python's packages hold CUDA's libraries; deepjit finds toolkits by itself."""
    folders = {}
    for folder in sys.path:
        for name in ("libnvrtc.so.1*", "libcublasLt.so.1*", "libcudnn.so.9"):
            folders |= {str(found.parent): None for found in sorted(Path(folder).glob(f"nvidia/*/lib/{name}"))}
    return ":".join(folders)


class Session:
    def __init__(self, out: Path, device: str):
        self.out, self.device = out, device
        self.results: dict = {"parts": {}}
        out.mkdir(parents=True, exist_ok=True)
        for part in LIMITS_S:
            (out / f"{part}.log").unlink(missing_ok=True)
        self.env = dict(os.environ)
        if folders := library_folders():
            self.env.setdefault("DEEPJIT_CUDA_PATH", folders)
        self.env |= {"DEEPJIT_CASES": str(TESTS / "cases"), "DEEPJIT_TEST_DEVICE": device}

    def run(self, part: str, command: list) -> tuple[int, str]:
        """Exit code (124 when time was up) and stdout; all output goes to the end of PART.log."""
        with open(self.out / f"{part}.log", "a") as log, tempfile.TemporaryFile("w+") as text:
            print("$", *command, file=log, flush=True)
            process = subprocess.Popen([str(c) for c in command], stdout=text, stderr=log, env=self.env)
            try:
                code = process.wait(timeout=LIMITS_S[part])
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                code = 124
            text.seek(0)
            stdout = text.read()
            log.write(stdout)
        return code, stdout

    def finish(self, part: str, ok: bool, **facts) -> None:
        self.results["parts"][part] = {"ok": ok, **facts}
        (self.out / "results.json").write_text(json.dumps(self.results, indent=1))
        print(f"{part}: {'ok' if ok else 'FAILED'} {facts.get('summary', '')}", flush=True)

    def devices(self) -> None:
        code, text = self.run("devices", [ROOT / "bin/deepjit", "devices", "--measure", "--json"])
        found = json.loads(text) if code == 0 else {}
        here = [d for d in found.get("devices", []) if d["found"] and d["name"].startswith(self.device)]
        self.results["devices"] = found
        summary = ", ".join(f"{d['name']} {d['model']} copies {d.get('copy_gb_s', 0):.0f} GB/s" for d in here)
        self.finish("devices", code == 0 and bool(here), exit_code=code, summary=summary or "no such device here")

    def gtest(self, part: str, pattern: str) -> None:
        report = self.out / f"{part}.json"
        command = [TESTS / "deepjit_gpu_tests", f"--gtest_filter={pattern}", f"--gtest_output=json:{report}"]
        code, _ = self.run(part, command)
        tests = []
        if report.exists():
            tests = [t for suite in json.loads(report.read_text())["testsuites"] for t in suite["testsuite"]]
        skipped = [t["name"] for t in tests if t.get("result") == "SKIPPED"]
        failed = [t["name"] for t in tests if t.get("failures")]
        passed = len(tests) - len(skipped) - len(failed)
        summary = f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped"
        ok = code == 0 and passed > 0
        self.finish(part, ok, exit_code=code, summary=summary, failed=failed, skipped=skipped)

    def conformance(self) -> None:
        self.gtest("conformance", f"Kinds/*/{self.device.split(':')[0]}")

    def libraries(self) -> None:
        self.gtest("libraries", "LibrariesTest.*-LibrariesTest.Times*")

    def cases(self) -> None:
        self.gtest("cases", "Generated.*:Cases.*")

    def compile(self) -> None:
        """Builds some models with an empty cache and again with a full one."""
        rows, warm = [], 0
        for name in ("gelu_fp32", "norm_residual_gelu_fp32", "softmax_fp32", "chain_fp32"):
            with tempfile.TemporaryDirectory() as folder:
                command = [ROOT / "bin/deepjit", "build", TESTS / f"bench/{name}.onnx", "-o", Path(folder) / "m.dje"]
                command += ["--device", self.device, "--tune-cache", Path(folder) / "cache", "--json"]
                told = [json.loads(self.run("compile", command)[1] or "{}") for _ in range(2)]
            kernels = told[0].get("kernels_compiled", 0)
            each_ms = told[0].get("compile_s", 0) / max(kernels, 1) * 1e3
            rows.append({"name": name, "kernels": kernels, "ms_a_kernel": each_ms, "build_s": told[0].get("build_s")})
            warm += told[1].get("kernels_compiled", kernels + 1)
            print(f"  {name:32} {kernels} kernels, {each_ms:6.1f} ms each", flush=True)
        self.results["compile"] = rows
        ok = warm == 0 and all(row["kernels"] > 0 for row in rows)
        self.finish("compile", ok, summary=f"{len(rows)} models; {warm} kernels compiled again")

    def time_one(self, run: dict) -> tuple[int, str]:
        """Builds and times one model. Tuned on at most 16M elements: the reference, too, has to compute them."""
        tool, model = ROOT / "bin/deepjit", TESTS / "bench" / run["file"]
        ranges, shapes = [], []
        for name, dims in run["shapes"].items():
            tuned = min(dims[0], max(1, (1 << 24) // math.prod(dims[1:])))
            low, opt, high = ("x".join(map(str, [first, *dims[1:]])) for first in (1, tuned, dims[0]))
            ranges += ["--range", f"{name}={low}:{opt}:{high}"]
            shapes += ["--shapes", f"{name}={high}"]
        with tempfile.TemporaryDirectory() as folder:
            engine = Path(folder) / "m.dje"
            code, _ = self.run("bench", [tool, "build", model, "-o", engine, "--device", self.device, *ranges])
            if code != 0:
                return code, ""
            return self.run("bench", [tool, "bench", engine, "--json", "--seconds", "1", *shapes])

    def bench(self) -> None:
        rows, failed = [], []
        peak = next((d.get("copy_gb_s", 0) for d in self.results.get("devices", {}).get("devices", [])
                     if d["name"].startswith(self.device)), 0)  # fmt: skip
        for run in json.loads((TESTS / "bench/bench.json").read_text())["runs"]:
            code, text = self.time_one(run)
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
            self.results["bench"] = rows
        self.finish("bench", not failed, failed=failed, summary=f"{len(rows)} timed, {len(failed)} failed")

    def contracts(self) -> None:
        """Builds every model of one step and reads what was measured for it."""
        rows, failed = [], []
        self.run("contracts", [sys.executable, TESTS / "export_contracts.py", TESTS / "contracts"])
        for case in json.loads((TESTS / "contracts/contracts.json").read_text()):
            with tempfile.TemporaryDirectory() as folder:
                command = [ROOT / "bin/deepjit", "build", TESTS / f"contracts/{case['name']}.onnx", "--verbose"]
                command += ["-o", Path(folder) / "m.dje", "--device", self.device]
                log = self.out / "contracts.log"
                start = log.stat().st_size if log.exists() else 0
                code, _ = self.run("contracts", command)
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
            self.results["contracts"] = rows
        faults = [row["name"] for row in rows if row["dropped"]]
        self.finish("contracts", not failed and not faults, failed=failed, faults=faults, summary=f"{len(rows)} timed")


def main() -> int:
    parser = argparse.ArgumentParser(description="Tests and times a packed deepjit on a machine with a GPU.")
    parser.add_argument("--out", default=os.environ.get("OUT") or "build/gpu-test")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", default=",".join(LIMITS_S), help="parts, with commas: " + ",".join(LIMITS_S))
    given = parser.parse_args()
    session = Session(Path(given.out), given.device)
    session.results["started"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for part in given.only.split(","):
        start = time.time()
        try:
            getattr(session, part)()
        except Exception as fault:  # one part must not take the others with it
            session.finish(part, False, summary=repr(fault))
        session.results["parts"][part]["seconds"] = round(time.time() - start, 1)
    ok = all(part["ok"] for part in session.results["parts"].values())
    session.finish("all", ok)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
