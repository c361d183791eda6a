"""Tests and times a packed deepjit on a machine with a GPU. Needs Python 3; some parts need packages, which they name.

gpu_test.py [--out FOLDER] [--device cuda] [--only PART,PART]

Each part has a time limit of its own, so that one that fails loses little. Without --only run the quick ones: devices,
conformance, libraries, cases, compile, bench, contracts, io, tuning. The others are named: nodes (ONNX's node tests),
models (real models against the CPU, from the folder of export_models.py), sanitizer (compute-sanitizer over generated
kernels), ncu (counters of each kernel). What a part does stands in parts_*.py. results.json and a log for each part go
to FOLDER: $OUT, else build/gpu-test. Exit code 0 only when all parts passed.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import parts_device
import parts_time
import parts_tuning
import parts_whole
from gpu_session import Session

# Part -> what it does, and seconds; of compile, bench and contracts: of one build.
QUICK = {
    "devices": (parts_device.devices, 60),
    "conformance": (parts_device.conformance, 90),
    "libraries": (parts_device.libraries, 120),
    "cases": (parts_device.cases, 300),
    "compile": (parts_time.compile_times, 40),
    "bench": (parts_time.bench, 40),
    "contracts": (parts_time.contracts, 40),
    "io": (parts_whole.io, 120),
    "tuning": (parts_tuning.tuning, 240),
}
LONG = {
    "nodes": (parts_whole.nodes, 400),
    "models": (parts_whole.models, 400),
    "sanitizer": (parts_whole.sanitizer, 500),
    "ncu": (parts_time.ncu, 300),
}
PARTS = QUICK | LONG


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.environ.get("OUT") or "build/gpu-test")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", default=",".join(QUICK), help="parts, with commas: " + ",".join(PARTS))
    parser.add_argument("--most", type=int, default=600, help="seconds of any part")
    given = parser.parse_args()
    wanted = given.only.split(",")
    if unknown := [part for part in wanted if part not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)}")
    session = Session(
        Path(given.out), given.device, {part: min(limit, given.most) for part, (_, limit) in PARTS.items()}
    )
    session.results["started"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for part in wanted:
        session.begin(part)
        start = time.time()
        try:
            PARTS[part][0](session)
        except Exception as fault:  # one part must not take the others with it
            session.finish(part, False, summary=repr(fault))
        session.results["parts"][part]["seconds"] = round(time.time() - start, 1)
    ok = all(part["ok"] for part in session.results["parts"].values())
    session.finish("all", ok)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
