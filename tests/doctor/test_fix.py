"""--fix mends what was found, keeps what the model computes, and writes nothing that is not proven."""

import clean
import doctor_models
import numpy as np
import onnx
import onnxruntime
import pytest
from doctor_models import Net, weights
from onnx import TensorProto, helper
from seeded import SEEDED

# Mends that keep results.
SAME = [
    "dead branch",
    "constant branch",
    "constant mask",
    "transpose pair",
    "layout ping-pong",
    "cast chain",
    "duplicate weights",
    "unused weights",
    "requantized",
]


def ort_run(path, feeds: dict) -> dict:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def feeds_for(model: onnx.ModelProto, batch: int = 3) -> dict:
    rng = np.random.default_rng(4)
    constants = {t.name for t in model.graph.initializer}
    feeds = {}
    for info in model.graph.input:
        tensor = info.type.tensor_type
        if info.name in constants:
            continue
        shape = [d.dim_value or batch for d in tensor.shape.dim]
        if tensor.elem_type == TensorProto.FLOAT:
            feeds[info.name] = rng.standard_normal(shape).astype(np.float32)
        else:
            dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            feeds[info.name] = rng.integers(0, 2, shape).astype(dtype)
    return feeds


def mend(doctor, tmp_path, made, *options):
    """(the exported model, the mended one, what doctor said)"""
    result = doctor(made, "--fix", "out.onnx", *options)
    assert result.err == ""
    assert result.json["fix"]["written"] == "out.onnx", result.json["fix"]
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"), full_check=True)
    return onnx.load(tmp_path / "m.onnx"), onnx.load(tmp_path / "out.onnx"), result


def assert_same(tmp_path, exported, rtol: float = 1e-5):
    feeds = feeds_for(exported)
    want = ort_run(tmp_path / "m.onnx", feeds)
    got = ort_run(tmp_path / "out.onnx", feeds)
    assert set(got) == set(want)
    for name, value in want.items():
        assert got[name].dtype == value.dtype and got[name].shape == value.shape
        assert np.abs(value).max() > 0, "all zeros say nothing"
        np.testing.assert_allclose(got[name], value, rtol=0, atol=rtol * np.abs(value).max())


@pytest.mark.parametrize("name", SAME)
def test_mended_model_is_equal_and_clean(name, doctor, tmp_path):
    exported, mended, result = mend(doctor, tmp_path, SEEDED[name].make())
    fix = result.json["fix"]
    assert [f["rule"] for f in fix["mended"]] == [SEEDED[name].rule] * len(fix["mended"]) and fix["mended"]
    assert fix["left"] == [] and result.code == 0
    assert any("the same bits" in step for step in fix["proof"])
    if name not in ("unused weights", "duplicate weights", "constant branch"):
        assert len(mended.graph.node) < len(exported.graph.node)
    assert_same(tmp_path, exported)
    again = doctor(tmp_path / "out.onnx")
    assert again.json["findings"] == []


def test_pieces_become_operators(doctor, tmp_path):
    net = Net(opset=20, ir=9)
    x = net.layer_norm_pieces(net.linear(net.input("x", ["N", 8]), 8, 8), 8)
    net.op("MatMul", net.gelu_pieces(x), net.const(weights(8, 4)), out="y")
    net.output("y", ["N", 4])
    exported, mended, result = mend(doctor, tmp_path, net)
    assert [n.op_type for n in mended.graph.node] == ["MatMul", "Add", "LayerNormalization", "Gelu", "MatMul"]
    assert {f["rule"] for f in result.json["fix"]["mended"]} == {"DJ141", "DJ142"}
    assert_same(tmp_path, exported)


def test_tanh_gelu_becomes_an_operator(doctor, tmp_path):
    net = Net(opset=20, ir=9)
    x = net.linear(net.input("x", ["N", 8]), 8, 8)
    cube = net.op("Mul", net.op("Pow", x, net.number(3)), net.number(0.044715))
    bent = net.op("Tanh", net.op("Mul", net.op("Add", x, cube), net.number(0.7978845608)))
    net.op("Mul", net.op("Mul", net.number(0.5), x), net.op("Add", net.number(1), bent), out="y")
    net.output("y", ["N", 8])
    exported, mended, _ = mend(doctor, tmp_path, net)
    assert [n.op_type for n in mended.graph.node] == ["MatMul", "Add", "Gelu"]
    assert_same(tmp_path, exported)


