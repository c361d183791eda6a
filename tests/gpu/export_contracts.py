"""Writes models of one convolution, product, pool or attention each, in float16, for gpu_test.py to build and time.

export_contracts.py FOLDER     (tests/gpu/gpu_test.py, part contracts)

The shapes are those of ResNet-50, MobileNetV3, BERT-base and ViT-B/16. contracts.json lists them with their
multiplications and the bytes that they must move.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HALF = TensorProto.FLOAT16


def save(folder: Path, name: str, nodes: list, inputs: dict, output: list, weights: dict) -> None:
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(key, HALF, dims) for key, dims in inputs.items()],
        [helper.make_tensor_value_info("y", HALF, output)],
        [numpy_helper.from_array(array, key) for key, array in weights.items()],
    )
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])
    onnx.checker.check_model(model)
    onnx.save(model, folder / f"{name}.onnx")


def conv(
    folder: Path, random, size: int, into: int, out: int, kernel: int, stride: int, groups: int, batch: int
) -> dict:
    name = f"conv{kernel}x{kernel}_{into}_{out}_{size}" + (f"_s{stride}" if stride > 1 else "")
    name += ("_dw" if groups > 1 else "") + f"_b{batch}"
    w = random.standard_normal((out, into // groups, kernel, kernel)) * (into // groups * kernel**2) ** -0.5
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], group=groups, strides=[stride] * 2, pads=[kernel // 2] * 4),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    to = -(-size // stride)
    weights = {"w": w.astype(np.float16), "b": random.standard_normal(out).astype(np.float16)}
    save(folder, name, nodes, {"x": [batch, into, size, size]}, [batch, out, to, to], weights)
    macs = batch * to * to * w.size
    return {
        "name": name,
        "step": "Conv",
        "macs": macs,
        "bytes": 2 * (batch * size**2 * into + w.size + batch * to**2 * out),
    }


def matmul(folder: Path, random, m: int, n: int, k: int, act: str = "") -> dict:
    name = f"matmul_{m}_{n}_{k}" + (f"_{act}" if act else "")
    w = (random.standard_normal((k, n)) * k**-0.5).astype(np.float16)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["s" if act else "y"])]
    if act:
        nodes.append(helper.make_node(act, ["s"], ["y"]))
    save(folder, name, nodes, {"x": [m, k]}, [m, n], {"w": w, "b": random.standard_normal(n).astype(np.float16)})
    return {"name": name, "step": "MatMul", "macs": m * n * k, "bytes": 2 * (m * k + n * k + m * n)}


def attention(folder: Path, batch: int, length: int, heads: int, head: int) -> dict:
    name = f"attention_{batch}x{length}x{heads}x{head}"
    dims = [batch, length, heads * head]
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], q_num_heads=heads, kv_num_heads=heads)
    graph = helper.make_graph(
        [node],
        name,
        [helper.make_tensor_value_info(key, HALF, dims) for key in "qkv"],
        [helper.make_tensor_value_info("y", HALF, dims)],
    )
    onnx.save(
        helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 23)]), folder / f"{name}.onnx"
    )
    macs = 2 * batch * heads * length**2 * head
    return {"name": name, "step": "Attention", "macs": macs, "bytes": 8 * batch * length * heads * head}


def export(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    rows = []
    for batch in (1, 16):
        for size, into, out, kernel, stride in (
            (224, 3, 64, 7, 2),
            (56, 64, 64, 1, 1),
            (56, 64, 64, 3, 1),
            (56, 64, 256, 1, 1),
            (56, 128, 128, 3, 2),
            (28, 128, 128, 3, 1),
            (28, 512, 128, 1, 1),
            (14, 256, 256, 3, 1),
            (14, 256, 1024, 1, 1),
            (14, 1024, 256, 1, 1),
            (7, 512, 512, 3, 1),
            (7, 512, 2048, 1, 1),
        ):
            rows.append(conv(folder, random, size, into, out, kernel, stride, 1, batch))
        rows.append(conv(folder, random, 28, 120, 120, 5, 1, 120, batch))
        rows.append(conv(folder, random, 56, 96, 96, 7, 1, 96, batch))
        tokens = 128 * batch
        rows += [matmul(folder, random, tokens, n, k, act) for n, k, act in
                 ((2304, 768, ""), (768, 768, ""), (3072, 768, "Gelu"), (768, 3072, ""))]  # fmt: skip
        rows.append(attention(folder, batch, 128, 12, 64))
        rows.append(attention(folder, batch, 197, 12, 64))
    (folder / "contracts.json").write_text(json.dumps(rows, indent=1))
    return len(rows)


if __name__ == "__main__":
    print(f"{export(Path(sys.argv[1]))} models in {sys.argv[1]}", file=sys.stderr)
