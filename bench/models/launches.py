"""Counts the kernels that one run launches, and the bytes that values between them take through memory, with regions
and without. Writes docs/launches.md.

usage: launches.py [NAME...] [--out FILE]      names of tools/model_feeds.py CASES and of bench/models/exports.py
--force: every generated kernel that is right is taken, fast or not, so that the counts do not depend on the machine.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import exports  # noqa: E402
import model_feeds  # noqa: E402
import models  # noqa: E402

CLI = ROOT / "build" / "dev" / "cli" / "deepjit"
REAL = ["ppocr_det_320", "ppocr_rec_48x320", "ppocr_cls", "silero_vad_16k", "magika", "open_nsfw", "basic_pitch"]
PAGE = """\
# Launches

Made by `bench/models/launches.py{arguments}`, which counts again; do not edit by hand.

One run of each model on one CPU thread. A *launch* is one step of the run: a library call, a generated kernel, or a
reference; views and sizes that are known beforehand are none. *as exported* runs the model's nodes without any pass
(`-O0`), *without regions* has all passes and epilogues but no generated kernels (`--disable regions`), *with
regions* is the default{forced}. The *traffic* is what values between kernels write and read at the shapes tuned for,
batch 1, by the why-ledger ([why.md](why.md)); the last column names the rules that keep most of what is left, in bytes.
The last five models have the nodes of torch.onnx.export and random weights (`bench/models/exports.py`).

| model | as exported | without regions | with regions | traffic without | with | saved | what keeps the rest |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |
"""


class Subject(NamedTuple):
    name: str
    path: Path
    ranges: dict
    feeds: dict


def real(name: str) -> Subject:
    case = model_feeds.case(name)
    return Subject(name, models.path(case.model), case.ranges, case.make(np.random.default_rng(7)))


def export(name: str) -> Subject:
    ranges = exports.RANGES[name]
    shapes = {key: opt for key, (_, opt, _) in ranges.items()}
    rng = np.random.default_rng(7)
    if name == "bert_base":
        feeds = {key: rng.integers(0, 2, shape) for key, shape in shapes.items()}
    else:
        feeds = {key: rng.standard_normal(shape, dtype=np.float32) for key, shape in shapes.items()}
    return Subject(name, exports.path(name), ranges, feeds)


def run(*words) -> str:
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stderr}")
    return done.stdout


def text_of(shape) -> str:
    return "x".join(map(str, shape))


def measure(subject: Subject, folder: Path, *options: str) -> dict:
    """Launches of one run, and the ledger, of a build with these options."""
    engine = folder / "m.dje"
    ranges = []
    for name, shapes in subject.ranges.items():
        ranges += ["--range", f"{name}=" + ":".join(text_of(shape) for shape in shapes)]
    run(CLI, "build", subject.path, "-o", engine, "--threads", 1, *ranges, *options)
    told = json.loads(run(CLI, "inspect", engine, "--json"))
    launches = told["launches"]
    if "control" in told["tactics"]:  # only a run tells which bodies run
        feeds = []
        for name, array in subject.feeds.items():
            file = folder / f"{len(feeds)}.npy"
            np.save(file, array)
            feeds += ["-i", f"{name}={file}"]
        launches = json.loads(run(CLI, "bench", engine, "--iterations", 1, "--json", *feeds))["launches"]
    return {"launches": launches, "ledger": told["ledger"]}


def traffic(ledger: list[dict]) -> int:
    return sum(entry["bytes_at_opt"] or 0 for entry in ledger)


def keepers(ledger: list[dict]) -> str:
    by_rule = Counter()
    for entry in ledger:
        by_rule[entry["rule"]] += entry["bytes_at_opt"] or 0
    total = sum(by_rule.values()) or 1
    return ", ".join(f"{rule} {100 * size / total:.0f}%" for rule, size in by_rule.most_common(3) if size > 0)


def mib(size: float) -> str:
    return f"{size / 2**20:.2f} MiB" if size >= 2**20 else f"{size / 2**10:.1f} KiB"


def row(subject: Subject, force: bool) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        exported = measure(subject, folder, "-O", "0", "--no-tune")
        steps = measure(subject, folder, "--disable", "regions", "--no-tune")
        fused = measure(subject, folder, *(["--force-tactic", "llvm"] if force else []))
    before, after = traffic(steps["ledger"]), traffic(fused["ledger"])
    saved = f"{mib(before - after)} ({100 * (before - after) / max(before, 1):.0f}%)"
    cells = [subject.name, exported["launches"], steps["launches"], fused["launches"], mib(before), mib(after), saved]
    return f"| {' | '.join(map(str, cells))} | {keepers(fused['ledger'])} |"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "launches.md")
    args = parser.parse_args(arguments)
    names = args.names or [*REAL, *exports.MAKERS]
    rows = []
    for name in names:
        rows.append(row(export(name) if name in exports.MAKERS else real(name), args.force))
        print(rows[-1], flush=True)
    forced = ", with every generated kernel that is right taken (`--force-tactic llvm`)" if args.force else ""
    words = " --force" if args.force else ""
    page = PAGE.format(arguments=words, forced=forced)
    args.out.write_text(page + "\n".join(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
