"""Evaluates one ONNX node with numpy inputs, and says how far rounding may move its outputs.

ONNX's reference evaluator comes first; ONNX Runtime without optimisation where that one is wrong or refuses. The error
of an output is measured, not derived: the inputs are moved by their own errors (and by half a unit in the last place,
where the op rounds) and the outputs are watched. An output that jumps is refused as unstable: no compiler is to blame.
"""

import contextlib
import io

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator
from oracle_faults import OPS

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def words(text: str) -> set[str]:
    return set(text.split())


# Ops that only move, pick or compare values: they add no rounding of their own.
EXACT = words(
    """Identity Reshape Flatten Squeeze Unsqueeze Transpose Slice Concat Split Pad Gather GatherElements GatherND
    Expand Tile Shape Size Abs Neg Relu Max Min Clip Where Floor Ceil Round Sign Not And Or Xor Less Greater
    Equal LessOrEqual GreaterOrEqual ArgMax ArgMin ReduceMax ReduceMin MaxPool GlobalMaxPool TopK DepthToSpace
    SpaceToDepth ConstantOfShape Range NonZero OneHot ScatterElements ScatterND Trilu IsNaN IsInf EyeLike
    Constant Compress Unique NonMaxSuppression ReverseSequence EyeLike CenterCropPad MatMulInteger ConvInteger"""
)
# Where the reference comes second or not at all; oracle_faults.py says why.
PREFER_RUNTIME = set(OPS)
RUNTIME_ONLY = {op for op, fault in OPS.items() if fault.how == "never"}
# Inputs that are parameters rather than data: moving them changes what is computed.
FIXED = {"Pow": [1], "Resize": [1, 2], "Range": [0, 1, 2]}
# Undefined for NaN, or for values out of an integer's range. ONNX Runtime's recurrent cells clip NaN away; oneDNN makes
# zeros beside the NaN of a Softmax row, and may lose one in a maximum; scale and shift made of the four parameters of a
# BatchNormalization may meet as inf - inf where the formula gives inf.
NEEDS_NUMBERS = words(
    """Cast QuantizeLinear DynamicQuantizeLinear ArgMax ArgMin TopK Unique NonMaxSuppression Softmax LogSoftmax
    LSTM GRU RNN BatchNormalization ReduceMax ReduceMin MaxPool GlobalMaxPool Resize GridSample"""
)
MARGIN = 10.0  # a discrete output must hold under this many times the error


class Refused(Exception):
    """The node is not valid on these inputs, or its result means nothing."""


def is_float(array) -> bool:
    return array.dtype.kind == "f" or array.dtype == BFLOAT16


def session_options():
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return options


def runtime_session(model: onnx.ModelProto):
    return onnxruntime.InferenceSession(model.SerializeToString(), session_options())


def outer_names(graph: onnx.GraphProto) -> set[str]:
    """Names a subgraph takes from outside."""
    own = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    found = set()
    for node in graph.node:
        found |= used_names(node) - own
        own |= set(node.output)
    return found | ({v.name for v in graph.output} - own)


def op_types(node: onnx.NodeProto) -> set[str]:
    """Its op and those of its bodies."""
    found = {node.op_type}
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            for inner in attribute.g.node:
                found |= op_types(inner)
    return found


def used_names(node: onnx.NodeProto) -> set[str]:
    names = {n for n in node.input if n}
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            names |= outer_names(attribute.g)
    return names


def typed(name: str, array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim)


class NodeRunner:
    """A model of this node alone, run as often as asked."""

    def __init__(self, node: onnx.NodeProto, feeds: dict, opset: int):
        self.feeds = {n: feeds[n] for n in sorted(used_names(node))}
        self.node = node
        inputs = [typed(n, a) for n, a in self.feeds.items()]
        outputs = [helper.make_empty_tensor_value_info(n) for n in node.output if n]
        graph = helper.make_graph([node], "one", inputs, outputs)
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        self.runner = None

    def reference(self):
        evaluator = ReferenceEvaluator(self.model)
        return lambda feeds: evaluator.run(None, feeds)

    def runtime(self):
        model = onnx.shape_inference.infer_shapes(self.model)
        session = runtime_session(model)
        return lambda feeds: session.run(None, feeds)

    def first_run(self):
        ops = op_types(self.node)
        ways = [self.reference, self.runtime]
        if ops & PREFER_RUNTIME:
            ways.reverse()
        if ops & RUNTIME_ONLY:
            ways = [self.runtime]
        reason = ""
        for way in ways:
            try:
                runner = way()
                result = self.checked(runner(self.feeds))
                self.runner = runner
                return result
            except Exception as error:
                reason = reason or f"{type(error).__name__}: {error}"
        raise Refused(reason)

    def checked(self, outputs):
        arrays = [np.asarray(a) for a in outputs]
        if any(a.dtype.kind not in "fiub" and a.dtype != BFLOAT16 for a in arrays):
            raise Refused("dtype")
        return arrays

    def run(self, feeds):
        try:
            return self.checked(self.runner(feeds))
        except Exception as error:
            raise Refused(str(error)) from error


