"""Writes the models whose kernels gpu-test times: NAME.onnx and bench.json with shapes and the bytes that must move.

export_bench.py FOLDER
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

FLOAT = {"fp32": ("float", 4, np.float32), "fp16": ("float16", 2, np.float16)}


def model(text: str, constants: dict) -> onnx.ModelProto:
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    for name, array in constants.items():
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return made


def chain(precision: str, depth: int = 12, width: int = 256) -> onnx.ModelProto:
    """The wall of small operators: scale, shift, clip, gelu, gate, residual, twelve times, and a norm."""
    word, _, dtype = FLOAT[precision]
    rng = np.random.default_rng(0)
    constants = {"lo": dtype(-3), "hi": dtype(3), "one": np.ones(width, dtype)}
    body = []
    for i in range(depth):
        constants[f"s{i}"], constants[f"b{i}"] = (rng.random(width).astype(dtype) for _ in range(2))
        y = "x" if i == 0 else f"y{i - 1}"
        body.append(
            f"m{i} = Mul ({y}, s{i}) a{i} = Add (m{i}, b{i}) z{i} = Clip (a{i}, lo, hi) g{i} = Gelu (z{i})"
            f" e{i} = Sigmoid (z{i}) r{i} = Mul (x, e{i}) y{i} = Add (g{i}, r{i})"
        )
    body.append(f"y = LayerNormalization (y{depth - 1}, one)")
    text = f"g ({word}[N,400,{width}] x) => ({word}[N,400,{width}] y) {{ {' '.join(body)} }}"
    return model(text, constants)


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


def export(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    runs = []

    def add(name: str, made: onnx.ModelProto, inputs: dict, bytes_moved: int) -> None:
        file = f"{name.split('@')[0]}.onnx"
        onnx.save(made, folder / file)
        runs.append({"name": name, "file": file, "shapes": inputs, "bytes": bytes_moved})

    for precision, (_, size, _) in FLOAT.items():
        made = chain(precision)
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
    (folder / "bench.json").write_text(json.dumps({"runs": runs}, indent=1))
    return len(runs)


if __name__ == "__main__":
    print(f"{export(Path(sys.argv[1]))} timed runs in {sys.argv[1]}", file=sys.stderr)
