"""Makes five well-known networks as ONNX files, node for node as torch.onnx.export writes them (opset 17, batch norms
folded, dynamic batch), with random weights from a seed: for counting launches and timing where no exporter is at hand.

usage: exports.py [NAME...] [--folder build/exports]       names: resnet50 mobilenet_v3 vit_b16 convnext_tiny bert_base
Their answers mean nothing; their shapes, operators and order of operators are those of the real exports.
"""

import argparse
import math
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build" / "exports"


class Builder:
    """A graph in the making: op() appends a node and gives the name of its result."""

    def __init__(self, name: str):
        self.name, self.nodes, self.weights, self.count = name, [], [], 0
        self.rng = np.random.default_rng(0)

    def op(self, kind: str, *inputs: str, **attributes) -> str:
        self.count += 1
        result = f"/{kind}_{self.count}_output_0"
        self.nodes.append(helper.make_node(kind, list(inputs), [result], f"/{kind}_{self.count}", **attributes))
        return result

    def constant(self, array) -> str:
        name = f"onnx::w_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def random(self, *shape: int, fan: int) -> str:
        return self.constant(
            (self.rng.standard_normal(shape, dtype=np.float32) * math.sqrt(1 / fan)).astype(np.float32)
        )

    def near(self, value: float, *shape: int) -> str:
        return self.constant((value + 0.02 * self.rng.standard_normal(shape)).astype(np.float32))

    def conv(
        self, x: str, into: int, out: int, size: int, stride: int = 1, groups: int = 1, pad: int | None = None
    ) -> str:
        pad = size // 2 if pad is None else pad
        w = self.random(out, into // groups, size, size, fan=into // groups * size * size)
        return self.op(
            "Conv",
            x,
            w,
            self.near(0, out),
            dilations=[1, 1],
            group=groups,
            kernel_shape=[size, size],
            pads=[pad] * 4,
            strides=[stride, stride],
        )

    def gemm(self, x: str, into: int, out: int) -> str:
        return self.op("Gemm", x, self.random(out, into, fan=into), self.near(0, out), alpha=1.0, beta=1.0, transB=1)

    def linear(self, x: str, into: int, out: int) -> str:
        """A Linear over the last of three dims: the exporter writes the bias first."""
        return self.op("Add", self.near(0, out), self.op("MatMul", x, self.random(into, out, fan=into)))

    def layer_norm(self, x: str, width: int, epsilon: float) -> str:
        return self.op("LayerNormalization", x, self.near(1, width), self.near(0, width), axis=-1, epsilon=epsilon)

    def gelu(self, x: str) -> str:
        erf = self.op("Erf", self.op("Div", x, self.constant(np.float32(math.sqrt(2)))))
        product = self.op("Mul", x, self.op("Add", erf, self.constant(np.float32(1))))
        return self.op("Mul", product, self.constant(np.float32(0.5)))

    def dim(self, x: str, axis: int) -> str:
        """Size of a dim as a tensor of one element."""
        size = self.op("Gather", self.op("Shape", x), self.constant(np.int64(axis)), axis=0)
        return self.op("Unsqueeze", size, self.ints(0))

    def shape(self, *parts) -> str:
        return self.op("Concat", *[p if isinstance(p, str) else self.ints(p) for p in parts], axis=0)

    def model(self, inputs: list, outputs: list) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, self.name, inputs, outputs, self.weights)
        made = helper.make_model(
            graph, producer_name="pytorch", ir_version=8, opset_imports=[helper.make_opsetid("", 17)]
        )
        onnx.checker.check_model(made)
        return made

    def image_model(self, result: str) -> onnx.ModelProto:
        self.nodes[-1].output[0] = "output"
        value = helper.make_tensor_value_info
        return self.model(
            [value("input", TensorProto.FLOAT, ["batch", 3, 224, 224])],
            [value("output", TensorProto.FLOAT, ["batch", 1000])],
        )


def resnet50() -> onnx.ModelProto:
    b = Builder("resnet50")
    x = b.op("Relu", b.conv("input", 3, 64, 7, 2))
    x = b.op("MaxPool", x, ceil_mode=0, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    width = 64
    for stage, (blocks, inner) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True)):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            y = b.op("Relu", b.conv(x, width, inner, 1))
            y = b.op("Relu", b.conv(y, inner, inner, 3, stride))
            y = b.conv(y, inner, 4 * inner, 1)
            if block == 0:
                x = b.conv(x, width, 4 * inner, 1, stride)
            x, width = b.op("Relu", b.op("Add", y, x)), 4 * inner
    x = b.op("Flatten", b.op("GlobalAveragePool", x), axis=1)
    return b.image_model(b.gemm(x, 2048, 1000))


