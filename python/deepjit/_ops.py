"""Ops that are expressions of others: registering them, and testing them against a reference."""

import json
import os
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from . import _core
from ._error import Error

_DTYPES = {"float32": 1, "float16": 10, "float64": 11, "int32": 6, "int64": 7, "bool": 9}
_TOLERANCE = {2: 4e-3, 4: 2e-5, 8: 1e-9}  # by the bytes of a float
_SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 3.0, -3.0)
_SIZES = (17, 1, 64, 5, 1027)  # of the last dim: vectors with and without a tail
_tests: dict[str, dict] = {}  # what check_op needs of each op, by name


class OpReport(dict):
    """What check_op did: op, cases, elements, largest_error, with_reference, generated.

    generated: the dtypes in which every case ran as one generated kernel; in the others the steps ran one by one.
    """


def register_op(
    name: str,
    *,
    expression: str,
    inputs: Iterable[str],
    outputs: str | Iterable[str] = ("y",),
    attributes: Mapping[str, float | None] | None = None,
    shape: str = "",
    reference: Callable | None = None,
    dtypes: Iterable[str] = ("float32", "float64", "float16"),
    tolerance: float | None = None,
    replace: bool = False,
    check: bool = True,
) -> OpReport | None:
    """Makes nodes of the op "domain::Name" known: each stands for an expression of ops that deepjit has.

    expression: "y = x * sigmoid(alpha * x)"; one statement a line. docs/user_ops.md has the language.
    inputs: names, in order; "mask: bool" has an element type of its own, the others are of any one type.
    attributes: numbers with their defaults; None: every node gives it.
    shape: "" (what the expression yields), an input's name, or patterns such as "[N, C] -> [N, 1]".
    reference: called as reference(*arrays, **attributes) with NumPy arrays; returns an array, or one an output. The op
    is tested against it in each of the dtypes; without one, its kernels are tested against its steps one by one.
    tolerance: the largest error, relative to 0.1 and more. check: False leaves the tests to check_op.
    Returns the report of check_op. Raises deepjit.Error: 803 when the name has another definition and not replace; 804
    for a bad definition; 2xx when expression and shape rule disagree; 506 when the test fails. Then the op is not
    registered.
    """
    definition = {
        "name": name,
        "inputs": [inputs] if isinstance(inputs, str) else list(inputs),
        "outputs": [outputs] if isinstance(outputs, str) else list(outputs),
        "attributes": {key: None if value is None else float(value) for key, value in (attributes or {}).items()},
        "expression": expression,
        "shape": shape,
    }
    dtypes = [dtypes] if isinstance(dtypes, str) else list(dtypes)
    unknown = [dtype for dtype in dtypes if dtype not in _DTYPES]
    if unknown or not dtypes:
        raise Error(804, "ARGUMENT", f"dtypes has {unknown}", f"known are {', '.join(_DTYPES)}")
    try:
        text = json.dumps({"ops": [definition]})
    except TypeError as e:
        raise Error(804, "ARGUMENT", f"the definition of {name} is not understood: {e}") from None
    before = _tests.get(name)
    _core.register_ops(text, replace)
    _tests[name] = {
        "definition": definition,
        "json": text,
        "reference": reference,
        "dtypes": dtypes,
        "tolerance": tolerance,
    }
    if not check:
        return None
    try:
        return check_op(name)
    except BaseException:
        forget_op(name)
        if before is not None:
            _core.register_ops(before["json"], True)
            _tests[name] = before
        raise


def forget_op(name: str) -> bool:
    """Whether the op was registered. Engines that were built with it stay as they are."""
    _tests.pop(name, None)
    return _core.forget_op(name)


def registered_ops() -> list[str]:
    """The names of all registered ops."""
    return _core.registered_ops()


def check_op(name: str) -> OpReport:
    """Tests a registered op again: its generated kernels and its steps one by one, against its reference.

    Fed are random values, ties, zeros of both signs, subnormals, NaN, infinities and extremes, at sizes that leave
    tails and at broadcast shapes. Raises deepjit.Error 506 with the first element that differs, 804 for an
    unknown name.
    """
    if name not in _tests:
        raise Error(804, "ARGUMENT", f'no op "{name}" was registered here', f"registered are {', '.join(_tests)}")
    return _Check(name, **_tests[name]).run()


