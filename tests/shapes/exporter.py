"""Writes graphs the way torch.onnx does: sizes through Shape, Gather, Unsqueeze and Concat; Expand through
ConstantOfShape, Equal and Where; nothing is declared but the inputs, whose dims are all symbols."""

import numpy as np
from onnx import helper, numpy_helper


class Exporter:
    def __init__(self, opset: int, seed: int):
        self.opset, self.rng = opset, np.random.default_rng(seed)
        self.nodes, self.tensors, self.count = [], [], 0

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def add(self, op: str, *inputs, outputs: int = 1, **attributes):
        """Inputs are names, None, or numbers that become Constants."""
        names = ["" if i is None else i if isinstance(i, str) else self.const(i) for i in inputs]
        made = [self.fresh() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, names, made, name=f"/{op}_{self.count}", **attributes))
        return made[0] if outputs == 1 else made

    def const(self, array) -> str:
        array = np.asarray(array)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        name = self.fresh()
        self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array, name)))
        return name

    def weight(self, *shape, scale=None) -> str:
        scale = scale or 1 / np.sqrt(max(1, int(np.prod(shape[1:]))))
        name = f"weight{len(self.tensors)}"
        array = (self.rng.standard_normal(shape) * scale).astype(np.float32)
        self.tensors.append(numpy_helper.from_array(array, name))
        return name

    # ---- sizes

    def size(self, x: str, axis: int) -> str:
        """A scalar int64."""
        return self.add("Gather", self.add("Shape", x), axis, axis=0)

    def shape_of(self, *parts) -> str:
        """[n] int64 of scalars (names) and numbers, Unsqueeze by Unsqueeze."""
        rows = [self.add("Unsqueeze", p, [0]) if isinstance(p, str) else [p] for p in parts]
        return self.add("Concat", *rows, axis=0)

    def reshape(self, x: str, *parts) -> str:
        return self.add("Reshape", x, self.shape_of(*parts))

    def arange(self, end: str) -> str:
        return self.add("Range", 0, end, 1)

    def expand(self, x: str, *parts) -> str:
        """torch's expand: -1 keeps a size, which the exporter writes with Where."""
        target = self.shape_of(*parts)
        ones = self.add("ConstantOfShape", self.add("Shape", target), value=helper.make_tensor("one", 7, [1], [1]))
        keeps = self.add("Equal", target, self.add("Mul", ones, -1))
        return self.add("Expand", x, self.add("Where", keeps, ones, target))

    # ---- layers

    def linear(self, x: str, n_in: int, n_out: int) -> str:
        return self.add("Add", self.add("MatMul", x, self.weight(n_in, n_out, scale=n_in**-0.5)), self.weight(n_out))

    def layer_norm(self, x: str, width: int) -> str:
        centred = self.add("Sub", x, self.mean(x))
        variance = self.mean(self.add("Pow", centred, 2.0))
        unit = self.add("Div", centred, self.add("Sqrt", self.add("Add", variance, 1e-5)))
        return self.add("Add", self.add("Mul", unit, self.weight(width, scale=1.0)), self.weight(width))

    def mean(self, x: str) -> str:
        if self.opset >= 18:
            return self.add("ReduceMean", x, [-1])
        return self.add("ReduceMean", x, axes=[-1])

    def gelu(self, x: str) -> str:
        half = self.add("Add", self.add("Erf", self.add("Div", x, float(np.sqrt(2)))), 1.0)
        return self.add("Mul", self.add("Mul", x, half), 0.5)

    def conv(self, x: str, n_in: int, n_out: int, kernel: int = 3, stride: int = 1, relu=True) -> str:
        w = self.weight(n_out, n_in, kernel, kernel)
        pads = [kernel // 2] * 4
        y = self.add("Conv", x, w, self.weight(n_out), kernel_shape=[kernel] * 2, pads=pads, strides=[stride] * 2)
        return self.add("Relu", y) if relu else y

    def model(self, inputs: dict, outputs: dict):
        """inputs: name -> (dtype, symbols); outputs: name -> (value, dtype, rank)."""
        type_of = lambda t: helper.np_dtype_to_tensor_dtype(np.dtype(t))  # noqa: E731
        infos = [helper.make_tensor_value_info(n, type_of(t), dims) for n, (t, dims) in inputs.items()]
        for name, (value, _, _) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value], [name]))
        results = [helper.make_tensor_value_info(n, type_of(t), [None] * rank) for n, (_, t, rank) in outputs.items()]
        graph = helper.make_graph(self.nodes, "main_graph", infos, results, self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
