"""Models and settings with one mistake each. A row: the rule that must find it, the node or value that it must name,
the model, and the command line's options."""

import json
from typing import NamedTuple

import clean
import numpy as np
from doctor_models import BOOL, F16, F32, I64, Net, value, weights
from onnx import helper


class Seed(NamedTuple):
    rule: str
    where: str | None  # a node's name or a value; None when the mistake is in the settings
    make: object
    options: list = []  # noqa: RUF012


def baked_batch() -> Net:
    net = Net()
    x = net.op("Relu", net.conv(net.input("x", ["N", 3, 8, 8]), 3, 4))
    x = net.op("Reshape", x, net.ints(1, -1), out="flat")
    net.op("MatMul", x, net.const(weights(256, 5)), out="y")
    net.output("y", None)
    return net


def baked_length() -> Net:
    """Positions for the length that was traced."""
    net = Net()
    x = net.op("Gather", net.const(weights(30, 8)), net.input("ids", ["N", "L"], I64))
    x = net.op("Add", x, net.const(weights(1, 12, 8)), out="placed")
    net.op("Tanh", x, out="y")
    net.output("y", ["N", "L", 8])
    return net


def baked_heads() -> Net:
    """Batch free, and the length a constant in the Reshape."""
    net = Net()
    x = net.input("x", ["N", "L", 8])
    net.op("Reshape", net.linear(x, 8, 8), net.ints(0, 12, 2, 4), out="y")
    net.output("y", None)
    return net


def baked_state() -> Net:
    net = Net()
    x = net.input("x", ["T", "N", 6])
    state = [net.const(np.zeros((1, 1, 5), np.float32)) for _ in range(2)]
    net.op("LSTM", x, net.const(weights(1, 20, 6)), net.const(weights(1, 20, 5)), net.const(weights(1, 40)), "", *state,
           outputs=["y"], hidden_size=5)  # fmt: skip
    net.output("y", None)
    return net


def fixed_batch() -> Net:
    net = clean.cnn()
    net.inputs = [value("image", [1, 3, 32, 32])]
    net.outputs = [value("logits", [1, 10])]
    return net


def dropout() -> Net:
    net = Net()
    x = net.op("Relu", net.linear(net.input("x", ["N", 8]), 8, 16))
    x = net.op("Dropout", x, net.number(0.5), net.const(np.array(True)), out="dropped")
    net.op("MatMul", x, net.const(weights(16, 4)), out="y")
    net.output("y", ["N", 4])
    return net


def batch_norm() -> Net:
    net = Net()
    x = net.conv(net.input("x", ["N", 3, 8, 8]), 3, 4)
    statistics = [net.const(np.abs(weights(4, seed=s)) + 0.5) for s in range(4)]
    net.op("BatchNormalization", x, *statistics, outputs=["normal", "mean", "var"], training_mode=1)
    net.op("Relu", "normal", out="y")
    net.output("y", ["N", 4, 8, 8])
    return net


def custom_op() -> Net:
    net = Net()
    x = net.conv(net.input("x", ["N", 3, 8, 8]), 3, 4)
    x = net.op("FancyPool", x, domain="my.ops", out="pooled")
    net.op("Relu", x, out="y")
    net.output("y", None)
    return net


def cut_at_custom_op() -> Net:
    net = Net()
    x = net.conv(net.input("x", ["N", 3, 8, 8]), 3, 4)
    net.op("aten_grid", x, domain="org.pytorch.aten", out="y")
    net.output("y", None)
    return net


def unknown_op() -> Net:
    net = Net(opset=16)
    net.op("Mish", net.linear(net.input("x", ["N", 8]), 8, 8), out="y")
    net.output("y", ["N", 8])
    return net


def dead_branch() -> Net:
    """A second head that never became an output."""
    net = Net()
    x = net.op("Relu", net.linear(net.input("x", ["N", 8]), 8, 16))
    net.linear(x, 16, 4, seed=3)
    net.op("MatMul", x, net.const(weights(16, 2)), out="y")
    net.output("y", ["N", 2])
    return net