class _Check:
    def __init__(self, name, definition, json, reference, dtypes, tolerance):
        self.name, self.definition, self.reference = name, definition, reference
        self.dtypes, self.tolerance = dtypes, tolerance
        self.types = [text.split(":")[1].strip() if ":" in text else None for text in definition["inputs"]]
        self.attributes = {key: 1.0 if v is None else v for key, v in definition["attributes"].items()}
        self.rows = any(
            word in definition["expression"] for word in ("sum", "mean", "prod", "_of", "softmax", "squeeze")
        )
        self.report = OpReport(
            op=name,
            cases=0,
            elements=0,
            largest_error=0.0,
            with_reference=reference is not None,
            generated=list(dtypes),
        )

    def run(self) -> OpReport:
        for dtype in self.dtypes:
            for number, dims in enumerate(self.layouts()):
                if number == 0 or dtype == self.dtypes[0]:
                    self.check_layout(dtype, dims, plain=number == 0)
        return self.report

    def layouts(self) -> list[list[list[str]]]:
        """The dims of each input, as names: all alike, then the others broadcast to the first."""
        shape, count = self.definition["shape"], len(self.types)
        if "->" in shape:
            patterns = [part.strip(" ,[") for part in shape.split("->")[0].split("]")[:-1]]
            words = [[word.strip() for word in part.split(",") if word.strip()] for part in patterns]
            lead = (["L0", "L1"], []) if "..." in shape else ([],)
            return [[[d for w in word for d in (first if w == "..." else [w])] for word in words] for first in lead]
        axis = int(self.attributes.get("axis", -1))
        rank = max(3, axis + 1 if axis >= 0 else -axis)
        full = [f"D{i}" for i in range(rank)]
        whole = self.definition["inputs"].index(shape) if shape in self.definition["inputs"] else 0
        if count == 1:
            return [[full]]
        return [[full] * count, *([full if i == whole else part for i in range(count)] for part in (full[-1:], ["1"]))]

    def check_layout(self, dtype: str, dims: list, plain: bool) -> None:
        from . import build

        model = _core.model_of_op(self.name, _DTYPES[dtype], dims)
        try:
            fused = build(model, threads=1, force_tactic="llvm")
            steps = build(model, threads=1, level=0, tune=False)
            wide = steps
            if dtype == "float16":
                wide = build(_core.model_of_op(self.name, _DTYPES["float32"], dims), threads=1, level=0, tune=False)
        except Error as e:
            if plain or e.code // 100 != 2:
                raise Error(e.code, e.name, f"op {self.name}, {dtype}: {e.message}", e.hint) from None
            return  # an operand that this op does not broadcast
        kernel = any(step["tactic"].startswith("llvm") for step in fused.steps)
        if not kernel and dtype in self.report["generated"]:
            self.report["generated"].remove(dtype)
        names = sorted({d for one in dims for d in one if not d.isdigit()}, key=str)
        for number, size in enumerate(_SIZES):
            sizes = {d: (2, 3, 1)[(number + i) % 3] for i, d in enumerate(names)}
            if names:
                sizes[names[-1]] = size
            shapes = [tuple(int(d) if d.isdigit() else sizes[d] for d in one) for one in dims]
            for kind in ("plain", "special", "extreme"):
                self.check_case(fused, steps, wide, self.feeds(dtype, shapes, kind, number))

    def feeds(self, dtype: str, shapes: list, kind: str, seed: int) -> list[np.ndarray]:
        rng = np.random.default_rng([seed, len(kind)])
        return [
            self.values(rng, np.dtype(own or dtype), shape, kind) for own, shape in zip(self.types, shapes, strict=True)
        ]

    def values(self, rng, dtype, shape, kind) -> np.ndarray:
        if dtype.kind == "b":
            return rng.random(shape) < 0.5
        if dtype.kind != "f":
            return rng.integers(-9, 10, shape).astype(dtype)
        values = rng.standard_normal(shape)
        if kind == "plain":
            return values.astype(dtype)
        info = np.finfo(dtype)
        tiny = float(info.smallest_subnormal) * 100
        values = np.where(rng.random(shape) < 0.3, rng.choice([*_SPECIAL, tiny, -tiny], shape), values)
        values = np.where(rng.random(shape) < 0.2, np.round(values), values)
        big = float(info.max) ** 0.5
        odd = [np.nan, np.inf, -np.inf] if kind == "special" else [big, -big]
        if kind == "extreme" and not self.rows and dtype.itemsize > 2:
            odd += [float(info.max), float(info.min)]
        often = 0.3 if not self.rows else 0.3 / max(shape[-1] if shape else 1, 1)
        with np.errstate(over="ignore"):
            return np.where(rng.random(shape) < often, rng.choice(odd, shape), values).astype(dtype)

    def check_case(self, fused, steps, wide, arrays: list) -> None:
        """wide: the steps in float32, as a kernel computes that is given float16; else the steps."""
        names = [text.split(":")[0].strip() for text in self.definition["inputs"]]
        feeds = dict(zip(names, arrays, strict=True))
        got = {"the generated kernel": fused.run(feeds), "step by step": steps.run(feeds)}
        want = [[w] for w in (self.expected(arrays) if self.reference else got["step by step"].values())]
        self.compare_all("step by step", got["step by step"], want, feeds)
        if wide is not steps:
            pairs = zip(feeds.items(), self.types, strict=True)
            floats = {n: a if own or a.dtype.itemsize != 2 else a.astype(np.float32) for (n, a), own in pairs}
            more = self.expected(list(floats.values())) if self.reference else wide.run(floats).values()
            want = [[*one, other] for one, other in zip(want, more, strict=True)]
        self.compare_all("the generated kernel", got["the generated kernel"], want, feeds)
        self.report["cases"] += 1

    def expected(self, arrays: list) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            made = self.reference(*(a.copy() for a in arrays), **self.attributes)
        made = list(made) if isinstance(made, (tuple, list)) else [made]
        if len(made) != len(self.definition["outputs"]):
            raise Error(804, "ARGUMENT", f"the reference of {self.name} gives {len(made)} results")
        return [np.asarray(one) for one in made]

    def compare_all(self, how: str, got: dict, want: list, feeds: dict) -> None:
        for (output, value), rights in zip(got.items(), want, strict=True):
            self.compare(how, output, value, rights, feeds)

    def compare(self, how: str, output: str, got, rights: list, feeds: dict) -> None:
        """Each element must be one of those that are right: values between float16 steps may be rounded or not."""
        told = ", ".join(f"{n} {a.dtype}{list(a.shape)}" for n, a in feeds.items())
        where = f'op {self.name}, {how}: output "{output}" of {told}'
        source = "the reference" if self.reference else "its steps"
        want = rights[0]
        if got.shape != want.shape:
            raise Error(506, "RUN_VALUE", f"{where} has shape {list(got.shape)}, {source} gives {list(want.shape)}")
        self.report["elements"] += got.size
        if got.dtype.kind == "f":
            with np.errstate(all="ignore"):
                want, *others = (one.astype(got.dtype) for one in rights)
            errors = np.min([self.errors(got, one, feeds) for one in (want, *others)], axis=0)
        else:
            errors = np.min([np.where(got == one, 0.0, np.inf) for one in rights], axis=0)
        allowed = self.tolerance or _TOLERANCE.get(got.dtype.itemsize, 0.0)
        if errors.size:
            self.report["largest_error"] = max(self.report["largest_error"], float(errors.max()))
        wrong = np.argwhere(errors > allowed)
        if wrong.size == 0 and not (errors > allowed).any():
            return
        at = tuple(int(i) for i in wrong[0])
        message = f"{where} at {list(at)} is {got[at]}, {source} says {want[at]}{self.operands(at, got.shape, feeds)}"
        raise Error(506, "RUN_VALUE", message, f"{len(wrong)} of {got.size} elements differ by more than {allowed}")

    def errors(self, got, want, feeds: dict) -> np.ndarray:
        """Relative to the value and a tenth; over rows, to the largest value. NaN and infinities must be the same."""
        largest = float(np.finfo(got.dtype).max)
        g, w = got.astype(np.float64), want.astype(np.float64)
        near = 0.99 * largest  # rounded up or down, it is infinite or not
        with np.errstate(all="ignore"):
            same = (g == w) | (np.isnan(g) & np.isnan(w)) | ((np.abs(g) > near) & (np.abs(w) > near) & (g * w > 0))
            scale = np.abs(w) + 0.1
            if self.rows:
                finite = [
                    np.abs(a[np.isfinite(a)]).max(initial=0.1) for a in [w, *feeds.values()] if a.dtype.kind == "f"
                ]
                scale = np.maximum(scale, max(float(f) for f in finite))
            errors = np.abs(g - w) / scale
        return np.where(same, 0.0, np.where(np.isfinite(g) & np.isfinite(w), errors, np.inf))

    def operands(self, at: tuple, shape: tuple, feeds: dict) -> str:
        try:
            values = {n: np.broadcast_to(a, shape)[at] for n, a in feeds.items()}
        except ValueError:
            return ""
        return " (" + ", ".join(f"{n} = {v}" for n, v in values.items()) + ")" if not self.rows else ""


def register_ops(path: str | os.PathLike, replace: bool = False) -> None:
    """Registers the ops of a JSON file, as `deepjit build --ops FILE` does."""
    with open(path, encoding="utf-8") as file:
        _core.register_ops(file.read(), replace)
