"""Makes a random valid model from a seed: inputs with symbolic dims, 5 to 40 nodes, several outputs, and for each
binding of the dims the feeds, the expected outputs and how far rounding may move them."""

from typing import NamedTuple

import graph_ops
import graph_ops_control  # noqa: F401  (fills the table)
import graph_ops_data  # noqa: F401
import graph_ops_linear  # noqa: F401
import graph_ops_quantize  # noqa: F401
import graph_ops_rare  # noqa: F401
import graph_ops_shape  # noqa: F401
import numpy as np
import onnx
from graph_builder import Builder
from node_eval import Refused
from onnx import helper, numpy_helper

OPSETS = [13, 15, 17, 18, 19, 20, 21, 22, 23]
SYMBOLS = ["N", "H", "W", "T"]
OTHER_TYPES = [np.float64, np.float16, np.int64, np.int32, np.bool_, np.uint8, np.int8, np.int16, np.uint32, np.uint64]


class Case(NamedTuple):
    seed: int
    model: onnx.ModelProto
    feeds: list  # one dict a binding
    expected: list  # one dict of output name to array a binding
    errors: list  # one dict of output name to absolute error a binding


def add_random(g, only=None) -> bool:
    """Tries one maker; False when it refused."""
    makers = graph_ops.MAKERS
    if only and g.chance(0.6):
        makers = [m for m in makers if only in m[0]]
    weights = np.array([m[1] for m in makers], float)
    names, _, make = makers[int(g.rng.choice(len(makers), p=weights / weights.sum()))]
    try:
        make(g, only if only in names else None)
        return True
    except (Refused, ValueError, IndexError, ZeroDivisionError, TypeError):
        return False


def add_inputs(g, symbols: dict):
    """One to four inputs; the first is float32 and has a shape that most ops take."""
    for k in range(g.integer(1, 4)):
        if k == 0:
            rank, dtype = g.choice([2, 3, 3, 4, 4]), np.float32
        else:
            rank = g.choice([0, 1, 2, 3, 4, 5, 6, 7])
            dtype = g.choice([np.float32] * 10 + OTHER_TYPES)
        names = [g.choice(list(symbols)) if symbols and g.chance(0.5) else None for _ in range(rank)]
        few = [1, 1, 2, 3]
        dims = [
            n or g.choice(few if rank > 5 else [1, 2, 3, 4, 4, 5, 6, 8] if i < 2 else [1, 3, 4, 6, 7, 8])
            for i, n in enumerate(names)
        ]
        if rank >= 3 and g.chance(0.7):
            dims[1] = g.choice([1, 2, 3, 4, 6, 8])
        shapes = [[symbols[d][b] if isinstance(d, str) else d for d in dims] for b in range(g.bindings)]
        g.add_input(f"x{k}", dims, [g.random_array(s, dtype) for s in shapes])


def choose_outputs(g) -> list:
    """What nobody reads, and a few values from the inside."""
    produced = {n for node in g.nodes for n in node.output}
    values = [v for v in g.values if v.name in produced]
    ends = [v for v in values if v.uses == 0]
    inside = [v for v in values if v.uses > 0]
    chosen = [v for v in ends if g.chance(0.85)][-8:]
    if inside and g.chance(0.5):
        chosen += [g.choice(inside) for _ in range(g.integer(1, 2))]
    chosen = chosen or values[-1:]
    unique = list({v.name: v for v in chosen}.values())
    return [unique[int(i)] for i in g.rng.permutation(len(unique))]


def output_info(g, value):
    dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
    if g.chance(0.3):
        return helper.make_tensor_value_info(value.name, dtype, [None] * value.rank)
    return helper.make_tensor_value_info(value.name, dtype, [f"{value.name}_{i}" for i in range(value.rank)])


def make_model(g, outputs: list) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(a, v.name) for v, a in g.initializers]
    inputs = list(g.inputs)
    for v, a in g.initializers:
        if g.chance(0.03):  # an initializer that a feed may replace
            inputs.append(helper.make_tensor_value_info(v.name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape))
    graph = helper.make_graph(g.nodes, "random", inputs, [output_info(g, v) for v in outputs], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", g.opset)], ir_version=8)


def generate(seed: int, only: str | None = None) -> Case | None:
    """The case of this seed; None when no node found a place (rare)."""
    rng = np.random.default_rng([seed, 7])
    dynamic = rng.random() < 0.7
    bindings = int(rng.integers(2, 4)) if dynamic else 1
    g = Builder(rng, int(rng.choice(OPSETS)), bindings, specials=bool(rng.random() < 0.03))
    low = 0 if g.chance(0.06) else 1
    symbols = {s: [g.integer(low, 8) for _ in range(bindings)] for s in SYMBOLS[: g.integer(1, 3)]} if dynamic else {}
    add_inputs(g, symbols)
    wanted = g.choice([5, 8, 12, 12, 20, 20, 30, 40])
    for _ in range(4 * wanted):
        add_random(g, only)
        if len(g.nodes) >= wanted:
            break
    if not any(n.op_type != "Constant" for n in g.nodes):
        return None
    outputs = choose_outputs(g)
    if not outputs:
        return None
    names = [v.name for v in g.inputs]
    by_name = {v.name: v for v in g.values}
    return Case(
        seed,
        make_model(g, outputs),
        [{n: by_name[n].arrays[b] for n in names} for b in range(bindings)],
        [{v.name: v.arrays[b] for v in outputs} for b in range(bindings)],
        [{v.name: v.errors[b] for v in outputs} for b in range(bindings)],
    )
