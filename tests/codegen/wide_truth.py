"""What kernels of 16-bit values have to give, by onnx's own numpy implementation.

A kernel rounds to 16 bits where it stores and where a Cast of the model goes from another type to a 16-bit one; between
its steps it computes in float32. So does the model that `widened` makes: it has float32 for each 16-bit type, and its
results are rounded at the end.
"""

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

NARROW = {TensorProto.FLOAT16: np.dtype(np.float16), TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16)}


class Cast(OpRun):
    """To integers it saturates and makes 0 of NaN, where numpy's result is not defined."""

    op_domain = ""

    def _run(self, x, to=None, **_):
        dtype = helper.tensor_dtype_to_np_dtype(to)
        if not np.issubdtype(dtype, np.integer) or np.issubdtype(x.dtype, np.integer) or x.dtype == bool:
            return (x.astype(dtype),)
        limits = np.iinfo(dtype)
        inside = np.where((x > limits.min) & (x < limits.max), x, 0).astype(dtype)  # float(max) may be max + 1
        return (np.where(x >= limits.max, limits.max, np.where(x <= limits.min, limits.min, inside)).astype(dtype),)


class ArgMin(OpRun):
    """A NaN is the least only in the first place, as in ONNX Runtime; numpy takes the first one anywhere."""

    op_domain = ""

    def _run(self, x, axis=0, keepdims=1, select_last_index=0):
        assert not select_last_index
        numbers = np.where(np.isnan(x), np.inf, x)
        first = np.isnan(np.take(x, [0], axis))
        place = np.where(first, 0, np.argmin(numbers, axis=axis, keepdims=True))
        return (place if keepdims else np.squeeze(place, axis),)


class QuantizeLinear(OpRun):
    """By one scale. Infinities saturate and NaN becomes 0."""

    op_domain = ""

    def _run(self, x, scale, zero, **_):
        assert np.size(scale) == 1
        limits = np.iinfo(zero.dtype)
        steps = np.clip(np.round(x / np.float32(scale)) + np.float32(zero), limits.min, limits.max)
        return (np.where(np.isnan(steps), 0, steps).astype(zero.dtype),)


def types_of(made: onnx.ModelProto) -> dict[str, int]:
    """The element type of each value."""
    graph = onnx.shape_inference.infer_shapes(made).graph
    types = {v.name: v.type.tensor_type.elem_type for v in [*graph.input, *graph.value_info, *graph.output]}
    return types | {t.name: t.data_type for t in graph.initializer}


def is_narrow(made: onnx.ModelProto) -> bool:
    return any(kind in NARROW for kind in types_of(made).values())


def wide_tensor(tensor: TensorProto) -> TensorProto:
    if tensor.data_type not in NARROW:
        return tensor
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name)


def wide_nodes(node: onnx.NodeProto, types: dict[str, int]) -> list[onnx.NodeProto]:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for attribute in copy.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR:
            attribute.t.CopyFrom(wide_tensor(attribute.t))
        if attribute.name == "output_dtype" and attribute.i in NARROW:
            attribute.i = TensorProto.FLOAT
    to = types.get(node.output[0])
    if node.op_type != "Cast" or to not in NARROW:
        return [copy]
    if types[node.input[0]] == to:
        return [helper.make_node("Identity", node.input, node.output)]
    rounded = f"{node.output[0]}_rounded"
    return [
        helper.make_node("Cast", node.input, [rounded], to=to),
        helper.make_node("Cast", [rounded], node.output, to=TensorProto.FLOAT),
    ]


def widened(made: onnx.ModelProto) -> onnx.ModelProto:
    types = types_of(made)
    wide = onnx.ModelProto()
    wide.CopyFrom(made)
    graph = wide.graph
    for value in [*graph.input, *graph.output]:
        if value.type.tensor_type.elem_type in NARROW:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    given = [wide_tensor(t) for t in made.graph.initializer]
    nodes = [copy for node in made.graph.node for copy in wide_nodes(node, types)]
    for field, new in (("initializer", given), ("node", nodes), ("value_info", [])):
        graph.ClearField(field)
        getattr(graph, field).extend(new)
    return wide


def wide_feeds(feeds: dict) -> dict:
    narrow = set(NARROW.values())
    return {name: a.astype(np.float32) if a.dtype in narrow else a for name, a in feeds.items()}


def rounded(made: onnx.ModelProto, results: dict) -> dict:
    """Results of the widened model in the types that the model's own outputs have."""
    types = {o.name: NARROW.get(o.type.tensor_type.elem_type) for o in made.graph.output}
    with np.errstate(over="ignore"):
        return {name: a if types[name] is None else a.astype(types[name]) for name, a in results.items()}


class WideTruth:
    def __init__(self, made: onnx.ModelProto):
        self.made = made
        self.model = widened(made)
        self.evaluator = ReferenceEvaluator(self.model, new_ops=[Cast, ArgMin, QuantizeLinear])

    def run(self, feeds: dict) -> dict:
        names = [o.name for o in self.made.graph.output]
        with np.errstate(all="ignore"):
            results = self.evaluator.run(names, wide_feeds(feeds))
        return rounded(self.made, dict(zip(names, map(np.asarray, results), strict=True)))
