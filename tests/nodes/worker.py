"""Runs ONNX node tests one by one in a process of its own, so that a crash costs one test and is named.

`serve` answers each test folder it gets with (status, code, reason, on_device): status is passed, failed or
unsupported.
"""

import fnmatch
import resource
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

RTOL, ATOL = 1e-3, 1e-7
MEMORY_LIMIT = 6 << 30
# On a GPU: for 16-bit results, which may lie a unit in the last place apart; and for zeros, by the largest value.
RTOL_16 = {"float16": 2e-3, "bfloat16": 1.6e-2}
ATOL_OF_LARGEST = {"float32": 5e-7, "float16": 1e-3, "bfloat16": 8e-3}


class How(NamedTuple):
    """What the tests run on; untuned on a GPU, so that a kernel that is wrong is not left out."""

    device: str = "cpu"
    native: bool = False  # through the C ABI instead of the module

    def options(self) -> dict:
        return {} if self.device == "cpu" else {"device": self.device, "tune": False}


CPU = How()

# Their recorded outputs come from another random generator: only names, dtypes, shapes and the rule below are checked.
RANDOM = ["test_bernoulli*", "test_training_dropout", "test_training_dropout_mask", "test_training_dropout_default*"]

# A valid model refused with one of these is unsupported; any other refusal is a failure.
UNSUPPORTED = {206: "TYPE", 208: "UNSUPPORTED_OP", 211: "OPSET"}


def is_random(name: str) -> bool:
    return any(fnmatch.fnmatch(name, p) for p in RANDOM)


def read_value(path: Path, kind: onnx.TypeProto):
    """One input_N.pb or output_N.pb as numpy array, list (sequence) or None (empty optional)."""
    data = path.read_bytes()
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if which == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def read_values(folder: Path, prefix: str, infos) -> dict:
    values = {}
    for k, info in enumerate(infos):
        path = folder / f"{prefix}_{k}.pb"
        if path.exists():
            values[info.name] = read_value(path, info.type)
    return values


def widen(array: np.ndarray) -> np.ndarray:
    """Small float and packed integer types as a type numpy compares exactly."""
    if array.dtype.kind in "biufc" and array.dtype.isbuiltin == 1:
        return array
    return array.astype(np.float64)


def tolerances(want: np.ndarray, how: How) -> dict:
    if how.device == "cpu" or want.dtype.name not in ATOL_OF_LARGEST:
        return {"rtol": RTOL, "atol": ATOL}
    finite = np.abs(widen(want)[np.isfinite(widen(want))])
    largest = ATOL_OF_LARGEST[want.dtype.name] * float(finite.max(initial=0))
    return {"rtol": RTOL_16.get(want.dtype.name, RTOL), "atol": max(ATOL, largest)}


def difference(name: str, got, want, how: How) -> str | None:
    """Why `got` is not `want`, or None; a list is compared element by element, and None is an empty optional."""
    if want is None or got is None:
        return None if want is got else f"{name}: {'nothing' if got is None else 'something'}, expected the opposite"
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return f"{name}: expected a sequence of {len(want)}"
        found = (difference(f"{name}[{k}]", g, w, how) for k, (g, w) in enumerate(zip(got, want, strict=True)))
        return next((d for d in found if d), None)
    got = np.asarray(got)
    if got.dtype != want.dtype:
        return f"{name}: dtype {got.dtype}, expected {want.dtype}"
    if got.shape != want.shape:
        return f"{name}: shape {list(got.shape)}, expected {list(want.shape)}"
    if want.dtype == object:
        return None if (got == want).all() else f"{name}: strings differ"
    a, b = widen(got), widen(want)
    close = np.isclose(a, b, **tolerances(want, how), equal_nan=True)
    if close.all():
        return None
    where = tuple(int(i) for i in np.argwhere(~close)[0])
    bad = int((~close).sum())
    return f"{name}: {bad} of {close.size} values differ, first at {list(where)}: {a[where]}, expected {b[where]}"


def random_difference(name: str, got, want: np.ndarray, how: How) -> str | None:
    got = np.asarray(got)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{name}: {got.dtype} {list(got.shape)}, expected {want.dtype} {list(want.shape)}"
    return None if np.isfinite(widen(got)).all() else f"{name}: values that are not finite"


def has_kernels(engine) -> bool:
    """Does a step run on the GPU?"""
    return any(f"{provider}:" in engine.inspect() for provider in ("nvrtc", "cublaslt", "cudnn"))


def run_test(folder: Path, how: How) -> tuple[str, int, str, bool]:
    import deepjit

    model = onnx.load(folder / "model.onnx", load_external_data=False)
    compare = random_difference if is_random(folder.name) else difference
    on_device = False
    try:
        engine = deepjit.build(str(folder / "model.onnx"), **how.options())
        on_device = how.device != "cpu" and has_kernels(engine)
        for data in sorted(folder.glob("test_data_set_*")):
            feeds = read_values(data, "input", model.graph.input)
            want = read_values(data, "output", model.graph.output)
            got = engine.run(feeds)
            for name, value in want.items():
                reason = compare(name, got[name], value, how) if name in got else f"output {name} is missing"
                if reason:
                    return "failed", 0, reason, on_device
        return "passed", 0, "", on_device
    except deepjit.Error as error:
        status = "unsupported" if error.code in UNSUPPORTED else "failed"
        return status, error.code, f"{error.name}: {error.message}", on_device
    except Exception as error:  # the binding let something else through: that is a failure of ours
        return "failed", 0, f"{type(error).__name__}: {error}", on_device


def serve(connection, how: How) -> None:
    if how.native:
        import native

        native.install()
    if how.device == "cpu":  # a GPU's driver takes much more of the address space
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while (folder := connection.recv()) is not None:
        status, code, reason, on_device = run_test(Path(folder), how)
        connection.send((status, code, " ".join(reason.split())[:300], on_device))
