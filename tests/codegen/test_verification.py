"""Kernels are verified before they are used: within the tolerance of the result's type, or the user's."""

import json
import subprocess

import deepjit
import onnx
import pytest
from fused import CLI, REGION, Fused, model

CHAIN = "g (float[N,W] x) => (float[N,W] y) { t = Tanh (x) e = Exp (t) y = Mul (e, x) }"
HALF = "g (float16[N,W] x) => (float16[N,W] y) { t = Tanh (x) e = Exp (t) y = Mul (e, x) }"
NORM = "g (float[N,W] x) => (float[N,W] y) { t = Tanh (x) y = Softmax (t) }"
RANGES = {"x": ((1, 64), (9, 64), (99, 64))}


# What a float16 result hides of its kernel's error may be all of it.
@pytest.mark.parametrize(
    ("text", "least", "most"),
    [(CHAIN, 1e-9, 1e-5), (HALF, 0, 1e-3), (NORM, 1e-9, 1e-5)],
    ids=["float", "half", "rows"],
)
def test_the_error_stays_in_the_engine(text, least, most, tmp_path):
    fused = Fused(model(text), ranges=RANGES)
    fused.assert_generated()
    (region,) = fused.regions
    assert least <= region["max_error"] <= most
    fused.engine.save(tmp_path / "m.dje")
    assert deepjit.load(tmp_path / "m.dje").steps == fused.engine.steps
    done = subprocess.run([CLI, "inspect", tmp_path / "m.dje", "--json"], capture_output=True, text=True, timeout=60)
    told = [step["max_error"] for step in json.loads(done.stdout)["steps"] if step["op"] == REGION]
    assert told == [region["max_error"]]
    text = subprocess.run([CLI, "inspect", tmp_path / "m.dje", "--steps"], capture_output=True, text=True).stdout
    assert f"{region['max_error']:.1e}" in next(line for line in text.splitlines() if REGION in line)


def test_the_users_tolerance_is_honoured():
    """No kernel gives a Tanh to the last bit: a tolerance of nothing drops it, names it, and the ledger says so."""
    fused = Fused(model(CHAIN), ranges=RANGES, tolerance=1e-12)
    (line,) = fused.dropped()
    assert "relative error" in line and "allowed is 1.0e-12" in line
    (region,) = fused.regions
    assert region["tactic"].startswith("reference")
    assert region["name"] in line
    ledger = fused.engine.why()
    assert {entry["rule"] for entry in ledger} == {"kernel-wrong"}
    assert all("relative error" in entry["reason"] for entry in ledger)
    Fused(model(CHAIN), ranges=RANGES, tolerance=0.5).assert_generated()


def test_a_choice_of_another_tolerance_is_not_reused(tmp_path):
    """Neither from the cache nor from a lockfile."""
    loose = Fused(model(CHAIN), ranges=RANGES)
    loose.assert_generated()
    (tmp_path / "m.lock").write_text(loose.engine.lock_text)
    strict = {"ranges": RANGES, "threads": 1, "tolerance": 1e-12}
    engine = deepjit.build(model(CHAIN), lock=tmp_path / "m.lock", **strict)
    assert engine.report["tuning"]["reused"] == 0
    assert [s["tactic"] for s in engine.steps if s["op"] == REGION] == ["reference:steps"]


@pytest.mark.parametrize("bad", [0, -1, 2, "much", float("nan")], ids=str)
def test_a_tolerance_that_is_none(bad):
    with pytest.raises(deepjit.Error, match="tolerance") as caught:
        deepjit.build(model(CHAIN), tolerance=bad)
    assert caught.value.code == 804


def test_on_the_command_line(tmp_path):
    onnx.save(model(CHAIN), tmp_path / "m.onnx")
    command = [CLI, "inspect", tmp_path / "m.onnx", "--json", "--range", "x=9x64", "--force-tactic", "llvm"]
    for tolerance, rules in (("1e-12", {"kernel-wrong"}), ("1e-3", set())):
        done = subprocess.run([*command, "--kernel-tolerance", tolerance], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert {entry["rule"] for entry in json.loads(done.stdout)["ledger"]} == rules
