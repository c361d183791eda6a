"""The doctor's outputs, exit codes, settings files and bad input."""

import json
import re

import clean
import onnx
import pytest
from seeded import SEEDED

from program import ROOT


def test_text_tells_what_where_why_and_what_to_do(doctor, run):
    doctor(SEEDED["dropout in training mode"].make())
    result = run("doctor", "m.onnx")
    assert result.code == 3
    lines = result.out.splitlines()
    assert lines[0] == "error[DJ111 dropout-training]: Dropout in training mode"
    assert 'node "Dropout_4" (Dropout): drops elements at random' in lines[1]
    assert lines[2].startswith("  why: ") and lines[3].startswith("  fix: ") and "--fix OUT.onnx" in lines[3]
    assert lines[-1] == "1 error, 0 warnings, 0 notes"


def test_long_lists_are_cut_in_text(doctor, run):
    net = clean.cnn()
    for i in range(9):
        net.const(clean.weights(4, seed=i), f"left{i}")
    assert len(doctor(net).json["findings"]) == 9
    assert "and 4 more" in run("doctor", "m.onnx").out
    assert run("doctor", "m.onnx", "--all").out.count('nothing reads "left') == 9


@pytest.mark.parametrize(
    ("name", "fail_on", "code"),
    [
        ("fixed batch", "warning", 0),
        ("fixed batch", "note", 1),
        ("unused weights", "warning", 1),
        ("unused weights", "error", 0),
        ("dropout in training mode", "error", 3),
        ("dropout in training mode", "never", 0),
    ],
)
def test_exit_codes(name, fail_on, code, doctor):
    assert doctor(SEEDED[name].make(), "--fail-on", fail_on).code == code


def test_ignored_rule(doctor):
    assert doctor(SEEDED["unused weights"].make(), "--ignore", "DJ402").json["findings"] == []


def test_sarif(doctor, tmp_path):
    result = doctor(SEEDED["transpose pair"].make(), "--sarif", "m.sarif")
    sarif = json.loads((tmp_path / "m.sarif").read_text())
    assert sarif["version"] == "2.1.0" and sarif["$schema"].endswith("sarif-2.1.0.json")
    (one,) = sarif["runs"]
    rules = one["tool"]["driver"]["rules"]
    assert one["tool"]["driver"]["name"] == "deepjit doctor" and len({r["id"] for r in rules}) == len(rules) > 30
    assert len(one["results"]) == len(result.json["findings"]) == 1
    finding = one["results"][0]
    assert rules[finding["ruleIndex"]]["id"] == finding["ruleId"] == "DJ201"
    assert finding["level"] in ("error", "warning", "note") and finding["message"]["text"]
    (location,) = finding["locations"]
    assert re.fullmatch(r"[\w./%~-]+m\.onnx", location["physicalLocation"]["artifactLocation"]["uri"])
    assert location["logicalLocations"][0]["name"] == result.json["findings"][0]["node"]
    for rule in rules:
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
        assert rule["shortDescription"]["text"] and rule["fullDescription"]["text"] and rule["help"]["text"]


def test_trtexec_command_in_a_file_and_model_named_by_it(tmp_path, run):
    onnx.save(clean.cnn().model(), tmp_path / "m.onnx")
    command = """trtexec --onnx=m.onnx --int8 \\
      --minShapes='image':1x3x32x32 --optShapes=image:4x3x32x32 --maxShapes=image:8x3x32x32 --workspace=32
    """
    (tmp_path / "build.sh").write_text(command)
    result = run("doctor", "--json", "--settings", "build.sh")
    assert result.json["model"] == "m.onnx"
    assert result.rules == ["DJ601", "DJ606"] and result.code == 3


def test_workspace_follows_the_profile(doctor):
    """64 MiB are enough for the floor, not for what the convolutions move at a batch of 4096."""
    shapes = "--minShapes=image:1x3x32x32 --optShapes=image:1x3x32x32 --maxShapes=image:4096x3x32x32"
    assert doctor(clean.cnn(), "--trtexec", f"trtexec {shapes} --memPoolSize=workspace:65").rules == ["DJ606"]
    assert doctor(clean.cnn(), "--trtexec", f"trtexec {shapes} --memPoolSize=workspace:4G").rules == []


def test_foreign_ops_and_zero_points_for_tensorrt(doctor):
    net = clean.Net()
    x = net.op("FusedGelu", net.linear(net.input("x", [1, 8]), 8, 8), domain="com.microsoft")
    x = net.dequantize(net.quantize(x, zero=3), zero=3)
    net.op("Relu", x, out="y")
    net.output("y", [1, 8])
    settings = json.dumps({"tensorrt": {"int8": True}})
    assert set(doctor(net, "--settings", settings).rules) == {"DJ607", "DJ608"}
    assert doctor(net).rules == []


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ("{broken", "the JSON is not valid"),
        ("{}", "neither"),
        ('{"tensorrt": 3}', "must be an object"),
        ('{"tensorrt": {"minShapes": "image:axb"}}', "is not a shape"),
        ('{"tensorrt": {"workspace": "lots"}}', "amount of memory"),
        ('{"onnxruntime": {"providers": "CPU"}}', "must be a list"),
        ('{"onnxruntime": {"threads_sharing_session": "many"}}', "whole number"),
    ],
)
def test_bad_settings(settings, what, doctor):
    result = doctor(clean.cnn(), "--settings", settings)
    assert result.code == 2 and result.json["error"]["name"] == "ARGUMENT"
    assert what in result.err and "hint: " in result.err


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["nothing.onnx"], "FILE_NOT_FOUND"),
        ([], "ARGUMENT"),
        (["bad.onnx"], "PARSE"),
        (["m.dje"], "ARGUMENT"),
        (["m.onnx", "--ignore", "DJ999"], "ARGUMENT"),
        (["m.onnx", "--traffic", "image"], "ARGUMENT"),
        (["m.onnx", "--traffic", "image=1xbx3"], "ARGUMENT"),
        (["m.onnx", "--traffic", "picture=1x3x32x32"], "INPUT_NAME"),
        (["m.onnx", "--fail-on", "sometimes"], "ARGUMENT"),
        (["m.onnx", "--settings", "none.json"], "FILE_NOT_FOUND"),
        (["m.onnx", "--sarif", "no/such/folder.sarif"], "DISK_FULL"),
    ],
)
def test_bad_input(arguments, name, tmp_path, run):
    onnx.save(clean.cnn().model(), tmp_path / "m.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"\xff" * 64)
    (tmp_path / "m.dje").write_bytes(b"x")
    result = run("doctor", "--json", *arguments)
    assert result.code == 2 and result.json["error"]["name"] == name
    assert result.err.startswith("error[") and "\nhint: " in result.err


def test_every_rule_is_in_the_document():
    table = (ROOT / "src" / "doctor" / "rules.cpp").read_text()
    ids = re.findall(r'\{"(DJ\d+)"', table)
    page = (ROOT / "docs" / "doctor.md").read_text()
    assert len(ids) == len(set(ids)) == table.count('{"DJ') and ids == sorted(ids)
    for rule in ids:
        assert f"### {rule} " in page
