"""--ops FILE: verbs understand a model with operators that a file defines."""

import json

import onnx
import pytest
from onnx import parser

from program import run_program

MODEL = """<ir_version: 10, opset_import: ["" : 21, "my.ops" : 1]>
g (float[N,W] x, float[W] b) => (float[N,W] y) { a = Relu (x) [mine] s = my.ops.Swish (a, b) y = Mul (s, x) }"""
SWISH = {"name": "my.ops::Swish", "inputs": ["x", "b"], "attributes": {"alpha": 1}}


@pytest.fixture
def folder(tmp_path):
    onnx.save(parser.parse_model(MODEL), tmp_path / "m.onnx")
    write(tmp_path / "ops.json", ["t = x * sigmoid(alpha * x)", "y = t + max(b, 0)"])
    return tmp_path


def write(path, expression, **more):
    path.write_text(json.dumps({"ops": [{**SWISH, "expression": expression, **more}]}))


def test_build_inspect_and_bench(folder):
    built = run_program(folder, "build", "m.onnx", "--ops", "ops.json", "--threads", "1", "--json")
    assert built.code == 0 and built.json["tactics"] == {"llvm": 1}
    assert "mine" in run_program(folder, "inspect", "m.dje").out
    assert run_program(folder, "bench", "m.onnx", "--ops", "ops.json", "--iterations", "1").code == 0


BETWEEN = """<ir_version: 10, opset_import: ["" : 21, "my.ops" : 1]>
g (float[N,64] x, float[64] b, float[64,64] m) => (float[N,64] y)
{ p = MatMul (x, m) a = Relu (x) [mine] s = my.ops.Swish (a, b) t = Tanh (s) q = MatMul (t, m) y = Add (p, q) }"""


def test_every_view_of_an_engine_names_the_op(folder):
    """Also where its nodes stand in the middle of a region, whose own name has only its ends."""
    onnx.save(parser.parse_model(BETWEEN), folder / "m.onnx")
    built = run_program(folder, "build", "m.onnx", "--ops", "ops.json", "--threads", "1", "--force-tactic", "llvm")
    assert built.code == 0
    region = [line for line in run_program(folder, "inspect", "m.dje", "--steps").out.splitlines() if "Region" in line]
    assert len(region) == 1 and region[0].endswith(" of my.ops::Swish")
    why = run_program(folder, "inspect", "m.dje", "--why").out
    assert 'Tanh "Tanh_3" -> MatMul' in why
    times = run_program(folder, "inspect", "m.dje", "--time", "--iterations", "1").out
    assert [line for line in times.splitlines() if "Region" in line and line.endswith(" of my.ops::Swish")]
    told = run_program(folder, "inspect", "m.dje", "--json", "--time", "--iterations", "1").json
    named = {step["op"]: step["user_ops"] for step in told["steps"] if step["user_ops"]}
    assert named["deepjit.Region"] == ["my.ops::Swish"] and named["Add"] == ["my.ops::Swish"]
    assert "MatMul" not in named and "Tanh" not in named
    assert ["my.ops::Swish"] in [one["user_ops"] for one in told["times"]]
    assert "model.op_nodes" not in run_program(folder, "inspect", "m.dje").out


def test_why_names_the_op(folder):
    ends = MODEL.replace("y = Mul (s, x)", "y = CumSum (s, one)").replace("{", "<int64 one = {1}> {", 1)
    onnx.save(parser.parse_model(ends), folder / "m.onnx")
    result = run_program(folder, "inspect", "m.onnx", "--ops", "ops.json", "--why", "--threads", "1")
    assert 'of my.ops::Swish -> CumSum "' in result.out
    ledger = run_program(folder, "inspect", "m.onnx", "--ops", "ops.json", "--json", "--threads", "1").json["ledger"]
    assert [e["producer"]["user_ops"] for e in ledger if e["consumer"]["op"] == "CumSum"] == [["my.ops::Swish"]]


def test_without_the_file(folder):
    result = run_program(folder, "build", "m.onnx")
    assert result.code == 2 and "E208" in result.err and "user_ops.md" in result.err


def test_doctor(folder):
    assert "DJ121" in run_program(folder, "doctor", "m.onnx").out
    result = run_program(folder, "doctor", "m.onnx", "--ops", "ops.json")
    assert result.code == 0 and "DJ121" not in result.out


def test_wrong_expression_is_shown(folder):
    write(folder / "bad.json", "y = x * sigmod(alpha * x)")
    result = run_program(folder, "build", "m.onnx", "--ops", "bad.json")
    lines = result.err.splitlines()
    assert result.code == 2 and "line 1, column 9" in lines[0]
    assert lines[-2:] == ["y = x * sigmod(alpha * x)", "        ^"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"ops": 1}',
        '{"ops": [1]}',
        '{"ops": [{"name": 1}]}',
        '{"ops": [{"name": "a::B", "what": 1}]}',
        '{"ops": [{"name": "a::B", "expression": "x"}]}',
        "[" * 9999,
    ],
    ids=["empty", "list", "number", "no object", "name", "key", "no inputs", "deep"],
)
def test_files_that_define_nothing(folder, text):
    (folder / "bad.json").write_text(text)
    result = run_program(folder, "build", "m.onnx", "--ops", "bad.json")
    assert result.code == 2 and "E804" in result.err and "definitions of ops: " in result.err and "hint: " in result.err


def test_a_file_that_is_no_json_is_shown(folder):
    (folder / "bad.json").write_text('{"ops": [\n  {"name": "a::B",\n   "inputs" ["x"]}]}')
    result = run_program(folder, "build", "m.onnx", "--ops", "bad.json")
    assert result.code == 2 and "line 3, column 13: this is no JSON: unexpected '['; expected ':'" in result.err
    assert result.err.splitlines()[-2:] == ['   "inputs" ["x"]}]}', " " * 12 + "^"]


def test_several_files(folder):
    write(folder / "same.json", ["t = x * sigmoid(alpha * x)", "y = t + max(b, 0)"])
    assert run_program(folder, "build", "m.onnx", "--ops", "ops.json", "--ops", "same.json", "--no-tune").code == 0
    write(folder / "other.json", "x + b")
    result = run_program(folder, "build", "m.onnx", "--ops", "ops.json", "--ops", "other.json", "--no-tune")
    assert result.code == 2 and "E803" in result.err and "my.ops::Swish is registered already" in result.err
    assert run_program(folder, "build", "m.onnx", "--ops", "absent.json").code == 2
