"""Ops that are expressions of others: registering them, and testing them against a reference."""

import os
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from . import _core
from ._error import Error

_DTYPES = {"float32": 1, "float16": 10, "float64": 11, "int32": 6, "int64": 7, "bool": 9}


class OpReport(dict):
    """What check_op did: op, cases, elements, largest_error, with_reference, generated.

    generated: the dtypes in which every case ran as one generated kernel; in the others the steps ran one by one.
    """


def register_op(
    name: str,
    *,
    expression: str,
    inputs: str | Iterable[str],
    outputs: str | Iterable[str] = ("y",),
    attributes: Mapping[str, float | None] | None = None,
    shape: str = "",
    reference: Callable | None = None,
    dtypes: str | Iterable[str] = ("float32", "float64", "float16"),
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
    Returns the report of check_op, or None without check. Raises deepjit.Error: 803 when the name has another
    definition and not replace; 804 for a bad definition; 2xx when expression and shape rule disagree; 506 when the test
    fails; and what the reference raises. Then everything is as before. Other threads see the op once it has passed.
    """
    _expect(isinstance(name, str), f"the name of an op is a text, not {name!r}")
    _expect(isinstance(expression, str), f"the expression of {name} is a text, not {expression!r}")
    _expect(isinstance(shape, str), f"the shape rule of {name} is a text, not {shape!r}")
    dtypes = _texts(dtypes, f"dtypes of {name}")
    _expect(bool(dtypes), f"no dtypes to test {name} in", "leave dtypes out, or give one")
    _expect(reference is None or callable(reference), f"the reference of {name} is no function")
    report = _core.register_op(
        {
            "name": name,
            "inputs": _texts(inputs, f"inputs of {name}"),
            "outputs": _texts(outputs, f"outputs of {name}"),
            "attributes": {_name(key): _number(value, key, name) for key, value in (attributes or {}).items()},
            "expression": expression,
            "shape": shape,
            "reference": None if reference is None else _calls(reference),
            "dtypes": [_dtype(dtype) for dtype in dtypes],
            "tolerance": float(tolerance or 0),
            "check": bool(check),
        },
        bool(replace),
    )
    return OpReport(report) if check else None


def forget_op(name: str) -> bool:
    """Whether the op was registered. Engines that were built with it stay as they are."""
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
    return OpReport(_core.check_op(name))


def register_ops(path: str | os.PathLike, replace: bool = False) -> None:
    """Registers the ops of a JSON file, all or none, as `deepjit build --ops FILE` does."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as e:
        raise Error(304, "FILE_NOT_FOUND", f'cannot open "{os.fspath(path)}": {e.strerror}') from None
    except UnicodeDecodeError as e:
        raise Error(804, "ARGUMENT", f'"{os.fspath(path)}" is no text in UTF-8: {e}') from None
    _core.register_ops(text, replace)


def _calls(reference: Callable) -> Callable:
    """Takes and returns lists, as the extension wants it."""

    def call(arrays: list, attributes: dict) -> list:
        with np.errstate(all="ignore"):
            made = reference(*arrays, **attributes)
        return list(made) if isinstance(made, (tuple, list)) else [made]

    return call


def _expect(right: bool, message: str, hint: str = "") -> None:
    if not right:
        raise Error(804, "ARGUMENT", message, hint)


def _texts(given, what: str) -> list[str]:
    texts = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    wrong = [one for one in texts if not isinstance(one, str)]
    _expect(not wrong, f"the {what} are texts, not {wrong}")
    return texts


def _name(key) -> str:
    _expect(isinstance(key, str), f"the name of an attribute is a text, not {key!r}")
    return key


def _number(value, key: str, name: str) -> float | None:
    if value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        raise Error(804, "ARGUMENT", f'the default of attribute "{key}" of {name} is no number: {value!r}') from None


def _dtype(dtype: str) -> int:
    _expect(dtype in _DTYPES, f'dtypes has "{dtype}"', f"known are {', '.join(_DTYPES)}")
    return _DTYPES[dtype]
