"""deepjit: builds engines from ONNX models and runs them fast.

engine = deepjit.build("m.onnx", ranges={"x": ((1, 3, 224, 224), (8, 3, 224, 224), (32, 3, 224, 224))})
engine = deepjit.build("m.onnx", ranges={"x": [((1, 80), (1, 80), (1, 80)), ((2, 80), (8, 80), (32, 80))]})  # two
engine.save("m.dje")
engine = deepjit.load("m.dje")
engine = deepjit.tune(engine)  # measures its kernels on this machine
outputs = engine.run({"x": array})  # dict of name to NumPy array
context = engine.create_context()  # one for each thread
findings = deepjit.doctor("m.onnx")  # mistakes of the export
"""

import json
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np

# Threads that wait for another spin for long unless told otherwise, and so keep the other from running where the
# machine has more to do. OpenMP reads the setting when the extension loads it.
_waiting_is_set = "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ
if not _waiting_is_set:
    os.environ["GOMP_SPINCOUNT"] = "2000"

from . import _core  # noqa: E402
from ._core import Context, DeviceTensor, Engine, Finding, TensorInfo  # noqa: E402
from ._error import Error  # noqa: E402
from ._ops import OpReport, check_op, forget_op, register_op, register_ops, registered_ops  # noqa: E402

if not _waiting_is_set:
    del os.environ["GOMP_SPINCOUNT"]

__version__ = _core.version()
__all__ = [
    "Context",
    "DeviceTensor",
    "Engine",
    "Error",
    "Finding",
    "OpReport",
    "TensorInfo",
    "build",
    "check_op",
    "doctor",
    "forget_op",
    "load",
    "register_op",
    "register_ops",
    "registered_ops",
    "tune",
]


def _argument(message: str, hint: str = "") -> Error:
    return Error(804, "ARGUMENT", message, hint)


def _integer(what: str, value) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise _argument(f"{what} must be an integer, got {value!r}") from None
    if not -(2**31) <= number < 2**31:
        raise _argument(f"{what} is out of range: {number}")
    return number


def _text(what: str, value) -> str:
    if not isinstance(value, str):
        raise _argument(f"{what} must be a string, got {value!r}")
    return value


def _path(what: str, value) -> str:
    """A path as text; None becomes empty."""
    if value is None:
        return ""
    try:
        return os.fsdecode(value)
    except TypeError:
        raise _argument(f"{what} must be a path, got {value!r}") from None


def _shape(name: str, shape) -> tuple[int, ...]:
    try:
        dims = tuple(operator.index(d) for d in shape)
    except TypeError:
        raise _argument(
            f'the range of "{name}" is not understood: {shape!r}',
            "write one shape, (min, opt, max) shapes, or a list of such triples",
        ) from None
    if any(not -(2**63) <= d < 2**63 for d in dims):
        raise _argument(f'the range of "{name}" has a dimension that is out of range: {shape!r}')
    return dims


def _parts(value) -> tuple:
    try:
        return tuple(value)
    except TypeError:
        return (value,)


def _is_shape(parts: tuple) -> bool:
    return not parts or any(hasattr(p, "__index__") for p in parts)


def _triple(name: str, parts: tuple) -> tuple[tuple[int, ...], ...]:
    if len(parts) != 3:
        raise _argument(f'the range of "{name}" needs one shape or three (min, opt, max), got {len(parts)}')
    return tuple(_shape(name, p) for p in parts)


def _range(name: str, value) -> list[tuple[tuple[int, ...], ...]]:
    """(min, opt, max), or several such; one shape stands for all three."""
    parts = _parts(value)
    if _is_shape(parts):
        return [(_shape(name, parts),) * 3]
    if all(_is_shape(_parts(p)) for p in parts):
        return [_triple(name, parts)]
    return [_triple(name, _parts(p)) for p in parts]


def _ranges(ranges) -> dict:
    if ranges is None:
        return {}
    if not isinstance(ranges, Mapping):
        raise _argument(f"ranges must be a dict of input name to shapes, got {ranges!r}")
    return {_text("the name of an input", name): _range(name, value) for name, value in ranges.items()}


def _sample(sample) -> dict:
    if isinstance(sample, Mapping):
        return {_text("the name of an input", name): array for name, array in sample.items()}
    try:
        with np.load(sample, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, TypeError, ValueError) as fault:
        raise _argument(f"calib {sample!r} is no dict of arrays and no .npz file: {fault}") from None


