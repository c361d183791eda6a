"""Hunts for wrong results: random valid ONNX graphs, each built in several ways and held against two oracles.

usage: run_random.py [--seed N] [--count N] [--seconds S] [--only-op NAME] [--workers N] [--no-shrink]
       [--coverage]
Each finding is shrunk and saved as NAME.onnx with its feeds (build/random/); exit code 1 when there is any.
"""

import argparse
import importlib.util
import sys
import time
from collections import Counter
from multiprocessing.connection import wait
from pathlib import Path

import graph_coverage
import numpy as np
import onnx
import shrink
from child_process import Child
from graph_random import generate
from random_check import Finding, serve

ROOT = Path(__file__).resolve().parent.parent.parent
TIMEOUT_S = 120.0  # for all builds of a graph, also where the machine has more to do
ORACLE_STAGES = ("generate", "oracles")


class Worker(Child):
    """One child process that checks cases; replaced when it dies or hangs."""

    def __init__(self):
        super().__init__(serve)

    def start(self):
        super().start()
        self.job, self.stage = None, ""

    def give(self, what, only_op=None, variant=None):
        self.job, self.since = what, time.monotonic()
        self.connection.send((what, only_op, variant))

    def poll(self):
        """(findings, split, nodes, what the graph has) when the job is over, else None."""
        try:
            while self.connection.poll(0):
                word, data = self.connection.recv()
                if word == "done":
                    self.job = None
                    return data
                self.stage = data
        except (EOFError, ConnectionError):
            return self.died(self.cause_of_death())
        if time.monotonic() - self.since > TIMEOUT_S:
            self.kill()
            return self.died(f"no answer after {TIMEOUT_S:.0f} s")
        return None

    def died(self, reason: str):
        stage = self.stage
        if not stage:
            sys.exit("the worker does not start")
        self.start()
        variant = stage.removeprefix("build ").removeprefix("run ")
        return [Finding("crash", variant, f"{reason} in {stage}")], False, 0, Counter()

    def check(self, case, variant=None):
        self.give(case._replace(model=case.model.SerializeToString()), None, variant)
        while (result := self.poll()) is None:
            wait([self.connection], timeout=0.5)
        return result[0]


def same_kind(found: Finding, other: Finding) -> bool:
    """Shrinking must not slide into another bug: the kind stays, and the first word of an error."""
    if found.kind != other.kind:
        return False
    return found.kind != "error" or found.detail.split(":")[1:2] == other.detail.split(":")[1:2]


def shrink_case(case, finding: Finding, worker: Worker, say) -> tuple:
    variant = finding.variant
    last = [finding]

    def shows(trial) -> bool:
        hits = [f for f in worker.check(trial, variant) if same_kind(finding, f)]
        last[:] = hits[:1] or last
        return bool(hits)

    if not shows(case):
        return case, finding
    return shrink.Shrinker(case, shows, say).run(), last[0]


def save(case, finding: Finding, folder: Path, only_op) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed{case.seed}_{finding.variant}.onnx"
    onnx.save(case.model, path)
    np.savez(path.with_suffix(".npz"), **{f"{b}/{n}": a for b, f in enumerate(case.feeds) for n, a in f.items()})
    repro = f"./dev python tests/oracle/run_random.py --seed {case.seed}" + (f" --only-op {only_op}" if only_op else "")
    path.with_suffix(".txt").write_text(f"{repro}\n{finding}\n{shrink.text_of(case.model)}\n")
    return path


def report(seed: int, findings: list, args, worker: Worker):
    first = findings[0]
    print(f"seed {seed}: " + "; ".join(f"{f.variant} {f.kind}: {f.detail}" for f in findings), flush=True)
    if args.no_shrink:
        return
    case = generate(seed, args.only_op)
    small, finding = shrink_case(case, first, worker, lambda text: None)
    path = save(small, finding, args.folder, args.only_op)
    print(f"  {len(small.model.graph.node)} nodes in {path}: {finding.variant} {finding.kind}: {finding.detail}")
    print("  ./dev python tests/oracle/run_random.py --seed", seed, flush=True)


class Hunt:
    def __init__(self, args):
        self.args, self.findings = args, {}
        self.graphs = self.nodes = self.splits = self.lost = 0
        self.reached = Counter()
        self.start = time.monotonic()

    def over(self, seed: int) -> bool:
        late = self.args.seconds is not None and time.monotonic() - self.start > self.args.seconds
        return late or (self.args.count is not None and seed >= self.args.seed + self.args.count)

    def run(self):
        pool = [Worker() for _ in range(self.args.workers)]
        seed = self.args.seed
        while not self.over(seed) or any(w.job is not None for w in pool):
            for worker in pool:
                if worker.job is None and not self.over(seed):
                    worker.give(seed, self.args.only_op)
                    seed += 1
            wait([w.connection for w in pool if w.job is not None], timeout=0.5)
            for worker in pool:
                self.collect(worker)
        for worker in pool:
            worker.close()

    def collect(self, worker: Worker):
        seed = worker.job
        if seed is None or (result := worker.poll()) is None:
            return
        worker.job = None
        findings, split, nodes, has = result
        self.reached.update(has)
        if findings and findings[0].kind == "crash" and findings[0].variant in ORACLE_STAGES:
            self.lost += 1  # an oracle died, before deepjit was asked
            print(f"seed {seed}: an oracle crashed: {findings[0].detail}", flush=True)
            return
        self.graphs += 1
        self.nodes += nodes
        self.splits += split
        if findings:
            self.findings[seed] = findings
            report(seed, findings, self.args, worker)
            worker.job = None
        if self.graphs % 100 == 0:
            print(self.summary(), file=sys.stderr, flush=True)

    def summary(self) -> str:
        return (
            f"{self.graphs} graphs, {self.nodes} nodes, {len(self.findings)} with findings, "
            f"{self.splits} where the oracles differ, {self.lost} lost to a crash of an oracle, "
            f"{time.monotonic() - self.start:.0f} s"
        )


def hunt(argv: list[str]) -> Hunt:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first seed; alone: just this one")
    parser.add_argument("--count", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--only-op", help="mostly ops of this name, such as Conv")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--coverage", action="store_true", help="say at the end what the graphs reached")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "random")
    args = parser.parse_args(argv)
    if args.count is None and args.seconds is None:
        args.count = 1
    if importlib.util.find_spec("deepjit") is None:
        parser.error("deepjit cannot be imported: run ./dev build, and this script with ./dev python")
    result = Hunt(args)
    result.run()
    if args.coverage:
        print(graph_coverage.table(result.reached, result.graphs))
    print(result.summary())
    return result


if __name__ == "__main__":
    sys.exit(1 if hunt(sys.argv[1:]).findings else 0)
