"""Ten models and settings without a mistake: the doctor must have nothing to say about any of them."""

import json

import numpy as np
from doctor_models import BOOL, F16, I64, Net, value, weights
from onnx import helper


def cnn() -> Net:
    """Convolutions, batch normalisation, a residual, pooling and a classifier, any batch."""
    net = Net()
    x = net.input("image", ["N", 3, 32, 32])
    x = net.op("Relu", net.conv(x, 3, 8))
    statistics = [net.const(np.abs(weights(8, seed=s)) + 0.5) for s in range(4)]
    y = net.op("BatchNormalization", net.conv(x, 8, 8, seed=1), *statistics)
    x = net.op("Relu", net.op("Add", y, x))
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    net.op("Gemm", x, net.const(weights(8, 10)), net.const(weights(10)), out="logits")
    net.output("logits", ["N", 10])
    return net


def attention(net: Net, x: str, width: int, heads: int, seed: int) -> str:
    """Multi-head attention with shapes taken from the input, as exporters write it."""
    shape = net.op("Shape", x)
    batch = net.op("Gather", shape, net.ints(0), axis=0)
    length = net.op("Gather", shape, net.ints(1), axis=0)
    split = net.op("Concat", batch, length, net.ints(heads), net.ints(width // heads), axis=0)
    q, k, v = (
        net.op("Transpose", net.op("Reshape", net.linear(x, width, width, seed + i), split), perm=[0, 2, 1, 3])
        for i in range(3)
    )
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = net.op("Softmax", net.op("Div", scores, net.number(np.sqrt(width // heads))), axis=-1)
    y = net.op("Transpose", net.op("MatMul", scores, v), perm=[0, 2, 1, 3])
    y = net.op("Reshape", y, net.op("Concat", batch, length, net.ints(width), axis=0))
    return net.linear(y, width, width, seed + 3)


def transformer() -> Net:
    """Two blocks over token ids, with LayerNormalization and Gelu whole; batch and length free."""
    net = Net(opset=20, ir=9)
    ids = net.input("input_ids", ["batch", "length"], I64)
    x = net.op("Gather", net.const(weights(50, 16)), ids)
    for block in range(2):
        norm = [net.const(weights(16, seed=100 * block + s) + 1) for s in (1, 2)]
        x = net.op("Add", x, attention(net, net.op("LayerNormalization", x, *norm), 16, 4, seed=20 * block))
        hidden = net.op("Gelu", net.linear(x, 16, 32, seed=40 + 10 * block))
        x = net.op("Add", x, net.linear(hidden, 32, 16, seed=45 + 10 * block))
    net.op("Identity", x, out="states")
    net.output("states", ["batch", "length", 16])
    return net


def quantized() -> Net:
    """Q/DQ on activations and weights, behind the activation function."""
    net = Net()
    x = net.fake_quantize(net.input("x", ["N", 4, 8, 8]))
    x = net.op("Conv", x, net.int8_weight(8, 4, 3, 3), pads=[1] * 4)
    x = net.fake_quantize(net.op("Relu", x))
    x = net.op("Conv", x, net.int8_weight(8, 8, 3, 3, seed=1), pads=[1] * 4)
    net.op("Relu", x, out="y")
    net.output("y", ["N", 8, 8, 8])
    return net


def lstm_with_if() -> Net:
    """An LSTM, and a branch that really depends on the data."""
    net = Net()
    x = net.input("x", ["T", "N", 6])
    h, c = (net.input(name, [1, "N", 5]) for name in ("h", "c"))
    net.op(
        "LSTM", x, net.const(weights(1, 20, 6)), net.const(weights(1, 20, 5)), net.const(weights(1, 40)), "", h, c,
        outputs=["seq", "hn", "cn"], hidden_size=5,
    )  # fmt: skip
    flat = net.op("Squeeze", "seq", net.ints(1))
    loud = net.op("Greater", net.op("ReduceMax", flat, keepdims=0), net.number(0.1))
    branches = {
        "then_branch": helper.make_graph(
            [helper.make_node("Relu", [flat], ["t"])], "then", [], [value("t", ["T", "N", 5])]
        ),
        "else_branch": helper.make_graph(
            [helper.make_node("Neg", [flat], ["e"])], "else", [], [value("e", ["T", "N", 5])]
        ),
    }
    net.op("If", loud, out="y", **branches)
    net.output("y", ["T", "N", 5])
    net.output("hn", [1, "N", 5])
    net.output("cn", [1, "N", 5])
    return net


def detector() -> Net:
    """Image size free: upsampling by shapes, skip connections, a permuted head."""
    net = Net()
    x = net.input("image", ["N", 3, "H", "W"])
    low = net.op("Relu", net.conv(x, 3, 8, strides=[2, 2]))
    deep = net.op("Relu", net.conv(low, 8, 8, seed=1, strides=[2, 2]))
    size = net.op("Concat", net.op("Slice", net.op("Shape", deep), net.ints(0), net.ints(2)),
                  net.op("Slice", net.op("Shape", low), net.ints(2), net.ints(4)), axis=0)  # fmt: skip
    up = net.op("Resize", deep, "", "", size, mode="nearest")
    both = net.op("Concat", up, low, axis=1)
    head = net.conv(both, 16, 6, kernel=1, seed=3)
    batch = net.op("Slice", net.op("Shape", head), net.ints(0), net.ints(1))
    rows = net.op("Transpose", head, perm=[0, 2, 3, 1])
    net.op("Reshape", rows, net.op("Concat", batch, net.ints(-1), net.ints(6), axis=0), out="boxes")
    net.output("boxes", ["N", "B", 6])
    return net


def half() -> Net:
    """float16 inside, float32 at the borders; a mask that float16 holds."""
    net = Net(opset=20, ir=9)
    x = net.op("Cast", net.input("x", ["N", "L", 8]), to=F16)
    mask = net.op("Where", net.input("mask", ["N", "L", 1], BOOL), net.number(0, np.float16),
                  net.number(-65504, np.float16))  # fmt: skip
    w = net.const(weights(8, 8, dtype=np.float16))
    x = net.op("Softmax", net.op("Add", net.op("MatMul", x, w), mask), axis=1)
    net.op("Cast", x, to=1, out="y")
    net.output("y", ["N", "L", 8])
    return net


def channels_last() -> Net:
    """One Transpose in and one out, and a normalisation over channels between two convolutions."""
    net = Net()
    x = net.op("Transpose", net.input("x", ["N", 8, 8, 3]), perm=[0, 3, 1, 2])
    x = net.conv(x, 3, 8)
    x = net.op("Transpose", x, perm=[0, 2, 3, 1])
    x = net.op("LayerNormalization", x, net.const(weights(8, seed=1)), net.const(weights(8, seed=2)))
    x = net.op("Transpose", x, perm=[0, 3, 1, 2])
    x = net.op("Relu", net.conv(x, 8, 4, seed=4))
    net.op("Transpose", x, perm=[0, 2, 3, 1], out="y")
    net.output("y", ["N", 8, 8, 4])
    return net


def looped() -> Net:
    """A Loop whose number of steps is an input."""
    net = Net()
    x = net.input("x", ["N", 4])
    steps = net.input("steps", [], I64)
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "w"], ["m"]),
            helper.make_node("Tanh", ["m"], ["next"]),
            helper.make_node("Identity", ["going"], ["still"]),
        ],
        "body",
        [value("i", [], I64), value("going", [], BOOL), value("state", ["N", 4])],
        [value("still", [], BOOL), value("next", ["N", 4])],
    )
    net.const(weights(4, 4), "w")
    net.op("Loop", steps, "", x, out="y", body=body)
    net.output("y", ["N", 4])
    return net


# ---- models that look like a mistake and are none


def shared_heads() -> Net:
    """One head over five levels, side by side: weights are shared, nothing is unrolled."""
    net = Net()
    w1, w2 = net.const(weights(8, 8)), net.const(weights(8, 4))
    for level in range(5):
        x = net.input(f"level{level}", ["N", 8])
        net.op("MatMul", net.op("Relu", net.op("MatMul", x, w1)), w2, out=f"y{level}")
        net.output(f"y{level}", ["N", 4])
    return net


def shared_layers() -> Net:
    """ALBERT's way: six attention layers with the same weights, on purpose."""
    net = Net()
    x = net.input("x", ["N", "L", 8])
    w = net.const(weights(8, 8))
    for _ in range(6):
        scores = net.op("Softmax", net.op("MatMul", x, net.op("Transpose", x, perm=[0, 2, 1])), axis=-1)
        x = net.op("Add", x, net.op("Tanh", net.op("MatMul", net.op("MatMul", scores, x), w)))
    net.op("Identity", x, out="y")
    net.output("y", ["N", "L", 8])
    return net


def deep() -> Net:
    """Twelve equal layers with weights of their own, and scalars that they share."""
    net = Net()
    x = net.input("x", ["N", 8])
    for layer in range(12):
        x = net.op("Add", x, net.op("Mul", net.op("Tanh", net.linear(x, 8, 8, seed=10 * layer)), net.number(0.125)))
    net.op("Identity", x, out="y")
    net.output("y", ["N", 8])
    return net


def flattened_rows() -> Net:
    """Rows of all samples together, and apart again."""
    net = Net()
    x = net.input("x", ["N", "L", 8])
    shape = net.op("Shape", x)
    rows = net.op("Tanh", net.linear(net.op("Reshape", x, net.ints(-1, 8)), 8, 8))
    net.op("Reshape", rows, shape, out="y")
    net.output("y", ["N", "L", 8])
    return net


def frames() -> Net:
    """Pairs of frames stacked: the length shrinks by design."""
    net = Net()
    x = net.input("x", ["N", "T", 8])
    net.op("Relu", net.linear(net.op("Reshape", x, net.ints(0, -1, 16)), 16, 8), out="y")
    net.output("y", ["N", "T2", 8])
    return net


def infinite_mask() -> Net:
    """-inf before a Softmax in float16 works."""
    net = Net()
    x = net.op("Cast", net.input("x", ["N", 8]), to=F16)
    x = net.op("Where", net.input("keep", ["N", 8], BOOL), x, net.number(-np.inf, np.float16))
    net.op("Cast", net.op("Softmax", x), to=1, out="y")
    net.output("y", ["N", 8])
    return net


def truncation() -> Net:
    """float to int and back cuts the fraction off; ids from float data."""
    net = Net()
    x = net.op("Cast", net.input("x", ["N", 8]), to=I64)
    net.op("Relu", net.op("Cast", x, to=1), out="y")
    net.output("y", ["N", 8])
    return net


def weight_only() -> Net:
    """Integer weights of a matrix product, float activations: a scheme of its own. Small equal biases."""
    net = Net()
    x = net.op("MatMul", net.input("x", ["N", 8]), net.int8_weight(8, 16))
    x = net.op("Relu", net.op("Add", x, net.const(np.zeros(16, np.float32))))
    x = net.op("MatMul", x, net.int8_weight(16, 16, seed=3))
    net.op("Add", x, net.const(np.zeros(16, np.float32)), out="y")
    net.output("y", ["N", 16])
    return net


def residual_quantized() -> Net:
    """Q/DQ on both sides of a residual sum of two activations."""
    net = Net()
    x = net.fake_quantize(net.op("Relu", net.input("x", ["N", 4, 8, 8])))
    y = net.fake_quantize(net.op("Conv", x, net.int8_weight(4, 4, 3, 3), pads=[1] * 4))
    net.op("Relu", net.op("Add", y, x), out="y")
    net.output("y", ["N", 4, 8, 8])
    return net


def sibling_names() -> Net:
    """Both branches call a value "z", and only one of the Casts that read them could be taken for a Cast to itself."""
    net = Net()
    x = net.input("x", ["N", 4])
    loud = net.op("Greater", net.op("ReduceMax", x, keepdims=0), net.number(0))
    branches = {}
    for name, op, extra in (("then_branch", "Neg", {}), ("else_branch", "Cast", {"to": I64})):
        nodes = [helper.make_node(op, [x], ["z"], **extra), helper.make_node("Cast", ["z"], [f"{name}_y"], to=1)]
        if name == "then_branch":
            nodes[1] = helper.make_node("Relu", ["z"], [f"{name}_y"])
        branches[name] = helper.make_graph(nodes, name, [], [value(f"{name}_y", ["N", 4])])
    net.op("If", loud, out="y", **branches)
    net.output("y", ["N", 4])
    return net


LOOKALIKES = {
    make.__name__: make
    for make in (
        shared_heads, shared_layers, deep, flattened_rows, frames, infinite_mask, truncation, weight_only,
        residual_quantized, sibling_names,
    )
}  # fmt: skip

TENSORRT = {
    "tensorrt": {
        "fp16": True,
        "minShapes": {"image": [1, 3, 32, 32]},
        "optShapes": {"image": [8, 3, 32, 32]},
        "maxShapes": {"image": [32, 3, 32, 32]},
        "memPoolSize": "workspace:2048",
        "threads": 2,
        "execution_contexts": 2,
    }
}
ONNXRUNTIME = {
    "onnxruntime": {
        "providers": ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"],
        "graph_optimization_level": "ORT_ENABLE_BASIC",
        "threads_sharing_session": 1,
    }
}

# Name -> (model, options of the command line).
CLEAN = {
    "cnn": (cnn, []),
    "transformer": (transformer, []),
    "quantized": (quantized, []),
    "lstm_with_if": (lstm_with_if, []),
    "detector": (detector, []),
    "half": (half, []),
    "channels_last": (channels_last, []),
    "looped": (looped, []),
    "tensorrt_settings": (cnn, ["--settings", json.dumps(TENSORRT), "--traffic", "image=1x3x32x32,image=32x3x32x32"]),
    "onnxruntime_settings": (cnn, ["--settings", json.dumps(ONNXRUNTIME)]),
}
