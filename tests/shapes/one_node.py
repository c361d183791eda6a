"""Models of one node whose inputs have only symbolic dims."""

import numpy as np
from onnx import helper


def model(op: str, inputs: dict, outputs: dict, opset: int = 21, **attributes):
    """inputs: name -> (dtype, rank); outputs: name -> dtype."""
    type_of = lambda t: helper.np_dtype_to_tensor_dtype(np.dtype(t))  # noqa: E731
    infos = []
    for name, (dtype, rank) in inputs.items():
        infos.append(helper.make_tensor_value_info(name, type_of(dtype), [f"{name}_{i}" for i in range(rank)]))
    results = [helper.make_tensor_value_info(n, type_of(t), None) for n, t in outputs.items()]
    graph = helper.make_graph([helper.make_node(op, list(inputs), list(outputs), **attributes)], "one", infos, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def model_for(op: str, feeds: dict, outputs: dict, **more):
    return model(op, {n: (a.dtype, a.ndim) for n, a in feeds.items()}, outputs, **more)
