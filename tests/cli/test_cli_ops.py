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
        "[" * 9999,
    ],
    ids=["empty", "list", "number", "no object", "name", "key", "deep"],
)
def test_files_that_define_nothing(folder, text):
    (folder / "bad.json").write_text(text)
    result = run_program(folder, "build", "m.onnx", "--ops", "bad.json")
    assert result.code == 2 and "E804" in result.err