def _samples(calib) -> list[dict]:
    if calib is None:
        return []
    return [_sample(one) for one in (calib if isinstance(calib, (list, tuple)) else [calib])]


def _seconds(value) -> float:
    """Seconds as a number, or text like "30s", "500ms" or "2m"."""
    if value is None:
        return 0.0
    if isinstance(value, str):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|)", value.strip())
        if not found:
            raise _argument(f"the budget {value!r} is not understood", 'write seconds, or text like "30s" or "2m"')
        return float(found[1]) * {"ms": 1e-3, "m": 60.0}.get(found[2], 1.0)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise _argument(f"the budget must be a number of seconds, got {value!r}") from None


def _tolerance(value) -> float:
    if value is None:
        return 0.0
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise _argument(f"the tolerance must be a number, got {value!r}") from None
    if not 0 < number <= 1:
        raise _argument(f"the tolerance must lie between 0 and 1, got {value!r}", "1e-5 is usual for float32")
    return number


def _names(disable) -> list[str]:
    if disable is None:
        return []
    names = disable.split(",") if isinstance(disable, str) else disable
    try:
        return [_text("the name of a pass", n) for n in names if n != ""]
    except TypeError:
        raise _argument(f"disable must be a list of pass names, got {disable!r}") from None


def _source(what: str, source) -> bytes | str:
    """Bytes in memory, or the path of a file."""
    if isinstance(source, bytes):
        return source
    if isinstance(source, (bytearray, memoryview)):
        return bytes(source)
    if hasattr(source, "SerializeToString"):  # onnx.ModelProto
        return source.SerializeToString()
    if isinstance(source, (str, os.PathLike)):
        return os.fsdecode(source)
    raise _argument(f"{what} must be a path or bytes, got {type(source).__name__}")


def build(
    model,
    *,
    device: str = "cpu",
    targets: str | None = None,
    device_only: bool = False,
    precision: str = "fp32",
    calib=None,
    threads: int | None = None,
    ranges: Mapping | None = None,
    level: int = 3,
    disable: Iterable[str] = (),
    tune_cache=None,
    lock=None,
    budget: float | str | None = None,
    tune: bool = True,
    force_tactic: str | None = None,
    tolerance: float | None = None,
    model_folder=None,
    progress: Callable[[str, int, int], None] | None = None,
    log: Callable[[str], None] | None = None,
) -> Engine:
    """Builds an engine from an ONNX model: a path, bytes, or an onnx.ModelProto.

    device: what to run on: "cpu", "cuda", "cuda:1".
    precision: what to compute in: "fp32", or on a GPU "tf32", "fp16" or "bf16" where that is safe (docs/precision.md).
    calib: sample inputs, which show what fits fp16 or bf16: a dict of name to array, an .npz file, or a list of these.
    targets: GPUs to compile for, such as "sm_80,sm_90"; None takes the one that is here.
    device_only: of a GPU: a step that would run on the CPU is an error, NO_DEVICE_KERNEL.
    threads: for tuning and running; None takes all cores.
    ranges: input name to (min, opt, max) shapes, or to one shape. A list of triples makes several ranges, each tuned by
    itself: the k-th of all inputs belong together, and a run takes the one that its shapes lie in (docs/ranges.md).
    level: 0 (no pass) to 3 (all passes); 0 and 1 measure nothing on a GPU. disable: names of passes to leave out.
    tune_cache: folder for measured choices. lock: lockfile, read when it exists, else written.
    budget: time for tuning in seconds, or text like "30s". tune: False takes the reference implementation everywhere.
    force_tactic: "provider" or "provider:variant", taken wherever it is offered.
    tolerance: the largest relative error of a kernel against the reference; None takes 1e-3 for float16 and bfloat16,
    1e-10 for float64, 1e-5 for the rest. Results of 16 bits may always differ by one unit in the last place.
    model_folder: where external data may lie when the model is given as bytes.
    progress: called with (stage, done, total); log: called with a line of text. What they raise ends the build.
    """
    options = {
        "device": _text("device", device),
        "targets": "" if targets is None else _text("targets", targets),
        "device_only": bool(device_only),
        "precision": _text("precision", precision),
        "calib": _samples(calib),
        "threads": 0 if threads is None else _integer("threads", threads),
        "level": _integer("level", level),
        "ranges": _ranges(ranges),
        "disable": _names(disable),
        "tune_cache": _path("tune_cache", tune_cache),
        "lock": _path("lock", lock),
        "budget": _seconds(budget),
        "tune": bool(tune),
        "force_tactic": "" if force_tactic is None else _text("force_tactic", force_tactic),
        "tolerance": _tolerance(tolerance),
        "model_folder": _path("model_folder", model_folder),
        "progress": progress,
        "log": log,
    }
    return _core.build(_source("the model", model), options)


