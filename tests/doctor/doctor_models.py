"""Small models for the doctor's tests: a short way to write them."""

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

F32, F16, I64, BOOL, I8, U8 = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.INT64,
    TensorProto.BOOL,
    TensorProto.INT8,
    TensorProto.UINT8,
)


def weights(*shape, seed: int = 0, dtype=np.float32) -> np.ndarray:
    return (np.random.default_rng(seed + sum(shape)).standard_normal(shape) * 0.2).astype(dtype)


def value(name: str, shape, dtype: int = F32):
    return helper.make_tensor_value_info(name, dtype, shape)


class Net:
    """Collects nodes and constants; op() returns the name of the first output."""

    def __init__(self, opset: int = 17, ir: int = 8):
        self.nodes, self.constants, self.inputs, self.outputs = [], {}, [], []
        self.opset, self.ir, self.domains = opset, ir, []
        self.count = 0

    def input(self, name: str, shape, dtype: int = F32) -> str:
        self.inputs.append(value(name, shape, dtype))
        return name

    def output(self, name: str, shape=None, dtype: int = F32) -> None:
        self.outputs.append(value(name, shape, dtype))

    def const(self, array, name: str | None = None) -> str:
        name = name or f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def ints(self, *values) -> str:
        return self.const(np.array(values, dtype=np.int64))

    def number(self, x: float, dtype=np.float32) -> str:
        return self.const(np.array(x, dtype=dtype))

    def op(self, op: str, *inputs, out: str | None = None, outputs=None, domain: str = "", **attributes) -> str:
        self.count += 1
        outputs = outputs or [out or f"v{self.count}"]
        node = helper.make_node(op, list(inputs), outputs, name=f"{op}_{self.count}", domain=domain, **attributes)
        if domain and domain not in self.domains:
            self.domains.append(domain)
        self.nodes.append(node)
        return outputs[0]

    def model(self) -> ModelProto:
        tensors = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "net", self.inputs, self.outputs, tensors)
        opsets = [helper.make_opsetid("", self.opset)] + [helper.make_opsetid(d, 1) for d in self.domains]
        return helper.make_model(graph, opset_imports=opsets, ir_version=self.ir, producer_name="test")

    # ---- pieces that several models use ----

    def conv(self, x: str, cin: int, cout: int, kernel: int = 3, seed: int = 0, **attributes) -> str:
        w = self.const(weights(cout, cin, kernel, kernel, seed=seed))
        return self.op("Conv", x, w, pads=[kernel // 2] * 4, **attributes)

    def linear(self, x: str, cin: int, cout: int, seed: int = 0) -> str:
        product = self.op("MatMul", x, self.const(weights(cin, cout, seed=seed)))
        return self.op("Add", product, self.const(weights(cout, seed=seed + 1)))

    def quantize(self, x: str, scale: float = 0.05, zero: int = 0) -> str:
        return self.op("QuantizeLinear", x, self.number(scale), self.const(np.array(zero, dtype=np.int8)))

    def dequantize(self, x: str, scale: float = 0.05, zero: int = 0) -> str:
        return self.op("DequantizeLinear", x, self.number(scale), self.const(np.array(zero, dtype=np.int8)))

    def fake_quantize(self, x: str, scale: float = 0.05) -> str:
        return self.dequantize(self.quantize(x, scale), scale)

    def int8_weight(self, *shape, seed: int = 0) -> str:
        data = np.random.default_rng(seed + sum(shape)).integers(-120, 120, shape).astype(np.int8)
        return self.dequantize(self.const(data), 0.01)

    def layer_norm_pieces(self, x: str, width: int, dtype=np.float32) -> str:
        axes = {"axes": [-1]} if self.opset < 18 else {}
        extra = [] if self.opset < 18 else [self.ints(-1)]
        d = self.op("Sub", x, self.op("ReduceMean", x, *extra, **axes))
        var = self.op("ReduceMean", self.op("Pow", d, self.number(2, dtype)), *extra, **axes)
        root = self.op("Sqrt", self.op("Add", var, self.number(1e-5, dtype)))
        scaled = self.op("Mul", self.op("Div", d, root), self.const(weights(width, seed=5, dtype=dtype)))
        return self.op("Add", scaled, self.const(weights(width, seed=6, dtype=dtype)))

    def gelu_pieces(self, x: str) -> str:
        erf = self.op("Erf", self.op("Div", x, self.number(np.sqrt(2))))
        return self.op("Mul", self.op("Mul", x, self.op("Add", erf, self.number(1))), self.number(0.5))
