"""What the tests of user ops share: models with nodes of my.ops, an op and its reference."""

import numpy as np
from onnx import parser

HEAD = '<ir_version: 10, opset_import: ["" : 21, "my.ops" : 1]>'


def model(text: str):
    return parser.parse_model(f"{HEAD} {text}")


def sigmoid(x):
    return (1 / (1 + np.exp(-x.astype(np.float64)))).astype(x.dtype)


def swish(x, b, alpha):
    return x * sigmoid(x.dtype.type(alpha) * x) + np.maximum(b, x.dtype.type(0))


SWISH = {
    "expression": "y = x * sigmoid(alpha * x) + max(b, 0)",
    "inputs": ["x", "b"],
    "attributes": {"alpha": 1.0},
}