def constant_output() -> Net:
    net = Net()
    net.op("Relu", net.linear(net.input("x", ["N", 8]), 8, 4), out="y")
    net.op("Mul", net.const(weights(20)), net.number(2), out="anchors")
    net.output("y", ["N", 4])
    net.output("anchors", [20])
    return net


def constant_branch() -> Net:
    net = Net()
    x = net.linear(net.input("x", ["N", 8]), 8, 8)
    branches = {
        name: helper.make_graph([helper.make_node(op, [x], ["r"])], name, [], [value("r", None)])
        for name, op in (("then_branch", "Relu"), ("else_branch", "Tanh"))
    }
    net.op("If", net.const(np.array(False)), out="chosen", **branches)
    net.op("Neg", "chosen", out="y")
    net.output("y", ["N", 8])
    return net


def constant_mask() -> Net:
    net = Net()
    x = net.linear(net.input("x", ["N", 8]), 8, 8)
    x = net.op("Where", net.const(np.ones((1, 8), bool)), x, net.number(0), out="masked")
    net.op("Relu", x, out="y")
    net.output("y", ["N", 8])
    return net


def unrolled_rnn() -> Net:
    net = Net()
    x, h = net.input("x", ["N", 6, 4]), net.input("h", ["N", 8])
    wx, wh = net.const(weights(4, 8), "wx"), net.const(weights(8, 8), "wh")
    for step in range(6):
        now = net.op("MatMul", net.op("Gather", x, net.const(np.array(step)), axis=1), wx)
        h = net.op("Tanh", net.op("Add", now, net.op("MatMul", h, wh)))
    net.op("Identity", h, out="y")
    net.output("y", ["N", 8])
    return net


def layer_norm() -> Net:
    """What a converter to opset 13 leaves of LayerNormalization."""
    net = Net(opset=13)
    x = net.linear(net.input("x", ["N", "L", 8]), 8, 8)
    net.op("Relu", net.layer_norm_pieces(x, 8), out="y")
    net.output("y", ["N", "L", 8])
    return net


def gelu() -> Net:
    net = Net()
    x = net.gelu_pieces(net.linear(net.input("x", ["N", 8]), 8, 16))
    net.op("MatMul", x, net.const(weights(16, 4)), out="y")
    net.output("y", ["N", 4])
    return net


def axes_form() -> Net:
    net = Net(opset=13)
    net.op("ReduceSum", net.linear(net.input("x", ["N", 8]), 8, 4), axes=[1], out="y")
    net.output("y", ["N", 1])
    return net


def axes_as_input() -> Net:
    net = Net(opset=13)
    x = net.linear(net.input("x", ["N", "L", 8]), 8, 4)
    net.op("ReduceMax", x, net.ints(1), out="y")
    net.output("y", ["N", 1, 4])
    return net


def transpose_pair() -> Net:
    net = Net()
    x = net.conv(net.input("x", ["N", 3, 8, 8]), 3, 4)
    x = net.op("Transpose", net.op("Transpose", x, perm=[0, 2, 3, 1]), perm=[0, 3, 1, 2], out="back")
    net.op("Relu", net.conv(x, 4, 4, seed=1), out="y")
    net.output("y", ["N", 4, 8, 8])
    return net


def ping_pong() -> Net:
    """Activations in NHWC between convolutions in NCHW."""
    net = Net()
    x = net.conv(net.input("x", ["N", 3, 8, 8]), 3, 4)
    x = net.op("Transpose", x, perm=[0, 2, 3, 1], out="last")
    x = net.op("Relu", net.op("Mul", x, net.number(0.7)))
    x = net.op("Transpose", x, perm=[0, 3, 1, 2])
    net.op("Relu", net.conv(x, 4, 4, seed=1), out="y")
    net.output("y", ["N", 4, 8, 8])
    return net


