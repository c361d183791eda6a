"""Small models of one com.microsoft operator each, for test_microsoft_ops.py: CASES lists them.

A case gives the inputs in order (None leaves one out, Const makes it an initializer), the attributes and the types of
the outputs ("" leaves one out). `reference` replaces ONNX Runtime where that has no CPU kernel.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import helper

F32, F16, I32, I64 = np.float32, np.float16, np.int32, np.int64
U8, I8, U16, I16 = np.uint8, np.int8, np.uint16, np.int16


class Const(NamedTuple):
    array: np.ndarray


class Case(NamedTuple):
    id: str
    op: str
    inputs: list
    attrs: dict = {}
    outputs: tuple = (F32,)
    tolerance: float = 1e-5  # of the output's scale; integers: steps
    reference: Callable | None = None
    domain: str = "com.microsoft"
    valid: Callable = lambda outputs: outputs  # the defined part of the outputs


def value_info(name: str, array: np.ndarray, dynamic: bool):
    """Every dim but the last is a symbol when `dynamic`; equal sizes share one."""
    dims = list(array.shape)
    if dynamic:
        dims = [f"n{d}" if i + 1 < len(dims) else d for i, d in enumerate(dims)]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), dims)


def feeds_of(case: Case) -> dict[str, np.ndarray]:
    return {f"x{i}": x for i, x in enumerate(case.inputs) if isinstance(x, np.ndarray)}


def make_model(case: Case, dynamic: bool) -> onnx.ModelProto:
    names = ["" if x is None else f"x{i}" for i, x in enumerate(case.inputs)]
    outputs = [f"y{i}" if t else "" for i, t in enumerate(case.outputs)]
    node = helper.make_node(case.op, names, outputs, name="node", domain=case.domain, **case.attrs)
    infos = [value_info(name, array, dynamic) for name, array in feeds_of(case).items()]
    results = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(t)), None)
        for name, t in zip(outputs, case.outputs, strict=True)
        if t
    ]
    consts = [onnx.numpy_helper.from_array(x.array, f"x{i}") for i, x in enumerate(case.inputs) if isinstance(x, Const)]
    graph = helper.make_graph([node], "g", infos, results, consts)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def run_onnxruntime(case: Case) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # with more, the batch of a quantized LSTM is split, and so its scale
    session = onnxruntime.InferenceSession(make_model(case, False).SerializeToString(), options)
    return session.run(None, feeds_of(case))


rng = np.random.default_rng(20)


def real(*shape, scale=1.0, dtype=F32):
    return (rng.standard_normal(shape) * scale).astype(dtype)


def ints(low, high, *shape, dtype=I32):
    return rng.integers(low, high, shape).astype(dtype)


def quantized(*shape, dtype=U8):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def scalar(value, dtype=F32):
    return Const(np.array(value, dtype=dtype))


# ---- activations and their like


def erf(x):
    from math import erf as one

    return np.vectorize(one)(x)


def split_gelu(inputs):
    x = inputs[0].astype(np.float64) + inputs[1]
    left, right = np.split(x, 2, axis=-1)
    return [left * right * 0.5 * (1 + erf(right / np.sqrt(2)))]


def group_norm(x, gamma, beta, groups, silu):
    n, h, w, c = x.shape
    parts = x.astype(np.float64).reshape(n, h * w, groups, c // groups)
    mean = parts.mean((1, 3), keepdims=True)
    var = parts.var((1, 3), keepdims=True)
    y = ((parts - mean) / np.sqrt(var + 1e-5)).reshape(x.shape) * gamma + beta
    return y / (1 + np.exp(-y)) if silu else y


def skip_group_norm(inputs):
    x, gamma, beta, skip, bias = inputs
    total = x + skip[:, None, None, :] + bias
    return [group_norm(total, gamma, beta, 4, True), total]


def bias_softmax(axis):
    def run(inputs):
        x = (inputs[0] + inputs[1]).astype(np.float64)
        rows = x.reshape(int(np.prod(x.shape[:axis])), -1)
        e = np.exp(rows - rows.max(1, keepdims=True))
        return [(e / e.sum(1, keepdims=True)).reshape(x.shape)]

    return run


def activation_cases():
    for shape in [(7,), (2, 5), (2, 3, 8), (2, 3, 4, 5)]:
        name = "x".join(map(str, shape))
        yield Case(f"gelu_{name}", "Gelu", [real(*shape, scale=2)])
        yield Case(f"quick_gelu_{name}", "QuickGelu", [real(*shape, scale=2)], {"alpha": 1.3})
        yield Case(f"fast_gelu_{name}", "FastGelu", [real(*shape, scale=2)], tolerance=1e-4)
    for shape in [(2, 8), (2, 3, 8)]:
        name = "x".join(map(str, shape))
        yield Case(f"bias_gelu_{name}", "BiasGelu", [real(*shape), Const(real(8))])
        yield Case(f"fast_gelu_bias_{name}", "FastGelu", [real(*shape), Const(real(8))], tolerance=1e-4)
    yield Case("bias_split_gelu", "BiasSplitGelu", [real(2, 3, 12), Const(real(12))], reference=split_gelu)
    yield Case("bias_add", "BiasAdd", [real(2, 3, 6), Const(real(6)), real(2, 3, 6)], reference=lambda x: [sum(x)])
    for axis, bias, inner in [(3, (2, 1, 4, 5), 1), (2, (4, 5), 0)]:
        inputs, attrs = [real(2, 3, 4, 5), real(*bias)], {"axis": axis, "is_inner_broadcast": inner}
        yield Case(f"bias_softmax_{inner}", "BiasSoftmax", inputs, attrs, reference=bias_softmax(axis))
    yield Case("range", "Range", [scalar(2, I64), scalar(11, I64), scalar(3, I64)], outputs=(I64,))
    yield Case("range_default", "Range", [scalar([1], I32), scalar([5], I32)], outputs=(I32,))
    yield Case("unique", "Unique", [real(5)[[3, 1, 1, 4, 3, 0, 1]]], outputs=(F32, I64, I64))
    pads = Const(np.array([1, 0, 0, 2], I64))
    yield Case("pad", "Pad", [real(2, 3), pads, scalar(1.5)], {"mode": "constant"})
    yield Case("pad_2d", "Pad", [real(3, 4), Const(pads.array[None])], {"mode": "reflect"})
    yield Case("expand_dims", "ExpandDims", [real(2, 3), scalar(-1, I32)])
    yield Case("trilu", "Trilu", [real(2, 4, 5), scalar(1, I64)], {"upper": 0})
    # ONNX Runtime's bicubic border differs from ONNX's own reference.
    for mode, padding in [("bilinear", "border"), ("bilinear", "reflection"), ("bicubic", "zeros")]:
        attrs = {"mode": mode, "padding_mode": padding, "align_corners": 1}
        yield Case(
            f"grid_sample_{mode}_{padding}", "GridSample", [real(1, 2, 5, 6), real(1, 3, 4, 2, scale=0.7)], attrs
        )


# ---- normalisations


def norm_cases():
    gamma, beta, bias = Const(real(8)), Const(real(8)), Const(real(8))
    for skip_shape in [(2, 3, 8), (1, 3, 8), (3, 8)]:
        for extra in [[], [beta], [beta, bias], [None, bias]]:
            name = f"{len(skip_shape)}d{skip_shape[0]}_" + "".join("-" if e is None else "+" for e in extra)
            inputs = [real(2, 3, 8), real(*skip_shape), gamma, *extra]
            attrs = {"epsilon": 1e-3}
            yield Case(f"skip_layer_norm_{name}", "SkipLayerNormalization", inputs, attrs, (F32, "", "", F32))
    for extra in [[], [bias]]:
        for skip_shape in [(2, 3, 8), (1, 3, 8)]:
            inputs = [real(2, 3, 8), real(*skip_shape), gamma, *extra]
            name = f"{len(extra)}_{skip_shape[0]}"
            attrs = {"epsilon": 1e-5}
            yield Case(f"skip_rms_norm_{name}", "SkipSimplifiedLayerNormalization", inputs, attrs, (F32, "", "", F32))
    for shape, axis in [((2, 3, 8), -1), ((4, 8), -1), ((2, 3, 8), 1)]:
        scale = real(*shape[axis:])
        attrs = {"axis": axis, "epsilon": 1e-5}
        inputs = [real(*shape), Const(scale)]
        yield Case(
            f"rms_norm_{len(shape)}_{axis}", "SimplifiedLayerNormalization", inputs, attrs, (F32, F32), domain=""
        )
    inputs = [real(2, 3, 8, dtype=F16), Const(gamma.array.astype(F16))]
    attrs = {"axis": -1, "epsilon": 1e-5}
    yield Case("rms_norm_f16", "SimplifiedLayerNormalization", inputs, attrs, (F16,), 2e-3, domain="")
    words, places, kinds = Const(real(20, 8)), Const(real(12, 8)), Const(real(2, 8))
    ids, segments = ints(0, 20, 2, 5), ints(0, 2, 2, 5)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], I32)
    positions = ints(0, 12, 2, 5)
    op = "EmbedLayerNormalization"
    full = [ids, segments, words, places, kinds, gamma, beta]
    yield Case("embed_norm", op, full, {}, (F32, I32))
    yield Case("embed_norm_mask", op, [*full, mask], {"epsilon": 1e-4}, (F32, I32, F32))
    yield Case("embed_norm_positions", op, [*full, None, positions], {}, (F32, I32))
    yield Case("embed_norm_one_row", op, [*full, mask, positions[:1]], {}, (F32, I32))
    yield Case("embed_norm_no_segment", op, [ids, None, words, places, None, gamma, beta], {}, (F32, I32))
    attrs = {"groups": 4, "activation": 1, "epsilon": 1e-5}
    reference = lambda x: [group_norm(*x, 4, True)]  # noqa: E731
    yield Case("group_norm", "GroupNorm", [real(2, 3, 4, 8), gamma, beta], attrs, reference=reference)
    inputs = [real(2, 3, 4, 8), gamma, beta, real(2, 8), bias]
    yield Case("skip_group_norm", "SkipGroupNorm", inputs, attrs, (F32, F32), reference=skip_group_norm)


# ---- products


def product_cases():
    a, b = real(2, 3, 4), real(2, 4, 5)
    swap = lambda x: np.ascontiguousarray(np.swapaxes(x, -1, -2))  # noqa: E731
    op = "FusedMatMul"
    yield Case("fused_matmul", op, [a, b], {"alpha": 0.5})
    yield Case("fused_matmul_ta", op, [swap(a), b], {"transA": 1})
    yield Case("fused_matmul_tb", op, [a, swap(b)], {"transB": 1, "alpha": 2.0})
    yield Case("fused_matmul_2d", op, [swap(a[0]), swap(b[0])], {"transA": 1, "transB": 1})
    yield Case("fused_matmul_vector", op, [real(4), b], {"alpha": 1.5})
    wide, other = real(3, 2, 5, 4), real(4, 2, 5, 6)
    yield Case("fused_matmul_batch", op, [wide, other], {"transBatchA": 1, "transBatchB": 1, "alpha": 0.3})
    yield Case("fused_matmul_batch_a", op, [wide, real(2, 5, 4, 6)], {"transBatchA": 1})
    yield Case("fused_matmul_batch_b", op, [real(2, 5, 3, 4), other], {"transBatchB": 1})
    for activation in ["Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid"]:
        attrs = {"activation": activation, "transB": 1, "alpha": 0.7, "beta": 0.4}
        if activation == "LeakyRelu":
            attrs["activation_alpha"] = 0.2
        if activation == "HardSigmoid":
            attrs |= {"activation_alpha": 0.3, "activation_beta": 0.4}
        yield Case(f"fused_gemm_{activation}", "FusedGemm", [real(3, 4), real(5, 4), real(5)], attrs)
    for dtype in [U8, I8]:
        w = Const(quantized(4, 5, dtype=dtype))
        zero = Const(quantized(5, dtype=dtype))
        scales = Const(np.abs(real(5)) * 0.02)
        x = real(2, 3, 4)
        name = np.dtype(dtype).name
        op = "DynamicQuantizeMatMul"
        yield Case(f"dynamic_matmul_{name}", op, [x, w, scalar(0.02)])
        yield Case(f"dynamic_matmul_columns_{name}", op, [x, w, scales, zero, Const(real(5))])
        op = "MatMulIntegerToFloat"
        a = quantized(2, 3, 4)
        yield Case(f"integer_to_float_{name}", op, [a, w, scalar(0.1), scalar(0.02), scalar(7, U8), scalar(3, dtype)])
        yield Case(
            f"integer_to_float_columns_{name}", op, [a, w, scalar(0.1), scales, scalar(7, U8), zero, Const(real(5))]
        )
        yield Case(f"integer_to_float_plain_{name}", op, [a, w, scalar(0.1), scales])
    a, b = quantized(3, 4), quantized(5, 4, dtype=I8)
    head = [a, scalar(0.1), scalar(9, U8), Const(b), scalar(0.05), scalar(-2, I8)]
    sums = Const(ints(-500, 500, 5))
    yield Case("qgemm_real", "QGemm", [*head, sums], {"transB": 1, "alpha": 0.5})
    tail = [scalar(0.3), scalar(100, U8)]
    yield Case("qgemm", "QGemm", [*head, sums, *tail], {"transB": 1}, (U8,), 1)
    yield Case("qgemm_no_c", "QGemm", [*head, None, *tail], {"transB": 1}, (U8,), 1)


def pack(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Low bits first, each row filled up to a byte."""
    per_byte = 8 // bits
    rows = numbers.reshape(-1, numbers.shape[-1])
    rows = np.pad(rows, ((0, 0), (0, -rows.shape[1] % per_byte))).reshape(len(rows), -1, per_byte)
    packed = sum(rows[..., i].astype(np.uint16) << (i * bits) for i in range(per_byte))
    return packed.astype(U8).reshape(*numbers.shape[:-1], -1)


