"""What a case of fusion is: a model that becomes one kernel, at which shapes it runs, and the faults known so far."""

from collections.abc import Callable
from dataclasses import dataclass, field

import deepjit
import numpy as np
from fused import model

SIZES = (1, 3, 15, 16, 17, 63, 64, 65, 255, 257)


@dataclass
class Case:
    name: str
    text: str
    constants: dict = field(default_factory=dict)
    dims: tuple = ({"N": 3},)  # the shapes that it runs at
    opset: int = 21
    ort: bool = True  # does ONNX Runtime take it?
    launches: int = 1
    hard: bool = True  # NaN, infinities and extremes agree too
    ort_hard: bool = True  # ... with ONNX Runtime too
    options: dict = field(default_factory=dict)  # of the build
    ops: list = field(default_factory=list)  # of the user, as register_op takes them; ONNX Runtime has none
    numpy: Callable | None = None  # computes the outputs of a model with such ops
    feeds: dict = field(default_factory=dict)  # inputs of given values; the others are random
    gpu: bool = True  # are there CUDA kernels?
    faults: dict = field(default_factory=dict)  # "fusion", "numbers" or "special": the known fault that it shows

    def __str__(self):
        return self.name

    def model(self):
        return model(self.text, self.constants, self.opset, {op["name"].split("::")[0] for op in self.ops})

    def register(self):
        for op in self.ops:
            deepjit.register_op(**op, check=False)


def draw(*shape, seed=7):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# Known faults, by what they show.
SIBLINGS = "kernels that share an input and nothing else are two in one launch: x * sigmoid(x) is a Swish, beside the"
SIBLINGS += " sigmoid"
UNKNOWN = "regions whose shapes only control flow or data tell run step by step"
SUMS = "sizes of a kernel are products of operands' dims: no multiple of W + 3 is found, nor W + 3 without an operand"
SHIFTED = "a Reshape of what a Slice shifted is no walk along its dims"
PART = "a reduction is not computed for a part of the kernel's box"
CUT_ROW = "a part of a Softmax's row is no row"
ONE_ROW = "what a reduction over one row gives is used along one row of its own: a kernel has one row"

AXES = {"last": np.array([-1]), "hw": np.array([2, 3]), "one": np.array([1]), "two": np.array([2])}
N_SIZES = tuple({"N": n} for n in (1, 2, 7))
W_SIZES = tuple({"N": 3, "W": w} for w in SIZES)
# Nothing at all, one of each, ragged.
OPEN_SIZES = tuple({"N": n, "W": w} for n, w in ((2, 0), (0, 5), (1, 1), (3, 16), (2, 65), (3, 17)))
IMAGES = ((0, 2, 2), (2, 0, 3), (1, 1, 1), (2, 16, 5), (1, 9, 65), (2, 3, 17))
IMAGES = tuple({"N": n, "H": h, "W": w} for n, h, w in IMAGES)
