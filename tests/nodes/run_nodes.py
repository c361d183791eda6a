"""Runs ONNX's own tests (those of the installed onnx package) through deepjit and keeps account of each.

usage: run_nodes.py [--set NAME] [-k TEXT] [--workers N] [--report FILE] [--update] [--device cuda] [--native]
The sets are node, pytorch-converted, pytorch-operator and simple. A test passes, fails, is unsupported (refused with a
clean error) or crashes. Each that does not pass must stand in tests/known_failures/NAME_tests.txt with its code; an
entry that passes is stale. Both make the exit code 1.
"""

import argparse
import functools
import importlib.util
import json
import sys
import time
from collections import Counter
from multiprocessing.connection import wait
from pathlib import Path
from typing import NamedTuple

import onnx
import worker
from child_process import Child

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
SETS = ["node", "pytorch-converted", "pytorch-operator", "simple"]
TIMEOUT_S = 60.0
DEVICE_LOST = 701

HEADER = """\
# ONNX tests that do not pass, each with its error code (0: wrong values or no clean error) and the reason.
# Written by: tests/nodes/run_nodes.py --update, which keeps the reasons of E000 as they stand.
"""


class Outcome(NamedTuple):
    status: str  # passed, failed, unsupported, crashed
    code: int
    reason: str
    on_device: bool = False  # a step ran on the GPU


class Worker(Child):
    """One child process that runs tests; replaced when it dies or hangs."""

    def __init__(self, how: worker.How):
        super().__init__(functools.partial(worker.serve, how=how))

    def start(self):
        super().start()
        self.test: Path | None = None

    def give(self, test: Path):
        self.test, self.since = test, time.monotonic()
        self.connection.send(str(test))

    def hangs(self) -> bool:
        return self.test is not None and time.monotonic() - self.since > TIMEOUT_S

    def result(self) -> Outcome:
        try:
            found = Outcome(*self.connection.recv())
            if found.code == DEVICE_LOST:  # a process that saw it gets no other device
                super().kill()
                self.start()
            return found
        except (EOFError, ConnectionError):
            name = self.cause_of_death()
            self.start()
            return Outcome("crashed", 0, name)

    def kill(self) -> Outcome:
        super().kill()
        self.start()
        return Outcome("crashed", 0, f"no answer after {TIMEOUT_S:.0f} s")


def progress(done: int, total: int, since: float):
    if sys.stderr.isatty() or done % 200 == 0 or done == total:
        end = "\r" if sys.stderr.isatty() and done < total else "\n"
        print(f"node tests {done}/{total}, {time.monotonic() - since:.0f} s", end=end, file=sys.stderr, flush=True)


def run_tests(
    tests: list[Path], workers: int, how: worker.How = worker.CPU, seconds: float = float("inf")
) -> dict[str, Outcome]:
    """Those that were begun within this time."""
    outcomes: dict[str, Outcome] = {}
    queue = list(reversed(tests))
    pool = [Worker(how) for _ in range(min(workers, len(tests)))]
    since = time.monotonic()
    for each in pool:
        each.give(queue.pop())
    while any(w.test for w in pool):
        if time.monotonic() - since > seconds:
            queue.clear()
        ready = wait([w.connection for w in pool if w.test], timeout=1.0)
        for each in pool:
            if each.test is None or not (each.connection in ready or each.hangs()):
                continue
            test = each.test
            outcomes[test.name] = each.result() if each.connection in ready else each.kill()
            each.test = None
            progress(len(outcomes), len(tests), since)
            if queue:
                each.give(queue.pop())
    for each in pool:
        each.close()
    return dict(sorted(outcomes.items()))


def known_file(name: str) -> Path:
    return ROOT / "tests" / "known_failures" / f"{name.replace('-', '_')}_tests.txt"


def read_known(name: str = "node") -> dict[str, int]:
    known = {}
    path = known_file(name)
    if path.exists():
        for line in path.read_text().splitlines():
            if line and not line.startswith("#"):
                name, code, _ = line.split(maxsplit=2)
                known[name] = int(code.lstrip("E"))
    return known