def test_gelu_stays_in_pieces_where_the_opset_has_none(doctor):
    result = doctor(SEEDED["gelu in pieces"].make(), "--fix", "out.onnx").json
    assert result["findings"][0]["fixable"] is False
    assert result["fix"]["written"] is None and "nothing" in result["fix"]["reason"]


@pytest.mark.parametrize("name", ["dropout in training mode", "batch norm in training mode"])
def test_training_mode_is_switched_off(name, doctor, tmp_path):
    exported, mended, result = mend(doctor, tmp_path, SEEDED[name].make())
    assert result.json["fix"]["left"] == [] and result.code == 0
    assert "on purpose" in result.json["fix"]["proof"][0]
    # What the exported model means in inference mode.
    for node in exported.graph.node:
        if node.op_type == "Dropout":
            del node.input[2]
        if node.op_type == "BatchNormalization":
            del node.output[1:], node.attribute[:]
    onnx.save(exported, tmp_path / "m.onnx")
    assert_same(tmp_path, exported)


@pytest.mark.parametrize("name", ["axes as an attribute", "axes as an input"])
def test_axes_go_where_the_opset_has_them(name, doctor, tmp_path):
    _, mended, result = mend(doctor, tmp_path, SEEDED[name].make())
    assert result.json["fix"]["left"] == []
    x = np.random.default_rng(0).standard_normal((2, 3, 8) if "input" in name else (2, 8)).astype(np.float32)
    hidden = x @ doctor_models.weights(8, 4) + doctor_models.weights(4, seed=1)
    want = hidden.max(1, keepdims=True) if "input" in name else hidden.sum(1, keepdims=True)
    np.testing.assert_allclose(ort_run(tmp_path / "out.onnx", {"x": x})["y"], want, rtol=1e-5, atol=1e-6)


def test_batch_is_freed(doctor, tmp_path):
    exported, mended, result = mend(doctor, tmp_path, SEEDED["fixed batch"].make())
    assert mended.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert any("two batches at once" in step for step in result.json["fix"]["proof"])
    x = np.random.default_rng(0).standard_normal((3, 3, 32, 32)).astype(np.float32)
    got = ort_run(tmp_path / "out.onnx", {"image": x})["logits"]
    one = [ort_run(tmp_path / "m.onnx", {"image": x[i : i + 1]})["logits"] for i in range(3)]
    np.testing.assert_allclose(got, np.concatenate(one), rtol=1e-4, atol=1e-5)


def test_batch_that_mixes_samples_is_not_freed(doctor, tmp_path):
    """Shapes would allow it; the results would not."""
    net = Net()
    x = net.linear(net.input("x", [1, 8]), 8, 4)
    mean = net.op("ReduceMean", x, axes=[0], keepdims=1)
    net.op("Sub", net.op("Mul", x, net.number(2)), mean, out="y")
    net.output("y", [1, 4])
    result = doctor(net, "--fix", "out.onnx").json
    assert result["fix"]["written"] is None
    assert "two batches at once" in result["fix"]["reason"]
    assert not (tmp_path / "out.onnx").exists()


