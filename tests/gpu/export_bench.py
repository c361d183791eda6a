"""Writes the models whose kernels gpu-test times: NAME.onnx and bench.json with shapes and the bytes that must move.

Also net.onnx, a small net of many kinds of steps for gpu_tuning.py.

export_bench.py FOLDER
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "codegen"))

from chain import chain  # noqa: E402

FLOAT = {"fp32": ("float", 4, np.float32), "fp16": ("float16", 2, np.float16)}


def model(text: str, constants: dict) -> onnx.ModelProto:
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    for name, array in constants.items():
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return made


def chain_of(precision: str, width: int = 256) -> onnx.ModelProto:
    word, _, dtype = FLOAT[precision]
    body, constants = chain(dtype, width)
    return model(f"g ({word}[N,400,{width}] x) => ({word}[N,400,{width}] y) {{ {body} }}", constants)


def rows_of(precision: str) -> dict[str, tuple[onnx.ModelProto, int, int]]:
    """name -> model, width, inputs of full size."""
    word, _, dtype = FLOAT[precision]

    def make(inputs: str, width: int, body: str, constants: dict | None = None) -> onnx.ModelProto:
        given = ", ".join(f"{word}[N,{width}] {name}" for name in inputs)
        return model(f"g ({given}) => ({word}[N,{width}] y) {{ {body} }}", constants or {})

    scale = {"s": np.linspace(0.5, 1.5, 768).astype(dtype), "b": np.linspace(-1, 1, 768).astype(dtype)}
    square = "q = Mul (x, x) v = ReduceMean (q, last) e = Add (v, eps) r = Sqrt (e) n = Div (x, r) y = Mul (n, w)"
    norm = {"last": np.array([-1]), "eps": dtype(1e-5), "w": np.linspace(0.5, 1.5, 4096).astype(dtype)}
    fused = "a = Add (x, z) n = LayerNormalization (a, s, b) y = Gelu (n)"
    return {
        "norm_residual_gelu": (make("xz", 768, fused, scale), 768, 2),
        "softmax": (make("x", 1024, "a = Mul (x, k) y = Softmax (a)", {"k": dtype(0.125)}), 1024, 1),
        "rmsnorm": (make("x", 4096, square, norm), 4096, 1),
        "gelu": (make("x", 4096, "a = Mul (x, k) y = Gelu (a)", {"k": dtype(0.5)}), 4096, 1),
    }


def net() -> onnx.ModelProto:
    """Convolutions, a depthwise one, a product, and kernels between them, in fp16."""

    def half(*shape: int, seed: int) -> np.ndarray:
        values = np.random.default_rng(seed).standard_normal(shape)
        return (values / np.sqrt(np.prod(shape[1:]) or 1)).astype(np.float16)

    constants = {
        "w1": half(32, 3, 3, 3, seed=0),
        "b1": half(32, 1, seed=1).reshape(32),
        "wd": half(32, 1, 3, 3, seed=2),
        "w2": half(64, 32, 3, 3, seed=3),
        "w3": half(64, 64, 1, 1, seed=4),
        "w4": half(100, 64, seed=5).T.copy(),
        "axes": np.array([2, 3]),
        "last": np.array([-1]),
    }
    body = (
        "c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w1, b1) r = Relu (c)"
        " d = Conv <group = 32, pads = [1, 1, 1, 1]> (r, wd) s = Sigmoid (d) m = Mul (d, s)"
        " e = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (m, w2) f = Conv (e, w3) g = Add (f, e) h = Relu (g)"
        " i = ReduceMean <keepdims = 0> (h, axes) j = MatMul (i, w4) y = Softmax (j)"
        " k = Tanh (j) n = ReduceMean (k, last) z = Sub (k, n)"
    )
    return model(f"g (float16[N,3,64,64] x) => (float16[N,100] y, float16[N,100] z) {{ {body} }}", constants)


def export(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    runs = []

    def add(name: str, made: onnx.ModelProto, inputs: dict, bytes_moved: int) -> None:
        file = f"{name.split('@')[0]}.onnx"
        onnx.save(made, folder / file)
        runs.append({"name": name, "file": file, "shapes": inputs, "bytes": bytes_moved})

    for precision, (_, size, _) in FLOAT.items():
        made = chain_of(precision)
        for batch in (1, 16):
            add(f"chain_{precision}@{batch}", made, {"x": [batch, 400, 256]}, 2 * batch * 400 * 256 * size)
        counts = {
            "norm_residual_gelu": (128, 16384),
            "softmax": (128, 65536),
            "rmsnorm": (128, 32768),
            "gelu": (32768,),
        }
        for kind, (made, width, inputs) in rows_of(precision).items():
            for rows in counts[kind]:
                shapes = {name: [rows, width] for name in "xz"[:inputs]}
                add(f"{kind}_{precision}@{rows}", made, shapes, (inputs + 1) * rows * width * size)
    onnx.save(net(), folder / "net.onnx")
    (folder / "bench.json").write_text(json.dumps({"runs": runs}, indent=1))
    return len(runs)


if __name__ == "__main__":
    print(f"{export(Path(sys.argv[1]))} timed runs in {sys.argv[1]}", file=sys.stderr)
