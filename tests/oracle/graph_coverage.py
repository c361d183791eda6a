"""What random graphs reach: op kinds, element types, ranks, and the constructs that compilers get wrong."""

from collections import Counter

import numpy as np
import onnx
from node_eval import op_types

CONTROL = {"If", "Loop", "Scan"}
DATA_SIZED = {"NonZero", "Compress", "Unique", "NonMaxSuppression"}
INTEGER_WORK = {"MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv", "QuantizeLinear"}
NEEDED = ["symbolic dims", "zero-sized dims", "data-dependent shapes", "quantized", "rank 6 and more", "scalars"]
NEEDED += ["If", "Loop", "Scan", "float16", "float64", "bfloat16", "int8", "int32", "int64", "uint8", "bool"]


def reached(case) -> Counter:
    """One count a graph for each thing it has."""
    found = set()
    ops = set()
    for node in case.model.graph.node:
        ops |= op_types(node)
        bodies = [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
        if any(op_types(inner) & CONTROL for body in bodies for inner in body.node):
            found.add("nested control flow")
    found |= {f"op {op}" for op in ops} | (ops & CONTROL)
    arrays = [a for each in (*case.feeds, *case.expected) for a in each.values()]
    found |= {str(a.dtype) for a in arrays} | cast_targets(case.model.graph)
    if any(d.HasField("dim_param") for i in case.model.graph.input for d in i.type.tensor_type.shape.dim):
        found.add("symbolic dims")
    if any(a.size == 0 for a in arrays):
        found.add("zero-sized dims")
    if any(a.ndim == 0 for a in arrays):
        found.add("scalars")
    if any(a.ndim >= 6 for a in arrays):
        found.add("rank 6 and more")
    if ops & DATA_SIZED:
        found.add("data-dependent shapes")
    if ops & INTEGER_WORK:
        found.add("quantized")
    return Counter(found)


def cast_targets(graph) -> set[str]:
    codes = {a.i for n in graph.node if n.op_type == "Cast" for a in n.attribute if a.name == "to"}
    return {str(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(c))) for c in codes}


def table(counts: Counter, graphs: int) -> str:
    """Shares of graphs, and every op with its count."""
    ops = {k[3:]: n for k, n in counts.items() if k.startswith("op ")}
    rest = {k: n for k, n in counts.items() if not k.startswith("op ")}
    lines = [f"{k}: {100 * n / max(graphs, 1):.1f}% of graphs" for k, n in sorted(rest.items(), key=lambda i: -i[1])]
    lines.append(f"{len(ops)} op kinds: " + ", ".join(f"{k} {n}" for k, n in sorted(ops.items(), key=lambda i: -i[1])))
    return "\n".join(lines)