def cast_chain() -> Net:
    net = Net()
    x = net.op("Cast", net.linear(net.input("x", ["N", 8]), 8, 8), to=11)
    x = net.op("Cast", x, to=F32, out="again")
    net.op("Relu", x, out="y")
    net.output("y", ["N", 8])
    return net


def half_round_trip() -> Net:
    net = Net()
    x = net.op("Cast", net.linear(net.input("x", ["N", 8]), 8, 8), to=F16)
    x = net.op("Cast", x, to=F32, out="again")
    net.op("Relu", x, out="y")
    net.output("y", ["N", 8])
    return net


def half_mask() -> Net:
    """The usual -1e9 of a mask, cast to float16."""
    net = Net()
    mask = net.op("Cast", net.const(np.array(-1e9, np.float32)), to=F16, out="low")
    x = net.op("Cast", net.input("x", ["N", 8]), to=F16)
    x = net.op("Where", net.input("keep", ["N", 8], BOOL), x, mask)
    net.op("Cast", net.op("Softmax", x), to=F32, out="y")
    net.output("y", ["N", 8])
    return net


def half_square() -> Net:
    net = Net()
    x = net.op("Cast", net.input("x", ["N", 64]), to=F16)
    square = net.op("ReduceMean", net.op("Mul", x, x), axes=[-1], out="power")
    net.op("Cast", square, to=F32, out="y")
    net.output("y", ["N", 1])
    return net


def int64_indices() -> Net:
    net = Net()
    ids = net.input("ids", ["N", "L"], I64)
    wrapped = net.op("Add", net.op("Mod", ids, net.const(np.array(16))), net.const(np.array(4)), out="shifted")
    net.op("Gather", net.const(weights(30, 8)), wrapped, out="y")
    net.output("y", ["N", "L", 8])
    return net


def duplicate_weights() -> Net:
    net = Net()
    w = weights(8, 8)
    x = net.op("Relu", net.op("MatMul", net.input("x", ["N", 8]), net.const(w, "encoder")))
    net.op("MatMul", x, net.const(w, "decoder"), out="y")
    net.output("y", ["N", 8])
    return net


def unused_weights() -> Net:
    net = Net()
    net.const(weights(64, 64), "leftover")
    net.op("Relu", net.linear(net.input("x", ["N", 8]), 8, 4), out="y")
    net.output("y", ["N", 4])
    return net


def weights_as_inputs() -> Net:
    net = Net()
    net.op("MatMul", net.input("x", ["N", 8]), net.const(weights(8, 4), "w"), out="y")
    net.input("w", [8, 4])
    net.output("y", ["N", 4])
    return net


def quantized_inside() -> Net:
    net = Net()
    x = net.fake_quantize(net.input("x", ["N", 4, 8, 8]))
    x = net.op("Conv", x, net.int8_weight(8, 4, 3, 3), pads=[1] * 4)
    net.op("Relu", net.fake_quantize(x), out="y")
    net.output("y", ["N", 8, 8, 8])
    return net


def half_quantized() -> Net:
    net = Net()
    x = net.fake_quantize(net.input("x", ["N", 4, 8, 8]))
    net.op("Relu", net.conv(x, 4, 8), out="y")
    net.output("y", ["N", 8, 8, 8])
    return net


def scale_mismatch() -> Net:
    net = Net()
    x = net.dequantize(net.quantize(net.input("x", ["N", 4, 8, 8]), 0.05), 0.1)
    net.op("Conv", x, net.int8_weight(8, 4, 3, 3), out="y")
    net.output("y", None)
    return net


def requantize() -> Net:
    net = Net()
    x = net.quantize(net.op("Relu", net.input("x", ["N", 8])))
    net.op("Neg", net.dequantize(net.quantize(net.dequantize(x))), out="y")
    net.output("y", ["N", 8])
    return net


def fixed_sequence() -> Net:
    net = clean.transformer()
    net.inputs = [value("input_ids", ["batch", 12], I64)]
    net.outputs = [value("states", ["batch", 12, 16])]
    return net