# kernel, expanded, out, squeeze and excite, HardSwish, stride
V3_LARGE = [
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
]


def mobilenet_v3() -> onnx.ModelProto:
    b = Builder("mobilenet_v3_large")
    x, width = b.op("HardSwish", b.conv("input", 3, 16, 3, 2)), 16
    for size, inner, out, squeeze, swish, stride in V3_LARGE:
        act = "HardSwish" if swish else "Relu"
        y = x if inner == width else b.op(act, b.conv(x, width, inner, 1))
        y = b.op(act, b.conv(y, inner, inner, size, stride, inner))
        if squeeze:
            reduced = -(-inner // 32) * 8  # a quarter, as a multiple of 8
            s = b.op("Relu", b.conv(b.op("GlobalAveragePool", y), inner, reduced, 1))
            s = b.op("HardSigmoid", b.conv(s, reduced, inner, 1), alpha=1 / 6)
            y = b.op("Mul", s, y)
        y = b.conv(y, inner, out, 1)
        x, width = (b.op("Add", y, x) if stride == 1 and out == width else y), out
    x = b.op("HardSwish", b.conv(x, 160, 960, 1))
    x = b.op("Flatten", b.op("GlobalAveragePool", x), axis=1)
    x = b.op("HardSwish", b.gemm(x, 960, 1280))
    return b.image_model(b.gemm(x, 1280, 1000))


def torch_attention(b: Builder, x: str, width: int, heads: int) -> str:
    """torch.nn.MultiheadAttention over [batch, tokens, width], as its functional form exports."""
    head = width // heads
    x = b.op("Transpose", x, perm=[1, 0, 2])  # tokens first
    tokens, batch = b.dim(x, 0), b.dim(x, 1)
    packed = b.linear(x, width, 3 * width)
    split = b.op("Reshape", packed, b.shape(tokens, batch, 3, width), allowzero=0)
    split = b.op("Squeeze", b.op("Transpose", b.op("Unsqueeze", split, b.ints(0)), perm=[3, 1, 2, 0, 4]), b.ints(3))
    q, k, v = (b.op("Gather", split, b.constant(np.int64(i)), axis=0) for i in range(3))
    rows = b.op("Mul", batch, b.ints(heads))
    q, k, v = (b.op("Transpose", b.op("Reshape", t, b.shape(tokens, rows, head)), perm=[1, 0, 2]) for t in (q, k, v))
    q, k, v = (b.op("Reshape", t, b.shape(batch, heads, tokens, head)) for t in (q, k, v))
    scale = b.constant(np.float32(head**-0.25))
    scores = b.op("MatMul", b.op("Mul", q, scale), b.op("Mul", b.op("Transpose", k, perm=[0, 1, 3, 2]), scale))
    y = b.op("MatMul", b.op("Softmax", scores, axis=-1), v)
    y = b.op("Transpose", y, perm=[2, 0, 1, 3])
    y = b.op("Reshape", y, b.shape(b.op("Mul", tokens, batch), width))
    y = b.op("Reshape", b.gemm(y, width, width), b.shape(tokens, batch, width))
    return b.op("Transpose", y, perm=[1, 0, 2])


def vit_b16() -> onnx.ModelProto:
    b = Builder("vit_b16")
    width = 768
    x = b.conv("input", 3, width, 16, 16, pad=0)
    batch = b.dim("input", 0)
    x = b.op("Transpose", b.op("Reshape", x, b.shape(batch, width, 196)), perm=[0, 2, 1])
    token = b.op("Expand", b.near(0, 1, 1, width), b.shape(batch, 1, width))
    x = b.op("Add", b.op("Concat", token, x, axis=1), b.near(0, 1, 197, width))
    for _ in range(12):
        x = b.op("Add", torch_attention(b, b.layer_norm(x, width, 1e-6), width, 12), x)
        y = b.gelu(b.linear(b.layer_norm(x, width, 1e-6), width, 3072))
        x = b.op("Add", x, b.linear(y, 3072, width))
    x = b.op("Gather", b.layer_norm(x, width, 1e-6), b.constant(np.int64(0)), axis=1)
    return b.image_model(b.gemm(x, width, 1000))


def channel_norm(b: Builder, x: str, width: int) -> str:
    """A LayerNorm of channels first: channels last and back."""
    y = b.layer_norm(b.op("Transpose", x, perm=[0, 2, 3, 1]), width, 1e-6)
    return b.op("Transpose", y, perm=[0, 3, 1, 2])


def convnext_tiny() -> onnx.ModelProto:
    b = Builder("convnext_tiny")
    widths = (96, 192, 384, 768)
    x = channel_norm(b, b.conv("input", 3, 96, 4, 4, pad=0), 96)
    for stage, blocks in enumerate((3, 3, 9, 3)):
        width = widths[stage]
        if stage > 0:
            x = b.conv(channel_norm(b, x, widths[stage - 1]), widths[stage - 1], width, 2, 2, pad=0)
        for _ in range(blocks):
            y = b.op("Transpose", b.conv(x, width, width, 7, groups=width), perm=[0, 2, 3, 1])
            y = b.gelu(b.linear(b.layer_norm(y, width, 1e-6), width, 4 * width))
            y = b.op("Transpose", b.linear(y, 4 * width, width), perm=[0, 3, 1, 2])
            x = b.op("Add", b.op("Mul", b.near(0.1, width, 1, 1), y), x)
    x = channel_norm(b, b.op("GlobalAveragePool", x), 768)
    return b.image_model(b.gemm(b.op("Flatten", x, axis=1), 768, 1000))


def bert_base() -> onnx.ModelProto:
    b = Builder("bert_base")
    width, heads = 768, 12
    value = helper.make_tensor_value_info
    names = ("input_ids", "attention_mask", "token_type_ids")
    mask = b.op("Unsqueeze", b.op("Unsqueeze", "attention_mask", b.ints(1)), b.ints(2))
    mask = b.op("Sub", b.constant(np.float32(1)), b.op("Cast", mask, to=TensorProto.FLOAT))
    mask = b.op("Mul", mask, b.constant(np.float32(np.finfo(np.float32).min)))
    positions = b.constant(np.arange(512, dtype=np.int64)[None])
    positions = b.op("Slice", positions, b.ints(0), b.dim("input_ids", 1), b.ints(1), b.ints(1))
    words = b.op("Gather", b.random(30522, width, fan=width), "input_ids", axis=0)
    types = b.op("Gather", b.random(2, width, fan=width), "token_type_ids", axis=0)
    places = b.op("Gather", b.random(512, width, fan=width), positions, axis=0)
    x = b.layer_norm(b.op("Add", b.op("Add", words, types), places), width, 1e-12)
    for _ in range(12):
        q, k, v = (b.linear(x, width, width) for _ in range(3))
        q, k, v = (b.op("Reshape", t, b.shape(b.dim(t, 0), b.dim(t, 1), heads, 64)) for t in (q, k, v))
        q, v = (b.op("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, v))
        scores = b.op("MatMul", q, b.op("Transpose", k, perm=[0, 2, 3, 1]))
        scores = b.op("Add", b.op("Div", scores, b.constant(np.float32(8))), mask)
        y = b.op("Transpose", b.op("MatMul", b.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        y = b.op("Reshape", y, b.shape(b.dim(y, 0), b.dim(y, 1), width))
        x = b.layer_norm(b.op("Add", b.linear(y, width, width), x), width, 1e-12)
        y = b.linear(b.gelu(b.linear(x, width, 3072)), 3072, width)
        x = b.layer_norm(b.op("Add", y, x), width, 1e-12)
    last = b.op("Identity", x)
    b.nodes[-1].output[0] = last = "last_hidden_state"
    first = b.op("Gather", last, b.constant(np.int64(0)), axis=1)
    b.op("Tanh", b.gemm(first, width, width))
    b.nodes[-1].output[0] = "pooler_output"
    return b.model(
        [value(name, TensorProto.INT64, ["batch", "sequence"]) for name in names],
        [
            value("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", width]),
            value("pooler_output", TensorProto.FLOAT, ["batch", width]),
        ],
    )


MAKERS = {f.__name__: f for f in (resnet50, mobilenet_v3, vit_b16, convnext_tiny, bert_base)}
IMAGE = {"input": ((1, 3, 224, 224), (1, 3, 224, 224), (16, 3, 224, 224))}
TEXT = dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), ((1, 8), (1, 128), (16, 384)))
RANGES = {name: TEXT if name == "bert_base" else IMAGE for name in MAKERS}


def path(name: str, folder: Path = FOLDER) -> Path:
    """The file, made when it is not there."""
    file = folder / f"{name}.onnx"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(MAKERS[name](), str(file))
    return file


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *MAKERS], metavar="NAME")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    args = parser.parse_args(arguments)
    for name in args.names or MAKERS:
        file = path(name, args.folder)
        print(f"{file}: {file.stat().st_size / 2**20:.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
