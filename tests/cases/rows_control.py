"""Rows about control flow."""

import itertools

import formulas
import numpy as np
from case import FLOATS, data, info, many, node, row
from onnx import helper

F32 = np.dtype(np.float32)


def loop_body(dtype, shape, scan_shape):
    """carried <- carried + 1, scan <- what is outside."""
    nodes = [
        node("Identity", "going", "go_on"),
        node("Add", "c one", "c_out"),
        node("Add", "row one", "scan"),
    ]
    inputs = [info("i", np.int64, []), info("going", np.bool_, []), info("c", dtype, shape)]
    outputs = [info("go_on", np.bool_, []), info("c_out", dtype, shape), info("scan", dtype, scan_shape)]
    return helper.make_graph(nodes, "body", inputs, outputs)


@row("loop_without_trips")
def loop_without_trips():
    places = [(0, True), (0, None), (3, False), (None, False), (2, True), (2, None)]
    for (trips, going), dtype, row_shape in itertools.product(
        places, [*FLOATS, np.dtype(np.int64)], [(4,), (), (2, 3)]
    ):
        carried, values = data(dtype, 2, 2), data(dtype, *row_shape)
        count = 0 if going is False else trips
        names = ["m" if trips is not None else "", "k" if going is not None else "", "start"]
        feeds = {"start": carried, "row": values}
        wide = (lambda a: a) if dtype.kind == "i" else formulas.wide
        params = {"one": np.array(1, dtype)}
        if trips is not None:
            params["m"] = np.array(trips)
        if going is not None:
            params["k"] = np.array(going)
        yield many(
            f"{trips}_{going}_{dtype}_{list(row_shape)}",
            [node("Loop", names, "y s", body=loop_body(dtype, (2, 2), row_shape))],
            feeds,
            {"y": wide(carried) + count, "s": np.broadcast_to(wide(values) + 1, (count, *row_shape))},
            params=params,
            types={"y": dtype, "s": dtype},
            opset=16,
            terms=2,
        )


def branch(output, nodes, dtype=F32, shape=None):
    return helper.make_graph(nodes, f"{output}_branch", [], [info(output, dtype, shape)])


@row("if_outer_initializer")
def if_outer_initializer():
    """A branch may use an initializer of the graph around it, or be nothing but that."""
    w, x = data(F32, 2, 3), data(F32, 2, 3)
    bare, used = branch("w", [], shape=[2, 3]), branch("t", [node("Add", "x w", "t")])
    inner = branch(
        "n",
        [
            node(
                "If",
                "k",
                "n",
                then_branch=branch("w", [], shape=[2, 3]),
                else_branch=branch("o", [node("Neg", "w", "o")]),
            )
        ],
    )
    total, v = formulas.wide(x) + formulas.wide(w), formulas.wide(w)
    places = [
        ("bare", bare, used, v, total),
        ("used", used, bare, total, v),
        ("both", bare, bare, v, v),
        ("nested", inner, used, v, total),
    ]
    for (name, yes, no, when, otherwise), k in itertools.product(places, [True, False]):
        want = when if k else otherwise
        for tail in (False, True):
            steps = [node("If", "k", "y", then_branch=yes, else_branch=no)]
            wants, types = {"y": want}, {"y": F32}
            if tail:
                steps.append(node("Relu", "y", "z"))
                wants, types = {"y": want, "z": np.maximum(want, 0)}, {"y": F32, "z": F32}
            feeds = {"k": np.array(k), "x": x}
            yield many(f"{name}_{k}_{tail}", steps, feeds, wants, params={"w": w}, types=types, opset=16)
    body = helper.make_graph(
        [node("Identity", "going", "go_on")],
        "body",
        [info("i", np.int64, []), info("going", np.bool_, [])],
        [info("go_on", np.bool_, []), info("w", F32, [2, 3])],
    )
    feeds = {"m": np.array(3)}
    yield many(
        "loop_scans_it",
        [node("Loop", ["m", ""], "y", body=body)],
        feeds,
        {"y": np.stack([v] * 3)},
        params={"w": w},
        types=F32,
        opset=16,
    )
