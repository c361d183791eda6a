"""Asks every oracle about every case and says who agrees with whom.

usage: run_oracle.py [--case TEXT] [--way run|fed|folded] [--all-node-tests] [--step N] [--quiet]
Cases are those of tests/cases, with hand formulas; --all-node-tests takes ONNX's own node tests instead. The truth of
a case is the first oracle in the order formula, reference (deepjit without passes and tuning), onnx.reference, ONNX
Runtime without and with optimisation. One line a case: = agrees, x differs, k differs as oracle_faults.py knows,
- refuses.
Exit code 1 when deepjit differs from the truth, or an oracle does for no known reason.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import oracles
from oracle_faults import known

HERE = Path(__file__).resolve().parent
for folder in ("cases", "nodes"):
    sys.path.insert(0, str(HERE.parent / folder))
import agree  # noqa: E402
import rows  # noqa: E402, F401
from case import all_cases, model_of  # noqa: E402
from worker import UNSUPPORTED, is_random, read_values  # noqa: E402

COLUMNS = [*oracles.ORDER, "deepjit"]
NODE_TESTS = Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
MOST_TERMS = 4096


class Job(NamedTuple):
    title: str
    model: onnx.ModelProto
    feeds: dict
    formula: dict | None
    terms: int
    scale: float | None


class Line(NamedTuple):
    title: str
    marks: dict  # column -> one of "=xk- "
    notes: list  # (column, what differs)
    zeros: bool

    def __str__(self):
        return f"{self.title:<64} " + " ".join(f"{self.marks[c]:^{len(c)}}" for c in COLUMNS)


def job_of(case, way: str) -> Job:
    model, feeds = model_of(case, way)
    return Job(case.title, model, feeds, case.wants, case.terms, case.scale)


def case_jobs(text: str, way: str, step: int):
    return (job_of(case, way) for case in all_cases(text)[::step] if way in case.ways)


def node_jobs(text: str, step: int):
    """Node tests of tensors; those of random numbers have no right answer."""
    for folder in sorted(f for f in NODE_TESTS.iterdir() if text in f"node/{f.name}")[::step]:
        model = onnx.load(folder / "model.onnx")
        tensors = all(v.type.HasField("tensor_type") for v in [*model.graph.input, *model.graph.output])
        if not tensors or is_random(folder.name):
            continue
        feeds = read_values(folder / "test_data_set_0", "input", model.graph.input)
        if any(np.asarray(a).dtype.kind in "OUS" for a in feeds.values()):
            continue
        terms = min(MOST_TERMS, max((np.size(a) for a in feeds.values()), default=1))
        yield Job(f"node/{folder.name}", model, feeds, None, terms, None)


def compare(job: Job, truth: dict, got: dict, dtypes: dict) -> str | None:
    for name, want in truth.items():
        if name not in got:
            return f"{name}: missing"
        reason = agree.fault(name, np.asarray(want), got[name], dtypes[name], job.terms, job.scale)
        if reason:
            return reason
    return None


def examine(job: Job) -> Line:
    """Asks all; the first that answers is the truth the others are held against."""
    answers, marks, notes = {}, dict.fromkeys(COLUMNS, " "), []
    if job.formula is not None:
        answers["formula"] = job.formula
    for column in COLUMNS[1:]:
        answers[column], why = oracles.ask(column, job.model, job.feeds)
        if answers[column] is None:
            marks[column] = "-"
            notes.append((column, f"refuses: {why}"))
    first = next((c for c in oracles.ORDER if answers.get(c) is not None), None)
    if first is None:
        return Line(job.title, marks, notes, False)
    truth = answers[first]
    types = {o.name: o.type.tensor_type.elem_type for o in job.model.graph.output}
    dtypes = {n: np.dtype(onnx.helper.tensor_dtype_to_np_dtype(t)) for n, t in types.items()}
    for column, got in answers.items():
        if got is None:
            continue
        reason = None if column == first else compare(job, truth, got, dtypes)
        marks[column] = "=" if not reason else "k" if known(column, job.title) else "x"
        if reason:
            notes.append((column, reason))
    return Line(job.title, marks, notes, all(agree.mostly_zero(a) for a in truth.values() if np.size(a)))


def is_wrong(line: Line) -> bool:
    """A difference nobody knows, or a refusal of deepjit that is more than an honest "not supported"."""
    refused = "".join(reason for column, reason in line.notes if column == "deepjit" and line.marks[column] == "-")
    unsupported = any(f"[E{code} " in refused for code in UNSUPPORTED)
    return "x" in line.marks.values() or (line.marks["deepjit"] == "-" and not unsupported)


def run(jobs, args) -> list[Line]:
    wrong, totals, mistrusted, count = [], {c: Counter() for c in COLUMNS}, [], 0
    print(f"{'':<64} " + " ".join(COLUMNS))
    for job in jobs:
        line = examine(job)
        count += 1
        for column in COLUMNS:
            totals[column][line.marks[column]] += 1
        mistrusted += [line.title] if line.zeros else []
        if not args.quiet or is_wrong(line):
            print(line, flush=True)
        if is_wrong(line):
            wrong.append(line)
            for column, reason in line.notes:
                print(f"    {column}: {reason}")
            print(f"    {repro(job, args)}", flush=True)
    print(f"\n{count} cases; agree / differ / known to differ / refuse:")
    for column in COLUMNS:
        print(f"  {column:<16} " + " / ".join(str(totals[column][m]) for m in "=xk-"))
    print(
        f"mistrusted, over 30% zeros: {len(mistrusted)}" + (f" ({', '.join(mistrusted[:6])} ...)" if mistrusted else "")
    )
    print(f"unexplained: {len(wrong)}")
    return wrong


def repro(job: Job, args) -> str:
    more = " --all-node-tests" if args.all_node_tests else "" if args.way == "run" else f" --way {args.way}"
    return f"./dev python tests/oracle/run_oracle.py --case '{job.title}'{more}"


def main(argv: list[str]) -> list[Line]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", default="", help="only titles that contain this text")
    parser.add_argument("--way", default="run", choices=["run", "fed", "folded"])
    parser.add_argument("--all-node-tests", action="store_true")
    parser.add_argument("--step", type=int, default=1, help="every Nth case")
    parser.add_argument("--quiet", action="store_true", help="only cases with something wrong, and the totals")
    args = parser.parse_args(argv)
    jobs = node_jobs(args.case, args.step) if args.all_node_tests else case_jobs(args.case, args.way, args.step)
    return run(jobs, args)


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