def lost_input() -> Net:
    """A mask that tracing replaced by what it was."""
    net = Net()
    x = net.linear(net.input("x", ["N", 8]), 8, 8)
    net.input("mask", ["N", 8])
    net.op("Relu", x, out="y")
    net.output("y", ["N", 8])
    return net


def optimizer() -> Net:
    net = Net()
    x = net.linear(net.input("x", ["N", 8]), 8, 4)
    rate, step = net.input("rate", []), net.input("step", [], I64)
    w, g, h = (net.input(name, [4]) for name in ("w", "g", "h"))
    net.op("Adagrad", rate, step, w, g, h, outputs=["w2", "h2"], domain="ai.onnx.preview.training")
    net.op("Mul", x, "w2", out="y")
    net.output("y", ["N", 4])
    net.output("h2", [4])
    return net


def loop_of_one_step() -> Net:
    net = clean.looped()
    net.inputs = net.inputs[:1]
    net.nodes[-1].input[0] = net.const(np.array(1))
    return net


def gelu_in_new_opset() -> Net:
    """Gelu in pieces though the opset has it: what a converter up from an old opset leaves."""
    net = gelu()
    net.opset, net.ir = 20, 9
    return net


def self_cast() -> Net:
    net = Net()
    x = net.op("Cast", net.linear(net.input("x", ["N", 8]), 8, 8), to=F32, out="same")
    net.op("Relu", x, out="y")
    net.output("y", ["N", 8])
    return net


def half_epsilon() -> Net:
    """An epsilon that float16 rounds to zero."""
    net = Net()
    x = net.op("Cast", net.input("x", ["N", 8]), to=F16)
    small = net.op("Add", net.op("Abs", x), net.number(1e-12, np.float16), out="kept")
    net.op("Cast", net.op("Div", x, net.op("Sqrt", small)), to=F32, out="y")
    net.output("y", ["N", 8])
    return net


def half_softmax() -> Net:
    """Softmax by hand, without the maximum taken off."""
    net = Net()
    e = net.op("Exp", net.op("Cast", net.input("x", ["N", 8]), to=F16), out="grown")
    y = net.op("Div", e, net.op("ReduceSum", e, net.ints(-1)))
    net.op("Cast", y, to=F32, out="y")
    net.output("y", ["N", 8])
    return net


def trt(**options) -> list:
    base = {
        "fp16": True,
        "minShapes": {"image": [1, 3, 32, 32]},
        "optShapes": {"image": [8, 3, 32, 32]},
        "maxShapes": {"image": [32, 3, 32, 32]},
    }
    return ["--settings", json.dumps({"tensorrt": base | options})]


def ort(**options) -> list:
    return ["--settings", json.dumps({"onnxruntime": options})]


PROFILE = "--minShapes=image:1x3x32x32 --optShapes=image:4x3x32x32 --maxShapes=image:8x3x32x32"
QDQ_PROFILE = {f"{k}Shapes": {"x": [n, 4, 8, 8]} for k, n in (("min", 1), ("opt", 2), ("max", 4))}

