"""Makers of If, Loop and Scan. A body is built like a graph, on the values of its first step."""

import numpy as np
from graph_builder import Builder, Value, need
from graph_ops import maker
from graph_ops_shape import dim_of
from node_eval import Refused
from onnx import helper

FIRST = 1  # subgraphs nest this deep below the first


def fill(body, steps: int):
    """Adds up to `steps` random nodes."""
    from graph_random import add_random  # the table of makers includes this file

    made = 0
    for _ in range(3 * steps):
        made += add_random(body)
        if made >= steps:
            break


def scalar_condition(g):
    """A bool scalar: constant, from a shape, or from the data."""
    kind = g.rng.random()
    if kind < 0.25:
        return g.constant(np.array(g.chance(0.5)))
    if kind < 0.6:
        x = g.pick("fiub", low=1, high=4)
        axis = g.integer(0, x.rank - 1)
        size = g.add("Gather", [g.add("Shape", [x]), g.constant(np.array(axis, np.int64))])
        bound = g.constant(np.array(x.shape[axis] - g.integer(0, 1), np.int64))
        return g.add(g.choice(["Greater", "Equal", "Less"]), [size, bound])
    x = g.pick("f")
    top = g.add("ReduceMax", [x], keepdims=0)
    return g.add("Greater", [top, g.constant(np.array(g.choice([-1.0, 0.3, 1.2]), x.dtype))])


def own_value(body, dtype=None, rank=None) -> Value:
    found = [v for v in body.values if (dtype is None or v.dtype == dtype) and (rank is None or v.rank == rank)]
    if found:
        v = body.choice(found)
        produced = {n for node in body.nodes for n in node.output}
        return v if v.name in produced else body.add("Identity", [v])
    if rank is not None:
        outer = [v for v in body.visible() if v.dtype == dtype and v.rank == rank]
        if outer and body.chance(0.7):
            return body.add("Identity", [body.choice(outer)])
        return body.add("Identity", [body.constant(body.random_array([body.integer(1, 3)] * rank, dtype))])
    return body.add("Identity", [body.pick("f")])


@maker("If", 1.5)
def branch(g, op=None):
    need(g.depth <= FIRST)
    condition = scalar_condition(g)
    count = g.integer(1, 2)
    first, second = Builder(g.rng, g.opset, g.bindings, g), Builder(g.rng, g.opset, g.bindings, g)
    fill(first, g.integer(0, 4))
    outputs = distinct(first, [own_value(first) for _ in range(count)])
    fill(second, g.integer(0, 3))
    others = distinct(second, [own_value(second, v.dtype, v.rank) for v in outputs])
    bodies = {"then_branch": first.subgraph(outputs), "else_branch": second.subgraph(others)}
    return g.add("If", [condition], outputs=count, **bodies)


def distinct(body, values: list) -> list:
    """A value that is two outputs goes through an Identity the second time."""
    result = []
    for v in values:
        result.append(v if v.name not in {r.name for r in result} else body.add("Identity", [v]))
    return result


def body_input(body, name: str, arrays: list, declare_rank=True) -> Value:
    return body.add_input(body.names.fresh(name)[0], [None] * arrays[0].ndim if declare_rank else None, arrays)


def next_carried(body, carried: Value) -> Value:
    """The next value of what is carried: same shape, moved by something from the body."""
    if carried.dtype.kind in "iu":
        return body.add("Add", [carried, body.constant(np.array(1, carried.dtype))])
    if carried.dtype == np.bool_:
        return body.add("Not", [carried])
    x = body.pick("f", where=lambda v: all(a.size for a in v.arrays))
    step = body.add("Tanh", [body.add("ReduceMean", [x], keepdims=0)])
    if x.dtype != carried.dtype:
        step = body.add("Cast", [step], to=int(helper.np_dtype_to_tensor_dtype(carried.dtype)))
    moved = body.add("Add", [carried, step])
    return body.add("Tanh", [moved]) if body.chance(0.5) else moved


def trip_count(g):
    kind = g.rng.random()
    if kind < 0.15:
        return g.constant(np.array(0, np.int64))
    if kind < 0.6:
        return g.constant(np.array(g.integer(1, 4), np.int64))
    x = g.pick("fiub", low=1, high=4)
    size = dim_of(g, x, g.integer(0, x.rank - 1))
    return g.add("Squeeze", [size, g.ints(0)])


@maker("Loop", 1.2)
def loop(g, op=None):
    need(g.depth <= FIRST)
    initial = [g.pick("f" if g.chance(0.8) else "fib") for _ in range(g.integer(0, 2))]
    count = trip_count(g)
    condition = g.choice([None, g.constant(np.array(True)), g.constant(np.array(g.chance(0.7)))])
    body = Builder(g.rng, g.opset, g.bindings, g)
    body.in_loop = True
    step = body_input(body, "i", [np.array(0, np.int64)] * g.bindings)
    going = body_input(body, "t", [np.array(True)] * g.bindings)
    carried = [body_input(body, "s", v.arrays) for v in initial]
    for c, v in zip(carried, initial, strict=True):
        c.errors = v.errors
    fill(body, g.integer(1, 4))
    if g.chance(0.6):
        keep = body.add("Identity", [going])
    else:
        keep = body.add("Less", [step, body.constant(np.array(g.integer(0, 3), np.int64))])
    following = [next_carried(body, c) for c in carried]
    scans = [own_value(body) for _ in range(g.integer(0 if carried else 1, 2))]
    outputs = distinct(body, [keep, *following, *scans])
    if any(v.dtype.kind not in "fiub" for v in scans):
        raise Refused("dtype")
    if scans and (body.data_sized or any(None in v.dims for v in scans)):  # a scan of no trips has no size for them
        need(all(a > 0 for a in count.arrays) and (condition is None or condition.arrays[0]))
    graph = body.subgraph(outputs, declared=1 + len(following))
    return g.add("Loop", [count, condition, *initial], outputs=len(following) + len(scans), body=graph)


@maker("Scan", 0.6)
def scan(g, op=None):
    need(g.depth <= FIRST)
    x = g.pick("f", low=1, high=4, where=lambda v: all(a.size for a in v.arrays))
    axis = g.integer(0, x.rank - 1)
    body = Builder(g.rng, g.opset, g.bindings, g)
    body.in_loop = True
    initial = [g.pick("f")] if g.chance(0.7) else []
    states = [body_input(body, "s", v.arrays) for v in initial]
    for s, v in zip(states, initial, strict=True):
        s.errors = v.errors
    reverse = g.integer(0, 1)
    slices = [np.asarray(a.take(-1 if reverse else 0, axis)) for a in x.arrays]
    piece = body_input(body, "x", slices)
    piece.errors = x.errors
    fill(body, g.integer(1, 4))
    following = [next_carried(body, s) for s in states]
    scans = [own_value(body) for _ in range(g.integer(0 if states else 1, 2))]
    outputs = distinct(body, [*following, *scans])
    attributes = {"num_scan_inputs": 1}
    if axis or g.chance(0.3):
        attributes["scan_input_axes"] = [axis]
    if reverse:
        attributes["scan_input_directions"] = [1]
    if scans and g.chance(0.3):
        attributes["scan_output_directions"] = [g.integer(0, 1) for _ in scans]
    if scans and g.chance(0.3):
        attributes["scan_output_axes"] = [g.integer(0, v.rank) for v in scans]
    return g.add("Scan", [*initial, x], outputs=len(outputs), body=body.subgraph(outputs), **attributes)
