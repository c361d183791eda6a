"""Where the oracles are known to be wrong, each with the reason. No oracle is always right; whoever finds a new fault
proves it by hand (a case with a formula under tests/cases) before it is added here.

FAULTS: (oracles, pattern of titles, reason) for run_oracle.py. A title is ROW/NAME of a case, or node/NAME of an ONNX
node test. OPS: for random graphs, ops where onnx.reference comes after ONNX Runtime (`second`) or not at all (`never`).
"""

from fnmatch import fnmatch
from typing import NamedTuple

REFERENCE, RUNTIME_OFF, RUNTIME_ON = "onnx.reference", "ort-off", "ort-on"
RUNTIME = (RUNTIME_OFF, RUNTIME_ON)


class Fault(NamedTuple):
    oracles: tuple
    pattern: str
    reason: str


class OpFault(NamedTuple):
    how: str  # second: after ONNX Runtime; never: not at all
    reason: str


# What onnx.reference gets wrong, by op.
OPS = {
    "Loop": OpFault("never", "a Loop of no trips loses its carried values and scans; scans of scalars get a dim of 1"),
    "Scan": OpFault("never", "counts its states by its scan inputs; axes and directions are refused"),
    "MaxPool": OpFault("never", "asymmetric pads and ceil_mode take other windows, SAME_LOWER has another size"),
    "Resize": OpFault("never", "takes minutes, and integer lengths differ"),
    "ReduceSumSquare": OpFault("never", "integers come back as int64"),
    "GlobalMaxPool": OpFault("never", "3-D inputs lose a dim"),
    "ConvInteger": OpFault("never", "VALID and SAME with strides have another size"),
    "QLinearConv": OpFault("never", "VALID and SAME with strides have another size"),
    "QLinearMatMul": OpFault("never", "results beyond the integer type wrap around instead of saturating"),
    "ConvTranspose": OpFault("never", "with groups the first bias counts for all"),
    "DepthToSpace": OpFault("never", "an empty tensor passes whose sizes are no multiple of the block"),
    "SpaceToDepth": OpFault("never", "an empty tensor passes whose sizes are no multiple of the block"),
    "ScatterElements": OpFault("never", "of several updates of one place one counts; a single one replaces"),
    "Unique": OpFault("never", "with an axis and sorted 0 it picks along another axis"),
    "LSTM": OpFault("never", "direction reverse and clip are ignored"),
    "GRU": OpFault("never", "direction reverse and clip are ignored"),
    "RNN": OpFault("never", "direction reverse and clip are ignored"),
    "AveragePool": OpFault("second", "ceil_mode moves the windows"),
    "Conv": OpFault("second", "VALID and SAME with strides have another size"),
    "BatchNormalization": OpFault("second", "below opset 14 it mixes in the batch's own statistics"),
    "Gather": OpFault("second", "no indices give another shape"),
    "LpNormalization": OpFault("second", "the norm of order 1 is a sum of signed values"),
    "LRN": OpFault("second", "a window of one sums nothing"),
}

# Not in the list, as there is no answer to compare: ONNX Runtime with optimisation refuses norm patterns of x[1,1];
# onnx.reference lacks DequantizeLinear below opset 19. And ONNX Runtime takes the last of duplicate initializers.
FAULTS = [
    Fault((REFERENCE,), "flattened_softmax/*", "below opset 13 it normalises one axis, not the flattened tail"),
    Fault((REFERENCE,), "loop_without_trips/2_*_[[]]", "scans of scalars get a dim of 1"),
    Fault((REFERENCE,), "zero_sized_dims/Gather_none", "no indices give another shape"),
    Fault((REFERENCE, *RUNTIME), "gelu_forms/*_float64*", "float64 is computed with constants of float32"),
    Fault((REFERENCE,), "layer_norm_half_large/*", "float16 is summed in float16 and overflows, stash_type or not"),
    Fault((REFERENCE,), "scatter_gather_einsum/ScatterElements_mul", "of several updates of one place one counts"),
    Fault((REFERENCE,), "pool_ceil_padding/AveragePool_*k3s3_None_*", "ceil_mode moves the windows"),
    Fault((REFERENCE,), "average_pool_divisor/*ceil1*", "ceil_mode moves the windows"),
    Fault(RUNTIME, "nan_relu_clip/Clip_*None*", "a bound that is left out makes infinity the largest finite number"),
    Fault(RUNTIME, "non_zero_of_scalars/*", "a scalar is taken for a vector of one"),
    Fault((RUNTIME_ON,), "quantized_weights/MatMul_axis1", "integer weights make it round the activations too"),
    Fault((RUNTIME_ON,), "quantized_weights/Gemm_axis1", "integer weights make it round the activations too"),
    Fault((REFERENCE,), "recurrent_clip/*", "the threshold is ignored"),
    Fault(RUNTIME, "recurrent_clip/LSTM_*", "the threshold bounds the gates only, not the cell, which h gets"),
    Fault(RUNTIME, "recurrent_lengths/*_*4, 0, 2?", "a row without steps ends in zeros, not in its initial state"),
    Fault((REFERENCE,), "node/test_qlinearmatmul_?D_int8_*", "the result wraps around instead of saturating"),
    Fault((REFERENCE,), "node/test_range_*_expanded", "scans of scalars get a dim of 1"),
    Fault(RUNTIME, "node/test_attention_*qk_matmul*", "qk_matmul_output_mode and softcap come in another order"),
    Fault(RUNTIME, "node/test_maxunpool_export_with_output_shape", "indices count in the larger shape"),
    Fault(RUNTIME, "node/test_resize_downsample_scales_*_align_corners", "lengths are rounded to integers first"),
]


def known(oracle: str, title: str) -> str | None:
    """The reason why this oracle may differ here, or None."""
    return next((f.reason for f in FAULTS if oracle in f.oracles and fnmatch(title, f.pattern)), None)