SEEDED = {
    "baked batch": Seed("DJ101", "flat", baked_batch),
    "baked initial state": Seed("DJ101", "y", baked_state),
    "baked positions": Seed("DJ102", "placed", baked_length),
    "baked reshape": Seed("DJ102", "y", baked_heads),
    "fixed batch": Seed("DJ103", "image", fixed_batch),
    "fixed sequence": Seed("DJ104", "input_ids", fixed_sequence),
    "traffic beside the model": Seed("DJ105", "image", clean.cnn, ["--traffic", "image=1x3x64x64"]),
    "dropout in training mode": Seed("DJ111", "dropped", dropout),
    "batch norm in training mode": Seed("DJ112", "normal", batch_norm),
    "optimizer": Seed("DJ113", "w2", optimizer),
    "custom operator": Seed("DJ121", "pooled", custom_op),
    "graph that ends at a custom operator": Seed("DJ121", "y", cut_at_custom_op),
    "operator of a newer opset": Seed("DJ122", "y", unknown_op),
    "lost input": Seed("DJ123", "mask", lost_input),
    "dead branch": Seed("DJ124", None, dead_branch),
    "constant output": Seed("DJ125", "anchors", constant_output),
    "constant branch": Seed("DJ131", "chosen", constant_branch),
    "unrolled loop": Seed("DJ132", None, unrolled_rnn),
    "constant mask": Seed("DJ133", "masked", constant_mask),
    "loop of one step": Seed("DJ134", "y", loop_of_one_step),
    "layer norm in pieces": Seed("DJ141", None, layer_norm),
    "gelu in pieces": Seed("DJ142", None, gelu),
    "gelu in pieces in a new opset": Seed("DJ142", None, gelu_in_new_opset),
    "axes as an attribute": Seed("DJ143", "y", axes_form),
    "axes as an input": Seed("DJ143", "y", axes_as_input),
    "transpose pair": Seed("DJ201", "back", transpose_pair),
    "layout ping-pong": Seed("DJ202", "last", ping_pong),
    "cast chain": Seed("DJ301", "again", cast_chain),
    "round trip through half": Seed("DJ301", "again", half_round_trip),
    "cast to itself": Seed("DJ301", "same", self_cast),
    "epsilon of zero in half": Seed("DJ302", "kept", half_epsilon),
    "softmax by hand in half": Seed("DJ302", "grown", half_softmax),
    "mask beyond half": Seed("DJ302", "low", half_mask),
    "square in half": Seed("DJ302", "power", half_square),
    "int64 indices": Seed("DJ303", "shifted", int64_indices),
    "duplicate weights": Seed("DJ401", "decoder", duplicate_weights),
    "unused weights": Seed("DJ402", "leftover", unused_weights),
    "weights as inputs": Seed("DJ403", "w", weights_as_inputs),
    "quantized inside a fusion": Seed("DJ501", None, quantized_inside),
    "half quantized": Seed("DJ502", None, half_quantized),
    "scale mismatch": Seed("DJ503", None, scale_mismatch),
    "requantized": Seed("DJ504", None, requantize),
    "int8 without scales": Seed("DJ601", None, clean.cnn, ["--trtexec", f"trtexec --onnx=m.onnx --int8 {PROFILE}"]),
    "scales without int8": Seed(
        "DJ602", None, clean.quantized, ["--settings", json.dumps({"tensorrt": {"fp16": True, **QDQ_PROFILE}})]
    ),
    "profile narrower than the traffic": Seed(
        "DJ603",
        "image",
        clean.cnn,
        ["--trtexec", f"trtexec {PROFILE}", "--traffic", "image=4x3x32x32,image=16x3x32x32"],
    ),
    "no profile": Seed("DJ604", "image", clean.cnn, ["--trtexec", "trtexec --onnx=m.onnx --fp16"]),
    "profile of a fixed axis": Seed("DJ605", "image", clean.cnn, trt(maxShapes={"image": [32, 3, 64, 64]})),
    "small workspace": Seed("DJ606", None, clean.cnn, trt(memPoolSize="workspace:16")),
    "shared context": Seed("DJ609", None, clean.cnn, trt(threads=8, execution_contexts=1)),
    "provider order": Seed("DJ701", None, clean.cnn, ort(providers=["CPUExecutionProvider", "CUDAExecutionProvider"])),
    "rewritten subgraph": Seed(
        "DJ702",
        None,
        clean.cnn,
        ort(providers=["TensorrtExecutionProvider"], graph_optimization_level="ORT_ENABLE_ALL"),
    ),
    "shared session": Seed(
        "DJ703", None, clean.cnn, ort(providers=["CUDAExecutionProvider"], threads_sharing_session=16)
    ),
}
