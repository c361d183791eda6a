"""Small models for the API tests, and what ONNX Runtime says about them."""

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper


def model(nodes, inputs, outputs, initializers=(), opset: int = 21) -> ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def value(name: str, shape, dtype: int = TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def conv_relu() -> ModelProto:
    """x[N,3,8,8] through a 3x3 convolution to 4 channels and Relu."""
    weights = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    shapes = [value("x", ["N", 3, 8, 8])], [value("y", ["N", 4, 8, 8])]
    return model(nodes, *shapes, [numpy_helper.from_array(weights, "w")])


def one_op(op: str, dtype: int, shape, **attributes) -> ModelProto:
    """y = op(x), of one element type."""
    return model(
        [helper.make_node(op, ["x"], ["y"], **attributes)], [value("x", shape, dtype)], [value("y", None, dtype)]
    )


def image(n: int = 2) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((n, 3, 8, 8)).astype(np.float32)


def reference(made: ModelProto, feeds: dict) -> dict:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))
