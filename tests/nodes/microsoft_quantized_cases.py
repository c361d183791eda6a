"""The convolutions and the quantized operators of com.microsoft, for test_microsoft_ops.py."""

import numpy as np
from microsoft_cases import I8, I16, I32, U8, U16, Case, Const, ints, quantized, real, run_onnxruntime, scalar

# ---- convolutions


def channels_first(x):
    return np.ascontiguousarray(np.moveaxis(x, -1, 1))


def fused_conv_channels_first(inputs):
    x, w, b, z = inputs
    attrs = {"activation": "Relu", "pads": [1] * 4}
    (y,) = run_onnxruntime(Case("", "FusedConv", [channels_first(x), Const(w), Const(b), channels_first(z)], attrs))
    return [np.moveaxis(y, 1, -1)]


def conv_cases():
    x, w, b = real(2, 3, 7, 8), Const(real(4, 3, 3, 3)), Const(real(4))
    activations = {
        "Relu": [],
        "Tanh": [],
        "Sigmoid": [],
        "LeakyRelu": [0.3],
        "Clip": [-0.5, 1.5],
        "HardSigmoid": [0.3, 0.4],
    }
    for name, params in activations.items():
        attrs = {"activation": name, "pads": [1, 0, 1, 2], "strides": [2, 1]}
        if params:
            attrs["activation_params"] = params
        yield Case(f"fused_conv_{name}", "FusedConv", [x, w, b], attrs)
    same = {"activation": "Relu", "pads": [1] * 4}
    yield Case("fused_conv_sum", "FusedConv", [x, w, b, real(2, 4, 7, 8)], same)
    yield Case("fused_conv_plain", "FusedConv", [x, w], {"auto_pad": "SAME_UPPER"})
    attrs = {"pads": [1] * 4, "strides": [2, 2]}
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    inputs = [last, w, b, real(2, 7, 8, 4)]
    yield Case("nhwc_fused_conv", "NhwcFusedConv", inputs, same, reference=fused_conv_channels_first)
    for dtype in [U8, I8]:
        name = np.dtype(dtype).name
        qx, qw = quantized(1, 3, 6, 7, dtype=dtype), Const(quantized(4, 3, 3, 3, dtype=I8))
        zero = scalar(5, dtype)
        per_channel = Const(np.abs(real(4)) * 0.01 + 0.001)
        weights = [qw, per_channel, Const(np.zeros(4, I8))]
        tail = [scalar(0.9), scalar(11, dtype), Const(ints(-3000, 3000, 4))]
        op = "QLinearConv"
        yield Case(f"qconv_{name}", op, [qx, scalar(0.03), zero, *weights, *tail], attrs, (dtype,), 1)
        qlast = np.ascontiguousarray(qx.transpose(0, 2, 3, 1))
        inputs = [qlast, scalar(0.03), zero, *weights, *tail]
        yield Case(f"qconv_last_{name}", op, inputs, attrs | {"channels_last": 1}, (dtype,), 1)
        yield Case(
            f"nhwc_max_pool_{name}", "NhwcMaxPool", [qlast], {"kernel_shape": [3, 2], "strides": [2, 1]}, (dtype,), 0
        )


# ---- quantized operators


def quantized_mean(inputs):
    x, x_scale, x_zero, y_scale, y_zero = inputs
    mean = ((x.astype(np.float64) - x_zero) * x_scale).mean((1, 3))
    info = np.iinfo(x.dtype)
    return [np.clip(np.rint(mean / y_scale) + y_zero, info.min, info.max).astype(x.dtype)]


def integer_product(inputs):
    a, a_zero, b, b_zero = (x.astype(I32) for x in inputs)
    return [(a - a_zero) * (b - b_zero)]


def quantized_cases():
    for dtype in [U8, I8]:
        name = np.dtype(dtype).name
        a, b = quantized(2, 3, 4, 5, dtype=dtype), quantized(4, 1, dtype=dtype)
        # Scales whose ratios put next to nothing halfway between two steps.
        qa, qb, qc = ([scalar(s), scalar(z, dtype)] for s, z in [(0.113, 3), (0.217, 7), (0.319, 9)])
        yield Case(f"qadd_{name}", "QLinearAdd", [a, *qa, b, *qb, *qc], {}, (dtype,), 1)
        yield Case(f"qmul_{name}", "QLinearMul", [a, *qa, b, *qb, scalar(5.0), scalar(9, dtype)], {}, (dtype,), 1)
        out = [scalar(1 / 256), scalar(0 if dtype == U8 else -128, dtype)]
        yield Case(f"qsigmoid_{name}", "QLinearSigmoid", [a, *qa, *out], {}, (dtype,), 1)
        yield Case(f"qleaky_{name}", "QLinearLeakyRelu", [a, *qa, *qc], {"alpha": 0.2}, (dtype,), 1)
        for opset, axis in [(13, -1), (13, 1), (11, 1), (11, 2)]:
            attrs = {"opset": opset, "axis": axis}
            yield Case(f"qsoftmax_{opset}_{axis}_{name}", "QLinearSoftmax", [a, *qa, *out], attrs, (dtype,), 1)
        last = np.ascontiguousarray(a.transpose(0, 2, 3, 1))
        for layout, x in [(0, a), (1, last)]:
            attrs = {"channels_last": layout}
            yield Case(f"qglobal_pool_{layout}_{name}", "QLinearGlobalAveragePool", [x, *qa, *qc], attrs, (dtype,), 1)
            attrs = attrs | {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}
            yield Case(f"qpool_{layout}_{name}", "QLinearAveragePool", [x, *qa, *qc], attrs, (dtype,), 1)
            attrs = attrs | {"count_include_pad": 1}
            yield Case(f"qpool_pad_{layout}_{name}", "QLinearAveragePool", [x, *qa, *qc], attrs, (dtype,), 1)
        attrs = {"axes": [1, 3], "keepdims": 0}
        inputs = [a, *qa, *qc]
        yield Case(f"qmean_{name}", "QLinearReduceMean", inputs, attrs, (dtype,), 1, reference=quantized_mean)
        c = quantized(2, 2, 4, 5, dtype=dtype)
        yield Case(f"qconcat_{name}", "QLinearConcat", [*qc, a, *qa, c, *qb], {"axis": 1}, (dtype,), 1)
        choose = np.asarray(real(4, 5) > 0)
        yield Case(f"qwhere_{name}", "QLinearWhere", [choose, a, *qa, b, *qb, *qc], {}, (dtype,), 1)
        inputs = [a, scalar(3, dtype), b, scalar(2, dtype)]
        yield Case(f"mul_integer_{name}", "MulInteger", inputs, {}, (I32,), 0, reference=integer_product)
    for dtype in [U8, I8, U16, I16]:
        name = np.dtype(dtype).name
        zero = scalar(77, dtype)
        yield Case(f"quantize_{name}", "QuantizeLinear", [real(3, 4), scalar(0.01), zero], {}, (dtype,), 0)
        yield Case(f"dequantize_{name}", "DequantizeLinear", [quantized(3, 4, dtype=dtype), scalar(0.01), zero])
        scales, zeros = Const(np.abs(real(3)) + 0.01), Const(quantized(3, dtype=dtype))
        attrs = {"axis": 0}
        yield Case(f"quantize_axis_{name}", "QuantizeLinear", [real(3, 4, scale=9), scales, zeros], attrs, (dtype,), 0)
        inputs = [quantized(3, 4, dtype=dtype), scales, zeros]
        yield Case(f"dequantize_axis_{name}", "DequantizeLinear", inputs, attrs)


def cases():
    yield from conv_cases()
    yield from quantized_cases()