def load(engine, threads: int | None = None, device: str | None = None) -> Engine:
    """Loads a saved engine: a path or the bytes of Engine.serialize(). threads: None keeps the build's number.

    device: one of the kind that the engine was built for, such as "cuda:1".
    """
    threads = 0 if threads is None else _integer("threads", threads)
    return _core.load(_source("the engine", engine), threads, "" if device is None else _text("device", device))


def tune(
    engine,
    *,
    device: str | None = None,
    targets: str | None = None,
    threads: int | None = None,
    ranges: Mapping | None = None,
    tune_cache=None,
    lock=None,
    budget: float | str | None = None,
    force_tactic: str | None = None,
    tolerance: float | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    log: Callable[[str], None] | None = None,
) -> Engine:
    """The same model with every kernel chosen anew by measuring on this machine: a new engine.

    engine: an Engine, or a saved one: a path or bytes. Such as one that was built without its GPU.
    device: one of the engine's kind, such as "cuda:1". targets: GPUs to compile for; None takes the one that is here.
    threads: None takes the engine's number, at most as many as there are cores.
    ranges: shapes to tune for, within what the engine was built for. The others are those of build().
    """
    options = {
        "device": "" if device is None else _text("device", device),
        "targets": "" if targets is None else _text("targets", targets),
        "threads": 0 if threads is None else _integer("threads", threads),
        "ranges": _ranges(ranges),
        "tune_cache": _path("tune_cache", tune_cache),
        "lock": _path("lock", lock),
        "budget": _seconds(budget),
        "force_tactic": "" if force_tactic is None else _text("force_tactic", force_tactic),
        "tolerance": _tolerance(tolerance),
        "progress": progress,
        "log": log,
    }
    return _core.tune(engine if isinstance(engine, Engine) else load(engine), options)


def _texts(what: str, given) -> list[str]:
    """A list of texts; one stands for itself, and a mapping becomes JSON."""
    if given is None:
        return []
    if isinstance(given, (str, Mapping)):
        given = [given]
    try:
        return [json.dumps(one) if isinstance(one, Mapping) else _text(what, one) for one in given]
    except TypeError:
        raise _argument(f"{what} must be text, a dict or a list of them, got {given!r}") from None


def _requests(traffic) -> list[str]:
    """Shapes that will be fed: dicts of input name to shape, or text as on the command line."""
    if traffic is None:
        return []
    if isinstance(traffic, (str, Mapping)):
        traffic = [traffic]
    texts = []
    for one in traffic:
        if isinstance(one, Mapping):
            one = ",".join(f"{name}={'x'.join(map(str, _shape(name, shape)))}" for name, shape in one.items())
        texts.append(_text("the traffic", one))
    return texts


def doctor(model, *, settings=None, traffic=None, ignore=(), measure: bool = False, model_folder=None) -> list[Finding]:
    """Mistakes in an ONNX model (a path, bytes, or an onnx.ModelProto), the worst first.

    settings: how it is going to be built or run: a dict such as {"tensorrt": {"int8": True}} or {"onnxruntime": {...}},
    JSON, a trtexec command line, or a list of them; docs/doctor.md has the form.
    traffic: shapes that will be fed, as dicts of input name to shape. ignore: rules to leave out, such as "DJ103".
    measure: builds the model for the CPU and times the nodes of each finding.
    """
    options = {
        "settings": _texts("settings", settings),
        "traffic": _requests(traffic),
        "ignore": _texts("ignore", ignore),
        "measure": bool(measure),
        "model_folder": _path("model_folder", model_folder),
    }
    return _core.doctor(_source("the model", model), options)
