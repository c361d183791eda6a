"""Every seeded mistake is found and named, and nothing else is; clean models and settings pass."""

import re

import models
import onnx
import pytest
from clean import CLEAN, LOOKALIKES
from seeded import SEEDED

from program import ROOT

SEVERITY_CODES = {"note": 0, "warning": 1, "error": 3}


@pytest.mark.parametrize("name", SEEDED)
def test_seeded_mistake_is_found_and_nothing_else(name, doctor):
    seed = SEEDED[name]
    result = doctor(seed.make(), *seed.options)
    assert result.err == ""
    findings = result.json["findings"]
    assert {f["rule"] for f in findings} == {seed.rule}, [f["message"] for f in findings]
    found = findings[0]
    if seed.where:
        assert seed.where in (found["node"], found["value"])
    for key in ("message", "why", "hint", "title"):
        assert found[key]
    assert result.code == SEVERITY_CODES[found["severity"]]


MILD = ["fixed batch", "fixed sequence", "gelu in pieces", "cast to itself"]


@pytest.mark.parametrize("name", SEEDED)
def test_only_harmless_ones_are_notes(name, doctor):
    seed = SEEDED[name]
    found = doctor(seed.make(), *seed.options).json["findings"][0]
    assert (found["severity"] == "note") == (name in MILD)


def test_the_table_knows_what_can_be_mended(doctor):
    table = (ROOT / "src" / "doctor" / "rules.cpp").read_text()
    mendable = {rule for rule, flag in re.findall(r'\{"(DJ\d+)"[^}]*?, (true|false)\}', table) if flag == "true"}
    seen = {}
    for seed in SEEDED.values():
        for found in doctor(seed.make(), *seed.options).json["findings"]:
            seen[seed.rule] = seen.get(seed.rule, False) or found["fixable"]
    # The seed of DJ141 has an opset without the operator.
    assert mendable == {rule for rule, fixable in seen.items() if fixable} | {"DJ141"}


def test_every_rule_has_a_seed():
    """DJ100, DJ607 and DJ608 have tests of their own."""
    ids = re.findall(r'\{"(DJ\d+)"', (ROOT / "src" / "doctor" / "rules.cpp").read_text())
    assert {s.rule for s in SEEDED.values()} == set(ids) - {"DJ100", "DJ607", "DJ608"}


def test_thirty_mistakes_of_all_families():
    assert len(SEEDED) >= 30
    assert {seed.rule[:3] for seed in SEEDED.values()} == {"DJ1", "DJ2", "DJ3", "DJ4", "DJ5", "DJ6", "DJ7"}


@pytest.mark.parametrize("name", CLEAN)
def test_clean_model_has_no_finding(name, doctor):
    make, options = CLEAN[name]
    onnx.checker.check_model(make().model())
    result = doctor(make(), *options)
    assert result.err == ""
    assert [f["rule"] + ": " + f["message"] for f in result.json["findings"]] == []
    assert result.code == 0


@pytest.mark.parametrize("name", LOOKALIKES)
def test_what_only_looks_like_a_mistake_is_none(name, doctor):
    onnx.checker.check_model(LOOKALIKES[name]().model())
    result = doctor(LOOKALIKES[name]())
    assert [f["rule"] + ": " + f["message"] for f in result.json["findings"]] == []


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.large] if m.large else []) for n, m in models.MODELS.items()]
)
def test_real_models_have_no_error(name, doctor):
    """They run well elsewhere: an error would be a false alarm."""
    result = doctor(models.path(name))
    assert result.err == ""
    assert [f for f in result.json["findings"] if f["severity"] == "error"] == []


def test_costs_are_counted(doctor):
    found = doctor(SEEDED["duplicate weights"].make()).json["findings"][0]
    assert found["cost"]["bytes"] == 8 * 8 * 4
    found = doctor(SEEDED["layer norm in pieces"].make()).json["findings"][0]
    assert found["cost"] == {"nodes": 9, "bytes": 0, "time_us": None}


@pytest.mark.parametrize("name", ["transpose pair", "cast chain", "layer norm in pieces"])
def test_measured_costs(name, doctor):
    found = doctor(SEEDED[name].make(), "--measure").json["findings"][0]
    assert 0 < found["cost"]["time_us"] < 1e6


def test_measurement_that_cannot_be_says_why(doctor):
    result = doctor(SEEDED["custom operator"].make(), "--measure").json
    assert "FancyPool" in result["not_measured"]
    assert result["findings"][0]["cost"]["time_us"] is None


def test_invalid_model_is_a_finding(doctor):
    net = CLEAN["cnn"][0]()
    net.nodes[3].input[0] = "nowhere"
    result = doctor(net)
    invalid = [f for f in result.json["findings"] if f["rule"] == "DJ100"]
    assert "E204" in invalid[0]["message"] and result.code == 3


BREAKS = {
    "no inputs": lambda node: node.ClearField("input"),
    "no outputs": lambda node: node.ClearField("output"),
    "no attributes": lambda node: node.ClearField("attribute"),
    "reads itself": lambda node: node.input.__setitem__(0, node.output[0]),
    "empty names": lambda node: node.input.__setitem__(slice(None), [""] * len(node.input)),
}


@pytest.mark.parametrize("how", BREAKS)
def test_broken_nodes_are_findings_not_failures(how, doctor):
    """Every node of many models, one at a time: no check may trust a node's form."""
    for name in ("transpose pair", "layer norm in pieces", "gelu in pieces", "requantized", "square in half"):
        count = len(SEEDED[name].make().nodes)
        for i in range(count):
            net = SEEDED[name].make()
            BREAKS[how](net.nodes[i])
            result = doctor(net, "--fix", "out.onnx")
            assert result.code in (0, 1, 3), f"{name}, node {i}: {result.err}"


def test_identities_in_a_circle(doctor):
    net = CLEAN["cnn"][0]()
    net.op("Identity", "b", out="a")
    net.op("Identity", "a", out="b")
    net.op("Where", "a", "image", "b", out="c")
    net.output("c", None)
    assert "DJ100" in doctor(net).rules