def lines_of(outcomes: dict[str, Outcome], reasons: dict[str, str] | None = None) -> list[str]:
    """One line for each test that did not pass; machine paths never get in. `reasons` go before what was seen."""
    width = max((len(n) for n, o in outcomes.items() if o.status != "passed"), default=0)
    text = []
    for name, o in outcomes.items():
        if o.status != "passed":
            seen = o.reason.encode("ascii", "replace").decode().replace(str(DATA) + "/", "")
            text.append(f"{name:<{width}} E{o.code:03d} {(reasons or {}).get(name) or f'{o.status}: {seen}'}")
    return text


def kept_reasons(outcomes: dict[str, Outcome], path: Path) -> dict[str, str]:
    """The reasons of entries of E000, written by hand, as long as the test still fails so."""
    lines = path.read_text().splitlines() if path.exists() else []
    entries = (line.split(maxsplit=2) for line in lines if line and line[0] != "#")
    return {n: r for n, c, r in entries if c == "E000" and n in outcomes and outcomes[n].code == 0}


def surprises(outcomes: dict[str, Outcome], known: dict[str, int], how: worker.How = worker.CPU) -> list[str]:
    """What differs from the list of known failures, one line each. The list is the CPU's; a GPU may pass more."""
    found = []
    for name, o in outcomes.items():
        if o.status == "passed":
            if name in known and how == worker.CPU:
                found.append(f"{name}: passes now, its entry is stale")
        elif o.status == "crashed":
            found.append(f"{name}: crashed: {o.reason}")
        elif name not in known:
            found.append(f"{name}: {o.status} [E{o.code:03d}] {o.reason}")
        elif known[name] != o.code:
            found.append(f"{name}: E{o.code:03d}, its entry says E{known[name]:03d}: {o.reason}")
    return found


def select(text: str | None, name: str = "node", data: Path = DATA) -> list[Path]:
    folders = sorted((data / name).iterdir())
    return [f for f in folders if (f / "model.onnx").exists() and (not text or text in f.name)]


def write_known(name: str, outcomes: dict[str, Outcome]):
    path = known_file(name)
    lines = lines_of(outcomes, kept_reasons(outcomes, path))
    if lines or name == "node":
        path.write_text(HEADER + "\n".join(lines) + "\n")
    else:
        path.unlink(missing_ok=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", choices=SETS, default="node", help="which of ONNX's sets of tests")
    parser.add_argument("-k", help="only tests whose name contains this text")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--report", type=Path, default=ROOT / "build" / "node_tests.txt", help="each non-pass, a line")
    parser.add_argument(
        "--device", default="cpu", help="what the tests run on; cuda: untuned, at the types' tolerances"
    )
    parser.add_argument("--native", action="store_true", help="through the C ABI (tools/native.py)")
    parser.add_argument("--data", type=Path, default=DATA, help="where the sets are [default: in the onnx package]")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no further test is begun after this time")
    parser.add_argument("--json", type=Path, help="write the outcome of each test")
    parser.add_argument("--update", action="store_true", help="rewrite the list of known failures")
    args = parser.parse_args(argv)
    if not args.native and importlib.util.find_spec("deepjit") is None:
        parser.error("deepjit cannot be imported: run ./dev build, and this script with ./dev python")
    if args.update and (args.k or args.device != "cpu"):
        parser.error("--update needs all tests, on the CPU")
    tests = select(args.k, args.set, args.data)
    if not tests:
        parser.error(f"no test in {args.data / args.set} matches")
    how = worker.How(args.device, args.native)
    outcomes = run_tests(tests, args.workers, how, args.seconds)
    args.report.parent.mkdir(parents=True, exist_ok=True)
    args.report.write_text("\n".join(lines_of(outcomes)) + "\n")
    count = Counter(o.status for o in outcomes.values())
    print(", ".join(f"{s} {count[s]}" for s in ("passed", "failed", "unsupported", "crashed")))
    if len(outcomes) < len(tests):
        print(f"no time for {len(tests) - len(outcomes)} more")
    if args.device != "cpu":
        print(f"{sum(o.on_device for o in outcomes.values())} with kernels on the GPU")
    if args.json:
        args.json.write_text(json.dumps({n: o._asdict() for n, o in outcomes.items()}, indent=1))
    if args.update:
        write_known(args.set, outcomes)
    found = surprises(outcomes, read_known(args.set), how)
    for line in found[:50]:
        print(line)
    if len(found) > 50:
        print(f"and {len(found) - 50} more; all non-passes are in {args.report}")
    return 1 if found or len(outcomes) < len(tests) else 0


if __name__ == "__main__":
    sys.exit(main())