def test_mistakes_upon_mistakes(doctor, tmp_path):
    """Chains of Transposes and Casts, a branch in a branch's place, and doubled weights, in one model."""
    net = Net()
    x = net.conv(net.input("x", ["N", 3, 8, 8]), 3, 4)
    for perm in ([0, 2, 3, 1], [0, 3, 1, 2], [0, 2, 3, 1], [0, 3, 1, 2]):
        x = net.op("Relu", net.op("Transpose", x, perm=perm))
    x = net.op("Transpose", net.op("Transpose", x, perm=[0, 2, 3, 1]), perm=[0, 3, 2, 1])
    x = net.op("Transpose", x, perm=[0, 1, 3, 2])
    for dtype in (11, 1, 11, 1):
        x = net.op("Cast", x, to=dtype)
    w = weights(4, 4, 1, 1)
    x = net.op("Conv", net.op("Conv", x, net.const(w)), net.const(w.copy()))
    branches = {}
    for name, op in (("then_branch", "Relu"), ("else_branch", "Tanh")):
        inner = helper.make_node(op, [x], ["r"])
        branches[name] = helper.make_graph([inner], name, [], [doctor_models.value("r", None)])
    net.op("If", net.const(np.array(True)), out="y", **branches)
    net.output("y", ["N", 4, "A", "B"])
    exported, mended, result = mend(doctor, tmp_path, net)
    assert result.json["fix"]["left"] == []
    assert "If" not in [n.op_type for n in mended.graph.node]
    assert sum(n.op_type == "Transpose" for n in mended.graph.node) == 0
    assert sum(n.op_type == "Cast" for n in mended.graph.node) == 0
    assert len(mended.graph.initializer) == 2
    assert_same(tmp_path, exported)


def channels_last_sum(constant: np.ndarray) -> Net:
    """Two convolutions in NCHW; their sum, with a constant, and the activation in NHWC; a third in NCHW."""
    net = Net()
    x = net.input("x", ["N", 3, 8, 8])
    a, b = (net.op("Transpose", net.conv(x, 3, 4, seed=s), perm=[0, 2, 3, 1]) for s in (0, 1))
    y = net.op("Relu", net.op("Add", net.op("Add", a, net.op("Sigmoid", b)), net.const(constant)))
    net.op("Relu", net.conv(net.op("Transpose", y, perm=[0, 3, 1, 2]), 4, 4, seed=2), out="y")
    net.output("y", ["N", 4, 8, 8])
    return net


@pytest.mark.parametrize("shape", [(4,), (1, 1, 4), (8, 1), (1, 8, 1, 1)])
def test_ping_pong_moves_a_vector_to_the_other_layout(shape, doctor, tmp_path):
    exported, mended, result = mend(doctor, tmp_path, channels_last_sum(weights(*shape)))
    assert result.rules == ["DJ202"] and result.json["findings"][0]["cost"]["nodes"] == 3
    assert result.json["fix"]["left"] == []
    assert "Transpose" not in [n.op_type for n in mended.graph.node]
    assert_same(tmp_path, exported)


def test_ping_pong_with_a_constant_of_two_axes_is_found_and_left(doctor):
    result = doctor(channels_last_sum(weights(8, 4)))
    assert result.rules == ["DJ202"] and not result.json["findings"][0]["fixable"]


def test_transpose_that_somebody_else_reads_stays(doctor):
    net = channels_last_sum(weights(4))
    net.op("MatMul", net.nodes[1].output[0], net.const(weights(4, 2)), out="z")
    net.output("z", ["N", 8, 8, 2])
    assert doctor(net).rules == []


def test_model_that_does_not_build_is_not_written(doctor, tmp_path):
    net = SEEDED["custom operator"].make()
    net.const(weights(64, 64), "leftover")
    result = doctor(net, "--fix", "out.onnx")
    assert result.json["fix"]["written"] is None
    assert "FancyPool" in result.json["fix"]["reason"] and result.code == 3
    assert not (tmp_path / "out.onnx").exists()


def test_weights_beside_the_model_stay_beside_it(doctor, run, tmp_path):
    made = SEEDED["transpose pair"].make().model()
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    (tmp_path / "other").mkdir()
    result = run("doctor", "m.onnx", "--fix", "other/out.onnx")
    assert result.code == 2 and "same folder" in result.err
    assert list((tmp_path / "other").iterdir()) == []
    result = run("doctor", "m.onnx", "--fix", "out.onnx")
    assert result.code == 0, result.err
    assert_same(tmp_path, made)


def test_clean_model_is_not_written_again(doctor, tmp_path):
    result = doctor(clean.cnn(), "--fix", "out.onnx")
    assert result.json["fix"]["written"] is None and result.code == 0
    assert not (tmp_path / "out.onnx").exists()
