"""The why-ledger: each edge between two kernels, with the rule that keeps it."""

import json
import re
import subprocess
from pathlib import Path

import deepjit
import numpy as np
import pytest
from fused import CLI, launches, model
from why_cases import BLOCKED, CLEAN, IN, OPEN

ROOT = Path(__file__).resolve().parents[2]


def build(made, disable=(), **options):
    """Kernels do not share launches: what the ledger says of those is in test_combos.py."""
    return deepjit.build(made, **{"threads": 1, "force_tactic": "llvm", "disable": [*disable, "combos"], **options})


@pytest.mark.parametrize("case", BLOCKED, ids=str)
def test_blocked(case):
    """The ledger starts with the edge that the model was made for, and has no other rule."""
    engine = build(case.model(), ranges=case.ranges, **case.options)
    ledger = engine.why()
    assert ledger, "an empty ledger"
    assert {entry["rule"] for entry in ledger} == {case.rule}, ledger
    first = ledger[0]
    ops = tuple(op.removeprefix("deepjit.") for op in (first["producer"][1], first["consumer"][1]))
    assert ops == case.edge, first
    for words in case.says:
        assert words in first["reason"] + " " + first["fix"], first
    assert first["reason"] and first["fix"] and first["launches"] == 1
    assert first["bytes_at_opt"] is not None or first["bytes"] == "?", first


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name):
    made = model(*CLEAN[name])
    assert build(made, ranges=IN).why() == []


def test_every_case_has_a_rule_of_the_table():
    known = set(re.findall(r'X\(\w+, "([\w-]+)"', (ROOT / "src/program/why.h").read_text()))
    assert {case.rule for case in BLOCKED} <= known
    assert len(BLOCKED) >= 30


def test_largest_first_and_what_it_costs():
    made = model(
        "g (float[N,8,16] x) => (float[N,8,16] y, float[N,8] c)"
        "{ s = ReduceSum <keepdims = 0> (x, last) c = CumSum (s, one) t = Tanh (x) y = CumSum (t, one) }",
        {"last": np.array([-1]), "one": np.array(1)},
    )
    ledger = build(made, ranges={"x": ((1, 8, 16), (4, 8, 16), (9, 8, 16))}).why()
    assert [entry["bytes"] for entry in ledger] == ["N*1024", "N*64"]
    assert [entry["bytes_at_opt"] for entry in ledger] == [4096, 256]


def test_an_output_is_written_in_any_case():
    made = model(
        "g (float[N,16] x) => (float[N,16] t, float[N,16] y) { t = Tanh (x) y = CumSum (t, one) }", {"one": np.array(1)}
    )
    (entry,) = build(made, ranges={"x": (2, 16)}).why()
    assert entry["bytes_at_opt"] == 2 * 16 * 4


def test_a_step_that_must_run_between():
    """The edge around the foreign op names it."""
    made = model(
        "g (float[N,16] x) => (float[N,16] y) { a = Sigmoid (x) m = CumSum (a, one) b = Tanh (m) y = Add (a, b) }",
        {"one": np.array(1)},
    )
    ledger = build(made, ranges={"x": (2, 16)}).why()
    (around,) = [entry for entry in ledger if entry["rule"] == "step-between"]
    assert (around["producer"][1], around["consumer"][1]) == ("Sigmoid", "Add")
    assert "CumSum" in around["reason"]
    assert {entry["rule"] for entry in ledger} == {"step-between", "op-not-generated"}


def test_engine_file_and_command_line_say_the_same(tmp_path):
    case = next(case for case in BLOCKED if case.rule == "dims-not-equal")
    engine = build(case.model(), ranges=case.ranges)
    engine.save(tmp_path / "m.dje")
    assert deepjit.load(tmp_path / "m.dje").why() == engine.why()

    def inspect(*words):
        done = subprocess.run([CLI, "inspect", tmp_path / "m.dje", *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    ledger = json.loads(inspect("--json"))["ledger"]
    for told, entry in zip(ledger, engine.why(), strict=True):
        assert (told["producer"]["node"], told["producer"]["op"]) == entry["producer"]
        assert (told["consumer"]["node"], told["consumer"]["op"]) == entry["consumer"]
        same = ("value", "type", "rule", "reason", "fix", "bytes", "bytes_at_opt", "launches")
        assert {key: told[key] for key in same} == {key: entry[key] for key in same}
    text = inspect("--why")
    for entry in engine.why():
        assert entry["rule"] in text and entry["reason"] in text and entry["fix"] in text


def test_regions_that_run_step_by_step_say_so(tmp_path):
    made = model(OPEN + "{ t = Tanh (x) y = Exp (t) }")
    engine = build(made, ranges=IN, force_tactic="reference")
    engine.save(tmp_path / "m.dje")
    done = subprocess.run([CLI, "inspect", tmp_path / "m.dje", "--json"], capture_output=True, text=True, timeout=60)
    steps = json.loads(done.stdout)["steps"]
    (region,) = [step for step in steps if step["op"] == "deepjit.Region"]
    assert region["runs"] == "step by step: tactic-forced" and region["why"] == "tactic-forced"
    assert json.loads(done.stdout)["launches"] == 2


def test_lockfile_gives_the_same_ledger(tmp_path):
    made = model(OPEN + "{ t = Tanh (x) y = Exp (t) }")
    options = {"ranges": IN, "threads": 1, "lock": tmp_path / "m.lock"}
    first = deepjit.build(made, **options)
    again = deepjit.build(made, **options)
    assert again.why() == first.why() and again.serialize() == first.serialize()


@pytest.mark.parametrize(("disable", "count"), [((), 1), (("regions",), 3)], ids=["regions", "steps"])
def test_launches_before_and_after_fusion(disable, count, tmp_path):
    """What inspect counts is what a run launches."""
    engine = build(model(OPEN + "{ t = Tanh (x) e = Exp (t) y = Mul (e, x) }"), ranges=IN, disable=disable)
    engine.save(tmp_path / "m.dje")
    done = subprocess.run([CLI, "inspect", tmp_path / "m.dje", "--json"], capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["launches"] == count
    assert launches(engine, {"x": (2, 8, 16)}, tmp_path) == count
    assert len(engine.why()) == (0 if count == 1 else 2)
