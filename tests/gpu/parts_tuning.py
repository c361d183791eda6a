"""The part tuning of gpu_test.py: lockfiles, builds that are killed, budgets, engines from a machine without a GPU.

Uses a net of export_bench.py; where onnx and numpy are installed and bench/models/exports.py is at hand, also how
soon a ResNet-50 is ready. Each check is a row of results.json with what was found.
"""

import hashlib
import json
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpu_session import ROOT, TESTS, TOOL, Session, child_process

MODEL = "net.onnx"  # of export_bench.py
SHAPE = "x=1x3x64x64:4x3x64x64:16x3x64x64"
NO_GPU = {"DEEPJIT_CUDA_DRIVER": "/nonexistent/libcuda.so"}


def halves(path: Path) -> tuple:
    """The numbers of an .npy file of float16."""
    data = path.read_bytes()
    start = 10 + struct.unpack_from("<H", data, 8)[0]
    return struct.unpack_from(f"<{(len(data) - start) // 2}e", data, start)


class Checks:
    def __init__(self, session: Session, folder: Path):
        self.session, self.model, self.folder = session, TESTS / "bench" / MODEL, folder
        self.rows: list[dict] = []

    def call(self, *arguments, environment: dict | None = None) -> tuple[int, dict]:
        """Exit code, and the JSON that was printed."""
        limit_s = self.session.left_s("tuning")
        code, text = self.session.run("tuning", [TOOL, *arguments], limit_s, **(environment or {}))
        return code, json.loads(text) if code == 0 and text.startswith("{") else {}

    def build(self, name: str, *options, environment: dict | None = None) -> dict:
        command = ["build", self.model, "-o", self.folder / name, "--device", self.session.device, "--json"]
        code, told = self.call(*command, "--range", SHAPE, *options, environment=environment)
        if code != 0:
            raise RuntimeError(f"deepjit build ended with {code}")
        return told

    def agrees(self, name: str) -> bool:
        """The engine against the reference on the CPU."""
        results = []
        for source, options in ((self.model, ["--no-tune", "--threads", "1"]), (self.folder / name, [])):
            out = self.folder / f"{Path(source).name}.out"
            command = ["run", source, "-i", "x=random:1", "--shapes", "x=2x3x64x64", "-o", out, *options]
            if self.call(*command)[0] != 0:
                return False
            results.append({path.name: halves(path) for path in sorted(out.glob("*.npy"))})
        want, got = results
        if not want or want.keys() != got.keys():
            return False
        worst = max(abs(a - b) for key in want for a, b in zip(want[key], got[key], strict=True))
        scale = max(abs(a) for key in want for a in want[key])
        return worst <= 4e-3 * scale

    def note(self, check: str, ok: bool, **facts) -> None:
        self.rows.append({"check": check, "ok": ok, **facts})
        self.session.results["tuning"] = self.rows
        print(f"  {check:28} {'ok' if ok else 'FAILED'} {facts}", flush=True)

    def lockfile(self) -> None:
        sums, seconds = set(), []
        for _ in range(20):
            start = time.time()
            self.build("locked.dje", "--lock", self.folder / "lock")
            seconds.append(round(time.time() - start, 2))
            sums.add(hashlib.sha256((self.folder / "locked.dje").read_bytes()).hexdigest())
        facts = {"files": len(sums), "first_s": seconds[0], "last_s": seconds[-1]}
        self.note("20 builds with one lockfile", len(sums) == 1 and self.agrees("locked.dje"), **facts)

    def killed(self) -> None:
        cached = ["--tune-cache", str(self.folder / "cache")]
        command = [TOOL, "build", self.model, "-o", self.folder / "killed.dje", "--device", self.session.device]
        command += ["--range", SHAPE, *cached, "--verbose"]
        told, _ = child_process.kill_once_told(
            command, "<- selected", 3, stdout=subprocess.DEVNULL, env=self.session.env
        )
        again = self.build("killed.dje", *cached)
        last = self.build("killed.dje", *cached)
        facts = {key: again.get(key) for key in ("reused", "measured", "kernels_loaded", "kernels_compiled")}
        ok = (
            told == 3
            and again["reused"] >= 2
            and again["kernels_loaded"] > 0
            and last["measured"] == 0
            and last["kernels_compiled"] == 0
        )
        ok = ok and last["reused"] == again["reused"] + again["measured"]
        self.note("goes on after kill -9", ok and self.agrees("killed.dje"), **facts)

    def elsewhere(self) -> None:
        """Built as on a machine without a GPU, run here, tuned here, run again."""
        self.build("multi.dje", environment=NO_GPU)
        runs = self.agrees("multi.dje")
        code, after = self.call("tune", self.folder / "multi.dje", "--json")
        ok = runs and code == 0 and after["measured"] > 0 and after["measured_on"].startswith("on ")
        facts = {"runs_untuned": runs, "measured_on": after.get("measured_on"), "measured": after.get("measured")}
        self.note("built without a GPU, tuned", ok and self.agrees("multi.dje"), **facts)

    def budget(self) -> None:
        start = time.time()
        told = self.build("short.dje", "--build-budget", "1s")
        seconds = round(time.time() - start, 2)
        facts = {"seconds": seconds, "tune_s": round(told["stages_s"]["tune"], 2)}
        self.note("a budget of 1 s", told["stages_s"]["tune"] < 5 and self.agrees("short.dje"), **facts)

    def ready(self, exports: Path) -> None:
        """How soon a ResNet-50 gives its first output, cold: built with -O1, built with all, loaded."""
        model = self.folder / "resnet50.onnx"
        code, _ = self.session.run("tuning", [sys.executable, exports, "resnet50", "--folder", self.folder])
        if code != 0 or not model.exists():
            return self.note("resnet50 with -O1", True, skipped="onnx or numpy is not installed")
        shape, run = ["--range", "input=1x3x224x224"], ["-i", "input=random:1"]
        for name, options, limit_s in (("-O1", ["-O1"], 5), ("tuned", [], 30)):
            start = time.time()
            command = ["build", model, "-o", self.folder / "r.dje", "--device", self.session.device, "--json"]
            code, told = self.call(*command, "--precision", "fp16", *shape, *options)
            built_s = time.time() - start
            code |= self.call("run", self.folder / "r.dje", *run, "-o", self.folder / "out")[0]
            all_s = time.time() - start
            facts = {
                "build_s": round(built_s, 2),
                "with_first_run_s": round(all_s, 2),
                "stages_s": told.get("stages_s"),
            }
            facts |= {key: told.get(key) for key in ("kernels_compiled", "compile_s", "tactics", "measured")}
            self.note(f"resnet50 {name} in {limit_s} s", code == 0 and all_s <= limit_s, **facts)


def tuning(session: Session) -> None:
    """Lockfiles, killed builds, budgets, engines from a machine without a GPU; how soon a ResNet-50 is ready."""
    exports = ROOT.parents[1] / "bench/models/exports.py"  # of the repository that was packed
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(session, Path(folder))
        for check in (checks.lockfile, checks.killed, checks.elsewhere, checks.budget):
            try:
                check()
            except Exception as fault:  # one check must not take the others with it
                checks.note(check.__name__, False, fault=repr(fault))
        if exports.exists():
            checks.ready(exports)
    failed = [row["check"] for row in checks.rows if not row["ok"]]
    session.finish("tuning", not failed, failed=failed, summary=f"{len(checks.rows)} checks, {len(failed)} failed")