def moved(array, step, sign):
    return np.asarray(array + np.asarray(sign * step).astype(array.dtype)).astype(array.dtype)


def magnitude(array) -> float:
    finite = array[np.isfinite(array)] if array.size else array
    return float(np.abs(finite).max()) if finite.size else 0.0


def trials(feeds: dict, errors: dict, rounds: bool, rng, margin: float, fixed=()):
    """Moved inputs: up and down by turns, then at random."""
    for kind in range(4):
        result = {}
        for k, (name, array) in enumerate(feeds.items()):
            error = errors.get(name, 0.0) * margin
            if not is_float(array) or not array.size or name in fixed or (error == 0.0 and not rounds):
                result[name] = array
                continue
            if rounds:
                step = np.maximum(ml_dtypes.finfo(array.dtype).eps * np.abs(array.astype(np.float64)), error)
            else:
                step = np.full(array.shape, error)
            step = np.where(np.isfinite(step), step, 0.0)
            sign = rng.choice([-1.0, 1.0], array.shape) if kind >= 2 else (1.0 if (k + kind) % 2 else -1.0)
            result[name] = moved(array, step, np.asarray(sign))
        yield result


def difference(a, b) -> float:
    """Largest distance; infinite when shapes or non-finite values differ."""
    if a.shape != b.shape:
        return np.inf
    if not a.size:
        return 0.0
    a, b = a.astype(np.float64), b.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        gap = np.where(same, 0.0, np.abs(a - b))
    return np.inf if not np.isfinite(gap).all() else float(gap.max())


def evaluate(node: onnx.NodeProto, feeds: dict, errors: dict, opset: int, seed: int = 0):
    """(outputs, errors): errors hold one absolute bound for each output, inf when the output is unstable."""
    with np.errstate(all="ignore"), contextlib.redirect_stderr(io.StringIO()):
        runner = NodeRunner(node, feeds, opset)
        if node.op_type in NEEDS_NUMBERS and any(not np.isfinite(a).all() for a in runner.feeds.values()):
            raise Refused("undefined for values that are not finite")
        outputs = runner.first_run()
        rounds = node.op_type not in EXACT
        inexact = any(is_float(a) for a in runner.feeds.values()) and (
            rounds or any(errors.get(n, 0.0) > 0 for n in runner.feeds)
        )
        bounds = [0.0] * len(outputs)
        if not inexact:
            return outputs, bounds
        rng = np.random.default_rng(seed)
        discrete = any(not is_float(a) for a in outputs)
        fixed = [node.input[i] for i in FIXED.get(node.op_type, []) if i < len(node.input)]
        for margin in (1.0, MARGIN) if discrete else (1.0,):
            for trial in trials(runner.feeds, errors, rounds, rng, margin, fixed):
                moved_outputs = runner.run(trial)
                for k, (want, got) in enumerate(zip(outputs, moved_outputs, strict=True)):
                    gap = difference(want, got)
                    if not is_float(want) and gap:
                        gap = np.inf
                    if margin == 1.0 or gap == np.inf:
                        bounds[k] = max(bounds[k], 3.0 * gap)
        for k, array in enumerate(outputs):
            if is_float(array) and rounds:
                # At least the rounding of a one: exp(x) - 1 and the like lose it where x is tiny.
                bounds[k] += float(ml_dtypes.finfo(array.dtype).eps) * max(2.0 * magnitude(array), 0.5)
        return outputs, bounds


def walk(model: onnx.ModelProto, feeds: dict):
    """Every value of the model with its error, node by node: (values, errors). Raises Refused."""
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    values = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    values.update(feeds)
    errors = dict.fromkeys(values, 0.0)
    for node in model.graph.node:
        outputs, bounds = evaluate(node, values, errors, opset)
        for name, array, bound in zip([n for n in node.output if n], outputs, bounds, strict=True):
            values[name], errors[name] = array, bound
    return values, errors
