"""What a case is, and the registry of rows. A row is a kind of construct that has broken compilers; its function yields
the cases of the whole kind: axes, ranks, dtypes. Expected values come from formulas.py or are written out.

Each case becomes three models: `run` feeds the data and keeps parameters (axes, sizes, weights) constant, `fed` feeds
everything with all dims symbolic, `folded` feeds nothing.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
from onnx import helper, numpy_helper

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16)]
ALL_FLOATS = [*FLOATS, BFLOAT16]
SIGNED = [np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64)]
UNSIGNED = [np.dtype(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64)]
WAYS = ("run", "fed", "folded")
ROWS: dict = {}  # name of the row -> function that yields its cases


@dataclass
class Case:
    name: str
    nodes: list
    feeds: dict
    params: dict
    wants: dict  # output name -> array; doubles where the output is a float type
    types: dict  # output name -> dtype
    opset: int = 21
    terms: int = 1  # how many roundings add up; 0 asks for equality
    scale: float | None = None  # of what is added up, where the result may be smaller
    ways: tuple = WAYS
    made: Callable | None = None  # makes (model, feeds) of the case, where the usual model will not do
    row: str = field(default="", compare=False)

    @property
    def title(self) -> str:
        return f"{self.row}/{self.name}"


def row(name: str):
    def register(function):
        def cases():
            for case in function():
                case.row = name
                yield case

        ROWS[name] = cases
        return function

    return register


def all_cases(text: str = "") -> list:
    return [c for cases in ROWS.values() for c in cases() if text in c.title]


def rng(*key):
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def data(dtype, *shape, low=-3.0, high=3.0):
    """Numbers without zeros, the same for the same arguments."""
    dtype = np.dtype(dtype)
    random = rng(dtype.name, shape, low, high)
    if dtype == np.bool_:
        return random.random(shape) < 0.6
    if dtype.kind in "iu":
        low, high = (1, 9) if dtype.kind == "u" else (-9, 9)
        numbers = random.integers(low, high, shape)
        return np.where(numbers == 0, 7, numbers).astype(dtype)
    return random.uniform(low, high, shape).astype(dtype)


def many(name, nodes, feeds, wants, *, params=None, types=None, **more) -> Case:
    """A case of several nodes. Types: of the outputs; one dtype for all, or a dict."""
    first = next(iter({**feeds, **(params or {})}.values())).dtype if types is None else types
    types = {n: np.dtype(first) for n in wants} if not isinstance(first, dict) else first
    return Case(name, nodes, feeds, params or {}, {n: np.asarray(w) for n, w in wants.items()}, types, **more)


def one(name, op, inputs, wants, *, params=(), dtypes=None, attributes=None, **more) -> Case:
    """A case of one node: inputs a, b, ... (None where left out), outputs y0, y1, ...; `params` are indices."""
    names = ["" if a is None else chr(ord("a") + k) for k, a in enumerate(inputs)]
    outputs = [f"y{k}" for k in range(len(wants))]
    node = helper.make_node(op, names, outputs, name="node", **(attributes or {}))
    arrays = {n: np.asarray(a) for n, a in zip(names, inputs, strict=True) if n}
    held = {names[k] for k in params}
    dtypes = dtypes or [next(iter(arrays.values())).dtype] * len(wants)
    return Case(
        name,
        [node],
        {n: a for n, a in arrays.items() if n not in held},
        {n: a for n, a in arrays.items() if n in held},
        {n: np.asarray(w) for n, w in zip(outputs, wants, strict=True)},
        {n: np.dtype(t) for n, t in zip(outputs, dtypes, strict=True)},
        **more,
    )


def node(op, inputs, outputs, **attributes):
    inputs, outputs = inputs.split() if isinstance(inputs, str) else inputs, outputs.split()
    return helper.make_node(op, inputs, outputs, **attributes)


def info(name, dtype, shape):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def initializer(name, array):
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(np.shape(array)), name)


def model_of(case: Case, way: str):
    """The model of a case, and what to feed it."""
    if case.made:
        return case.made(case)
    fed = {"run": case.feeds, "fed": {**case.feeds, **case.params}, "folded": {}}[way]
    constants = {**case.feeds, **case.params} if way == "folded" else case.params if way == "run" else {}
    inputs = [
        info(n, a.dtype, [f"{n}_{i}" for i in range(a.ndim)] if way == "fed" else a.shape) for n, a in fed.items()
    ]
    outputs = [info(n, case.types[n], None) for n in case.wants]
    graph = helper.make_graph(case.nodes, "case", inputs, outputs, [initializer(n, a) for n, a in constants.items()])
    ir = 10 if case.opset >= 19 else 8
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=ir)
    return model, fed
