"""The command line with values that are no tensors: sequences and optionals."""

import numpy as np
import pytest
from cli_models import save
from onnx import TensorProto, helper
from test_cli import failed, ok


@pytest.fixture
def parts(tmp_path):
    """s = the rows of x, t = s with x behind the rows of the sequence it is fed."""
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["s"]),
        helper.make_node("SequenceInsert", ["given", "x"], ["t"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2])
    sequences = [helper.make_tensor_sequence_value_info(n, TensorProto.FLOAT, None) for n in ("given", "s", "t")]
    save(tmp_path / "parts.onnx", nodes, [x, sequences[0]], sequences[1:])
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    return tmp_path / "parts.onnx"


def test_elements_are_printed_and_written(cli, parts, tmp_path):
    printed = ok(cli("run", parts, "-i", "x=x.npy", "-o", "out", "--no-tune")).out
    assert "s: sequence[3]" in printed and "t: sequence[1]" in printed and "s.2: float32[1,2]" in printed
    assert sorted(f.name for f in (tmp_path / "out").iterdir()) == ["s.0.npy", "s.1.npy", "s.2.npy", "t.0.npy"]
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "s.1.npy"), [[2, 3]])


def test_json_nests_elements(cli, parts):
    s, t = ok(cli("run", parts, "-i", "x=x.npy", "--json", "--no-tune")).json["outputs"]
    assert s["dtype"] == "sequence" and s["shape"] == [3] and s["elements"][2]["max"] == 5
    assert [e["shape"] for e in t["elements"]] == [[3, 2]]


def test_sequences_are_not_fed(cli, parts):
    failed(cli("run", parts, "-i", "x=x.npy", "-i", "given=zeros", "--no-tune"), 804, "ARGUMENT", "given", "empty only")


def test_bench_compare_and_inspect(cli, parts, tmp_path):
    ok(cli("build", parts, "-o", "parts.dje", "--no-tune"))
    text = ok(cli("inspect", "parts.dje")).out
    assert "sequence[" in text and "SequenceInsert" in text
    ok(cli("compare", parts, "--shapes", "x=4x2"))
    ok(cli("bench", "parts.dje", "--shapes", "x=4x2"))