def by_group(inputs):
    """Each column of the weights names its block. ONNX Runtime reads packed zero points differently here."""
    x, packed, scales, zeros, group = inputs
    numbers = np.stack([packed & 15, packed >> 4], -1).reshape(len(packed), -1)
    zeros = np.stack([zeros & 15, zeros >> 4], -1).reshape(len(zeros), -1)
    return [x.astype(np.float64) @ ((numbers - zeros[:, group].astype(F32)) * scales[:, group]).T]


def nbits_cases():
    for bits in [2, 4, 8]:
        for columns, block, rows in [(32, 16, 5), (40, 16, 3), (64, 32, 8), (96, 32, 4)]:
            blocks = -(-columns // block)
            numbers = rng.integers(0, 1 << bits, (rows, blocks, block))
            packed = Const(pack(numbers, bits))
            scales = Const(np.abs(real(rows, blocks)) * 0.1)
            zeros = Const(pack(rng.integers(0, 1 << bits, (rows, blocks)), bits))
            attrs = {"bits": bits, "block_size": block, "N": rows, "K": columns}
            name = f"nbits_{bits}_{columns}_{block}"
            x = real(2, 3, columns)
            yield Case(name, "MatMulNBits", [x, packed, scales], attrs)
            yield Case(f"{name}_zero", "MatMulNBits", [x[0], packed, scales, zeros], attrs)
            bias = Const(real(rows))
            yield Case(f"{name}_bias", "MatMulNBits", [x, packed, scales, zeros, None, bias], attrs)
            if bits != 4:
                continue  # ONNX Runtime wants packed zero points there
            real_zeros = Const((rng.random((rows, blocks)) * (1 << bits)).astype(F32))
            yield Case(f"{name}_real_zero", "MatMulNBits", [x, packed, scales, real_zeros], attrs)
    numbers = rng.integers(0, 16, (6, 3, 16))
    group = Const(rng.permutation(np.repeat(np.arange(3), 16)).astype(I32))
    scales = Const(np.abs(real(6, 3)) * 0.1)
    zeros = Const(pack(rng.integers(0, 16, (6, 3)), 4))
    attrs = {"bits": 4, "block_size": 16, "N": 6, "K": 48}
    inputs = [real(4, 48), Const(pack(numbers, 4)), scales, None, group]
    yield Case("nbits_group", "MatMulNBits", inputs, attrs)
    inputs = [*inputs[:3], zeros, group]
    yield Case("nbits_group_zero", "MatMulNBits", inputs, attrs, reference=by_group)
    flat = [real(4, 48), Const(pack(numbers, 4)), Const(scales.array.reshape(-1)), Const(zeros.array.reshape(-1))]
    yield Case("nbits_flat", "MatMulNBits", flat, attrs)


def cases():
    for family in [activation_cases, norm_cases, product_cases, nbits_cases]:
        yield from family()
