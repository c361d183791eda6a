"""Writes the models of the fusion tests for a machine without Python packages: NAME.onnx, cases.json, and ops.json
with the ops of users that they have nodes of.

Beside a model with 16-bit floats lies NAME_wide.onnx: the same in float32, with the model's own Casts (wide_truth.py).

export_cases.py FOLDER
"""

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "codegen"))

import onnx  # noqa: E402
from cases import ALL  # noqa: E402
from fusion_case import Case, draw  # noqa: E402
from test_generated_ops import BINARY, UNARY, K  # noqa: E402
from wide_truth import is_narrow, widened  # noqa: E402

SIZES = ({"N": 5, "W": 67}, {"N": 3, "W": 1024}, {"N": 1, "W": 1})
IN_TWO_RANGES = ("op Tanh", "large rows", "large and flat", "many rows of 4096")  # built so too


def single_ops() -> list[Case]:
    """Each op between two others."""
    head, tail = "g (float[N,W] x, float[W] b) => (float[N,W] y)", "y = Max (c, k)"
    unary = [(op, f"{op} (a)") for op in UNARY]
    binary = [(op, f"{op} (a, x)") for op in BINARY]
    return [
        Case(f"op {name}", f"{head} {{ a = Sub (x, b) c = {call} {tail} }}", {"k": K["k"]}, SIZES)
        for name, call in unary + binary
    ]


def large() -> list[Case]:
    """Rows that fill many blocks, and rows that do not fit shared memory."""
    wide = ({"N": 3, "W": 100_003}, {"N": 70, "W": 4096}, {"N": 2000, "W": 33})
    row = "g (float[N,W] x, float[W] b) => (float[N,W] y) { a = Mul (x, b) s = Softmax (a) y = Add (s, x) }"
    flat = "g (float[N,W] x, float[W] b) => (float[N,W] y) { a = Mul (x, b) s = Tanh (a) y = Add (s, x) }"
    norm = "g (float[N,4096] x) => (float[N,4096] y) { a = Relu (x) y = LayerNormalization (a, s) }"
    return [
        Case("large rows", row, dims=wide, hard=False),
        Case("large and flat", flat, dims=wide),
        Case("many rows of 4096", norm, {"s": draw(4096)}, ({"N": 1}, {"N": 1000}), hard=False),
    ]


def in_two_ranges(made: onnx.ModelProto, dims) -> list[str]:
    """Options --range: the first sizes alone, and all others together, tuned at the first of them."""
    options = []
    for few in (dims[:1], dims[1:]):
        bounds = [{symbol: pick(d[symbol] for d in few) for symbol in few[0]} for pick in (min, next, max)]
        for value in made.graph.input:
            shapes = [
                "x".join(str(d.dim_value or sizes[d.dim_param]) for d in value.type.tensor_type.shape.dim)
                for sizes in bounds
            ]
            options.append(f"{value.name}={':'.join(shapes)}")
    return options


def export(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, case in enumerate([case for case in ALL if case.gpu and not case.feeds] + single_ops() + large()):
        name = f"{number:03}_" + re.sub(r"\W+", "_", case.name).strip("_")
        made = case.model()
        onnx.save(made, folder / f"{name}.onnx")
        if is_narrow(made):
            onnx.save(widened(made), folder / f"{name}_wide.onnx")
        known = case.faults.get("numbers") or case.faults.get("special")
        rows.append(
            {
                "model": name,
                "name": name,
                "dims": list(case.dims),
                "hard": case.hard and not case.faults.get("special"),
                "known_fault": known or "",
                "may_not_build": bool(case.faults.get("fusion")),
                "wide": is_narrow(made),
                "level": case.options.get("level", 3),
                "disable": list(case.options.get("disable", ())),
                "ranges": [],
            }
        )
        if case.name in IN_TWO_RANGES:
            rows.append({**rows[-1], "name": f"{name}_in_two_ranges", "ranges": in_two_ranges(made, case.dims)})
    ops = {op["name"]: op for case in ALL for op in case.ops}
    (folder / "ops.json").write_text(json.dumps({"ops": list(ops.values())}, indent=1))
    (folder / "cases.json").write_text(json.dumps({"cases": rows}, indent=1))
    return len(rows)


if __name__ == "__main__":
    print(f"{export(Path(sys.argv[1]))} cases in {sys.argv[1]}", file=sys.stderr)
