"""Runs one model through deepjit in several ways and through the oracles, and says what does not agree.

Runs in a worker process: `serve` answers each job with findings, and tells the stage before it starts it, so that
a crash is named.
"""

import resource
import warnings
from collections import Counter
from typing import NamedTuple

import numpy as np
import onnx
from node_eval import difference, is_float, magnitude, runtime_session
from onnx.reference import ReferenceEvaluator

MEMORY_LIMIT = 8 << 30
BUDGET_S = 0.15
FACTOR, FLOOR = 8.0, 1e-6


class Finding(NamedTuple):
    kind: str  # mismatch, error, crash
    variant: str
    detail: str


def variants(seed: int, passes: list[str]) -> dict[str, dict]:
    """How to build: always the ends, and by the seed one pass off, one level between and one forced provider."""
    made = {
        "O3": {"tune": False},
        "O0": {"tune": False, "level": 0},
        "tuned": {"budget": BUDGET_S},
    }
    names = sorted(set(passes))
    if names:
        off = names[seed % len(names)]
        made[f"without-{off}"] = {"tune": False, "disable": [off]}
    made[("O1", "O2")[seed % 2]] = {"tune": False, "level": 1 + seed % 2}
    made["onednn"] = {"force_tactic": "onednn", "budget": 2.0}
    return made


def shape_ranges(model, feeds: list) -> dict:
    """Ranges that cover all bindings, the first one in the middle of things."""
    ranges = {}
    for info in model.graph.input:
        if info.name not in feeds[0]:
            continue
        shapes = np.array([f[info.name].shape for f in feeds], np.int64).reshape(len(feeds), -1)
        ranges[info.name] = tuple(tuple(int(d) for d in s) for s in (shapes.min(0), shapes[0], shapes.max(0)))
    return ranges


def mismatch(name: str, want, got, error: float) -> str | None:
    got = np.asarray(got)
    if got.dtype != want.dtype:
        return f"{name}: dtype {got.dtype}, expected {want.dtype}"
    if got.shape != want.shape:
        return f"{name}: shape {list(got.shape)}, expected {list(want.shape)}"
    gap = difference(want, got)
    allowed = FACTOR * error + FLOOR * max(1.0, magnitude(want)) if is_float(want) else 0.0
    if gap <= allowed:
        return None
    bad = ~np.isclose(got.astype(float), want.astype(float), rtol=0, atol=allowed, equal_nan=True)
    where = tuple(int(i) for i in np.argwhere(bad)[0]) if bad.any() else ()
    return f"{name}: off by {gap:.3g} (allowed {allowed:.3g}) at {list(where)}: {got[where]}, expected {want[where]}"


def compare(wants: dict, gots: dict, errors: dict) -> str | None:
    for name, want in wants.items():
        if name not in gots:
            return f"output {name} is missing"
        reason = mismatch(name, want, gots[name], errors[name])
        if reason:
            return reason
    return None


def oracle_runs(model, feeds: list, names: list) -> dict[str, list]:
    """What each whole-model oracle answers at each binding; an oracle that fails is left out."""
    answers = {}
    try:
        session = runtime_session(model)
        answers["runtime"] = [dict(zip(names, session.run(names, f), strict=True)) for f in feeds]
    except Exception:
        pass
    return answers


def reference_run(model, feed: dict, names: list) -> dict | None:
    if any(n.op_type == "Resize" for n in model.graph.node):
        return None  # takes minutes
    try:
        with np.errstate(all="ignore"):
            return dict(zip(names, map(np.asarray, ReferenceEvaluator(model).run(names, feed)), strict=True))
    except Exception:
        return None


class Checker:
    def __init__(self, case, only_variant: str | None, tell):
        self.case, self.only, self.tell = case, only_variant, tell
        self.names = [o.name for o in case.model.graph.output]
        self.findings: list[Finding] = []
        self.split = False

    def run(self):
        import deepjit

        case = self.case
        self.deepjit = deepjit
        self.data = case.model.SerializeToString()
        self.tell("oracles")
        self.answers = oracle_runs(case.model, case.feeds, self.names)
        for want, got, errors in zip(case.expected, self.answers.get("runtime", []), case.errors, strict=False):
            self.split = self.split or compare(want, got, errors) is not None
        engine = self.check("O3", {"tune": False}) if self.wanted("O3") else None
        passes = [p["name"] for p in engine.report["passes"]] if engine else []
        if self.only and self.only.startswith("without-"):
            passes = [self.only[len("without-") :]]
        for name, options in variants(case.seed, passes).items():
            if name != "O3" and (self.wanted(name) or (name == "tuned" and self.wanted("loaded"))):
                self.check(name, options)
        return self.findings, self.split

    def wanted(self, name: str) -> bool:
        return self.only in (None, name)

    def check(self, name: str, options: dict):
        """Builds and runs; the engine, or None after a finding."""
        ranges = shape_ranges(self.case.model, self.case.feeds) if self.case.seed % 3 == 0 else None
        self.tell(f"build {name}")
        try:
            engine = self.deepjit.build(self.data, threads=1 + self.case.seed % 2, ranges=ranges, **options)
        except self.deepjit.Error as error:
            self.findings.append(Finding("error", name, f"build: {error.name}: {error.message}"))
            return None
        self.tell(f"run {name}")
        fine = self.compare_runs(name, engine)
        if fine and name == "tuned" and self.wanted("loaded"):
            self.tell("load")
            try:
                loaded = self.deepjit.load(engine.serialize())
            except self.deepjit.Error as error:
                self.findings.append(Finding("error", "loaded", f"load: {error.name}: {error.message}"))
                return engine
            self.tell("run loaded")
            self.compare_runs("loaded", loaded)
        return engine if fine else None

    def compare_runs(self, name: str, engine) -> bool:
        """Every binding, and the first one again: a context forgets nothing and keeps nothing."""
        order = [*range(len(self.case.feeds)), 0] if len(self.case.feeds) > 1 else [0]
        for b in order:
            try:
                got = engine.run(self.case.feeds[b])
            except self.deepjit.Error as error:
                self.findings.append(Finding("error", name, f"run {b}: {error.name}: {error.message}"))
                return False
            reason = compare(self.case.expected[b], got, self.case.errors[b])
            if reason and not self.backed(b, got):
                self.findings.append(Finding("mismatch", name, f"run {b}: {reason}"))
                return False
        return True

    def backed(self, b: int, got: dict) -> bool:
        """Whether another oracle answers as deepjit does."""
        if "runtime" in self.answers and not compare(self.answers["runtime"][b], got, self.case.errors[b]):
            return True
        whole = reference_run(self.case.model, self.case.feeds[b], self.names)
        return whole is not None and not compare(whole, got, self.case.errors[b])


def serve(connection) -> None:
    """Jobs: (case or seed, only op, only variant); None ends."""
    import deepjit  # noqa: F401  (fails here, before the first job, when it cannot be loaded)
    from graph_coverage import reached
    from graph_random import generate

    warnings.filterwarnings("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def tell(stage: str):
        connection.send(("stage", stage))

    while (job := connection.recv()) is not None:
        what, only_op, variant = job
        tell("generate")
        case = generate(what, only_op) if isinstance(what, int) else what._replace(model=parsed(what.model))
        if case is None:
            connection.send(("done", ([], False, 0, Counter())))
            continue
        findings, split = Checker(case, variant, tell).run()
        connection.send(("done", (findings, split, len(case.model.graph.node), reached(case))))


def parsed(model):
    return onnx.ModelProto.FromString(model) if isinstance(model, bytes) else model
