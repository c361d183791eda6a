"""The detector of bench/models/detector.py on a GPU, from the frame to the boxes: before fusion and after it, at a
fixed size and over a trace of mixed sizes, and beside ONNX Runtime.

gpu_detector.py --tool dist/deepjit/bin/deepjit --out FOLDER [--parts fixed,dynamic,trace,ort,more] [--seconds 540]

Forms: "unfused" has all passes but the fusion into regions and epilogues, "fused" is the default; "exported" has no
pass and a kernel for each node, with the pools and splits of the export on the CPU. "whole" includes NMS, which runs on
the CPU: its times are of both sides together. "net" ends before it, so its times are the GPU's alone. Nothing is begun
after --seconds; what matters most comes first, and gpu_detector.json is written after each. Needs onnx and numpy; ONNX
Runtime only for ort.
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
from tool import ROOT, Tool, gpu_facts, native  # first: it says where the modules below are

import blocks  # isort: skip
import boxes  # isort: skip
import detector  # isort: skip
import ort_peer  # isort: skip
import mixed_sizes  # isort: skip

FORMS = {
    "fused": [],
    "exported": ["-O", "0", "--disable", "regions"],
    "unfused": ["--disable", "regions", "--disable", "fuse_epilogue"],
}
# Part -> what it builds and times, in the order of their weight.
PLAN = {
    "fixed": [("fixed", "fused", "whole"), ("fixed", "unfused", "whole")],
    "dynamic": [("dynamic", "fused", "whole"), ("dynamic", "unfused", "whole")],
    "more": [("fixed", "fused", "net"), ("fixed", "unfused", "net"), ("fixed", "exported", "whole"),
             ("dynamic", "fused", "net"), ("dynamic", "unfused", "net")],
}  # fmt: skip
WIDE = ("/prepare", "/decode", "/nms")  # of ONNX Runtime's file: pixels and offsets do not fit float16
TIMED = ["480x640", "720x1280", "1080x1920"]  # of the dynamic one, by itself


class Story:
    def __init__(self, args):
        self.args, self.tool = args, Tool(args.tool, args.device)
        self.until = time.monotonic() + args.seconds
        self.size = detector.Size(
            args.width, 1, tuple(s // args.scale for s in (720, 1280)), 640 // args.scale // 32 * 32
        )
        self.told: dict = {
            "date": time.strftime("%Y-%m-%d"),
            "gpu": gpu_facts(),
            "precision": args.precision,
            "unit": "microseconds unless it says ms; the whole's times are of GPU and CPU together",
            "rows": [],
            "skipped": [],
        }
        self.engines: dict[tuple, Path] = {}

    def write(self) -> None:
        self.args.out.mkdir(parents=True, exist_ok=True)
        (self.args.out / "gpu_detector.json").write_text(json.dumps(self.told, indent=1))

    def left_s(self) -> float:
        return self.until - time.monotonic()

    def step(self, name: str, work) -> None:
        """One part of the story; when it fails it is told, and the rest goes on."""
        if self.left_s() < 20:
            self.told["skipped"].append(name)
        else:
            try:
                work()
            except Exception as fault:
                self.told["skipped"].append(f"{name}: {str(fault)[-600:]}")
                print(f"{name}: FAILED {str(fault)[-300:]}", flush=True)
        self.write()

    def model(self, kind: str, variant: str) -> Path:
        if variant == "whole":
            return detector.path(kind, self.args.folder, self.size)
        file = self.args.folder / f"net_{detector.path(kind, self.args.folder, self.size).name}"
        if not file.exists():
            onnx.save(detector.detector(kind, self.size, suppressed=False), file)
        return file

    def ranges(self, kind: str) -> dict:
        if kind == "fixed":
            return {"frame": (1, *self.size.frame, 3)}
        sides = ((64, 64), tuple(self.size.frame), tuple(side // self.args.scale for side in mixed_sizes.LARGEST))
        return {"frame": tuple((1, *s, 3) for s in sides)}

    def engine(self, kind: str, form: str, variant: str) -> tuple[Path, dict]:
        key = (kind, form, variant)
        path = self.args.folder / f"detector_{'_'.join(key)}.dje"
        options = [*FORMS[form], "--precision", self.args.precision, "--tune-cache", self.args.folder / "cache"]
        options += [*self.args.build_args.split(), "--build-budget", f"{max(10, int(self.left_s() / 2))}s"]
        built = self.tool.build(self.model(kind, variant), path, self.ranges(kind), options, self.left_s())
        self.engines[key] = path
        return path, {"build_s": round(built.build_s, 1), "kernels_compiled": built.kernels}

    def time_form(self, kind: str, form: str, variant: str) -> None:
        path, row = self.engine(kind, form, variant)
        row = {"kind": kind, "form": form, "variant": variant} | row
        frames = mixed_sizes.frames_of(self.args.scale)
        names = TIMED if kind == "dynamic" else ["720x1280"]
        row["sizes"] = {}
        for name in names:
            file = self.args.folder / f"frame_{name}.npy"
            np.save(file, frames[name])
            told = self.tool.bench(path, "-i", f"frame={file}", seconds=self.args.bench_seconds)
            keep = ("launches", "device_us", "host_us", "peak_bytes", "host_steps", "load_s")
            row["sizes"][name] = {key: told.get(key) for key in keep}
            print(f"{kind:8} {form:9} {variant:6} {name:10} {told['launches']:4} launches  "
                  f"GPU P50 {told['device_us']['p50']:9.1f} P95 {told['device_us']['p95']:9.1f}  host P50 "
                  f"{told['host_us']['p50']:9.1f} P95 {told['host_us']['p95']:9.1f} us", flush=True)  # fmt: skip
        self.told["rows"].append(row)

    def fused(self, kind: str) -> Path:
        key = (kind, "fused", "whole")
        return self.engines[key] if key in self.engines else self.engine(*key)[0]

    def run_trace(self) -> None:
        """In a fresh process, which has loaded no compiler."""
        report = self.args.folder / "trace.json"
        command = [sys.executable, Path(mixed_sizes.__file__), self.fused("dynamic"), "--json", report]
        command += ["--scale", self.args.scale, "--requests", self.args.requests, "--steady", self.args.steady]
        words = [str(word) for word in command]
        done = subprocess.run(words, capture_output=True, text=True, env=self.tool.env, timeout=max(20, self.left_s()))
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-800:])
        told = json.loads(report.read_text())
        self.told["trace"] = told
        for what in ("first", "again"):
            print(f"trace, {what:6} {told[what]['ms']} ms, of the steady P50 {told[what]['of_steady']}", flush=True)
        print(f"compilers in the process: {told['compilers_loaded'] or 'none'}", flush=True)

    def beside_ort(self) -> None:
        """Latencies from the frame in host memory to the boxes there, in one process and in turns; then its trace."""
        if (reason := ort_peer.why_not()) and self.args.device == "cuda" and not self.args.any_ort:
            self.told["ort"] = {"left_out": reason}
            print(f"ONNX Runtime: left out, {reason}", flush=True)
            return
        import onnxruntime

        told: dict = {"version": onnxruntime.__version__}
        where = "cpu" if self.args.any_ort else "cuda"
        half = functools.partial(ort_peer.half_model, keep=WIDE) if where == "cuda" else (lambda path: path)
        frames = mixed_sizes.frames_of(self.args.scale)
        start = time.time()
        session = ort_peer.session(half(self.model("fixed", "whole")), device=where)
        frame = {"frame": frames["720x1280"]}
        names = [o.name for o in session.get_outputs()]
        theirs = dict(zip(names, session.run(names, frame), strict=True))
        told["ready_s"] = round(time.time() - start, 1)
        context = native.load(self.fused("fixed")).create_context()
        prepared = context.prepared(frame)
        told["agreement"] = round(boxes.agreement(theirs, context.run(frame)), 3)

        def p50(call) -> float:
            return statistics.median(mixed_sizes.timed_ms(call) for _ in range(self.args.ort_runs)) * 1e3

        sides = {"ort": lambda: p50(lambda: session.run(names, frame))}
        mine, times = blocks.interleave(lambda: p50(lambda: context.run_prepared(prepared)), sides, 5)
        told |= {"deepjit_host_us": statistics.median(mine), "ort_host_us": statistics.median(times["ort"])}
        told |= blocks.compare(mine, times["ort"])
        print(f"host P50 at a fixed size: deepjit {told['deepjit_host_us']:.0f} us, ONNX Runtime "
              f"{told['ort_host_us']:.0f} us, ratio {told['ratio']:.2f} ({told['verdict']})", flush=True)  # fmt: skip
        self.told["ort"] = told
        self.write()
        session = ort_peer.session(half(self.model("dynamic", "whole")), device=where)
        calls = {name: (lambda f=f: session.run(names, {"frame": f})) for name, f in frames.items()}
        told["trace"] = mixed_sizes.measure(calls, mixed_sizes.requests(self.args.requests), self.args.steady)
        print(f"ONNX Runtime's trace, again: {told['trace']['again']}", flush=True)

    def run(self) -> None:
        for part in self.args.parts.split(","):
            for plan in PLAN.get(part, []):
                self.step(" ".join(plan), lambda plan=plan: self.time_form(*plan))
            if part == "trace":
                self.step(part, self.run_trace)
            if part == "ort":
                self.step(part, self.beside_ort)
        self.told["gpu_after"] = gpu_facts()
        self.write()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, default=ROOT / "build/dev/cli/deepjit")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT") or ROOT / "build/peers"))
    parser.add_argument("--folder", type=Path, default=Path("/tmp/deepjit_nets"))
    parser.add_argument("--parts", default="fixed,dynamic,trace,ort,more")
    parser.add_argument("--seconds", type=float, default=540, help="nothing is begun after this time")
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--steady", type=int, default=30, help="runs of each size by itself")
    parser.add_argument("--bench-seconds", type=float, default=2)
    parser.add_argument("--build-args", default="")
    parser.add_argument("--width", type=float, default=detector.Size().width, help="of the net, to try things out")
    parser.add_argument("--scale", type=int, default=1, help="divides all sides, to try things out")
    parser.add_argument("--ort-runs", type=int, default=100)
    parser.add_argument("--any-ort", action="store_true", help="take ONNX Runtime on the CPU, to try things out")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    story = Story(args)
    story.run()
    return 0 if story.told["rows"] and not story.told["skipped"] else 1


if __name__ == "__main__":
    sys.exit(main())
