"""What a case of fusion is: a model that becomes one kernel, at which shapes it runs, and the faults known so far."""

from dataclasses import dataclass, field

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
    faults: dict = field(default_factory=dict)  # "fusion", "numbers" or "special": the known fault that it shows

    def __str__(self):
        return self.name

    def model(self):
        return model(self.text, self.constants, self.opset)


def draw(*shape, seed=7):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# Known faults, by what they show.
SIBLINGS = "kernels that share an input and nothing else stay apart: x * sigmoid(x) is a Swish, beside the sigmoid"
RESHAPE = "a Reshape that merges dims ends a region"
SIXTEEN = "16-bit values are rounded only where a region stores them, and the tolerance of the tuner is below that"
OVERFLOW = "norms square in float32 where the reference sums in double: rows with values over 1.8e19 differ, and the"
OVERFLOW += " tuner drops norms of short rows, which such values reach without a NaN beside them"
UNKNOWN = "regions whose shapes only control flow or data tell run step by step"
LAYOUT = "layout_nhwc takes a lone pooling op out of its region"

AXES = {"last": np.array([-1]), "hw": np.array([2, 3]), "one": np.array([1]), "two": np.array([2])}
N_SIZES = tuple({"N": n} for n in (1, 2, 7))
W_SIZES = tuple({"N": 3, "W": w} for w in SIZES)
