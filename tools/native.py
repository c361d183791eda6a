"""deepjit for a Python that its module was not made for: the same calls over the C ABI, by ctypes. Needs NumPy.

build(), load(), Engine.run() and Error are those of the deepjit package, as far as they go; install() puts this module
in its place. The library is the one that DEEPJIT_LIBRARY names, else that of the packed folder or of build/dev.
ml_dtypes is needed for bfloat16 and types of fewer than 16 bits.
"""

import ctypes
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
STRING, SEQUENCE, OPTIONAL = 8, 100, 101
NAMES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz",
    19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4_e2m1fn", 24: "float8_e8m0fnu",
    25: "uint2", 26: "int2",
}  # fmt: skip
NUMBERS = {name: number for number, name in NAMES.items()}


class Tensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int32), ("rank", c_int32), ("shape", POINTER(c_int64)),
                ("data", c_void_p)]  # fmt: skip


class Info(ctypes.Structure):
    pass


Info._fields_ = [("name", c_char_p), ("dtype", c_int32), ("rank", c_int32), ("dims", POINTER(c_int64)),
                 ("dim_names", POINTER(c_char_p)), ("optional", c_int32), ("element", POINTER(Info))]  # fmt: skip


class Range(ctypes.Structure):
    _fields_ = [("input", c_char_p), ("rank", c_int32), *((name, POINTER(c_int64)) for name in ("min", "opt", "max"))]


LOG = ctypes.CFUNCTYPE(None, c_char_p, c_void_p)


class BuildOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("device", c_char_p), ("precision", c_char_p), ("threads", c_int32),
                ("level", c_int32), ("tune", c_int32), ("reserved", c_int32), ("ranges", POINTER(Range)),
                ("range_count", c_size_t), ("disable", POINTER(c_char_p)), ("disable_count", c_size_t),
                ("tune_cache", c_char_p), ("lock", c_char_p), ("force_tactic", c_char_p), ("budget_s", c_double),
                ("model_folder", c_char_p), ("progress", c_void_p), ("log", LOG), ("user", c_void_p),
                ("targets", c_char_p), ("tolerance", c_double), ("device_only", c_int32),
                ("reserved2", c_int32)]  # fmt: skip


class Error(Exception):
    """A refusal, with its number and name (docs/errors.md)."""

    def __init__(self, code: int, name: str, message: str, hint: str = ""):
        super().__init__(f"error[E{code:03d} {name}]: {message}")
        self.code, self.name, self.message, self.hint = code, name, message, hint


def library_path() -> Path:
    for place in (os.environ.get("DEEPJIT_LIBRARY"), HERE.parent / "lib", HERE.parent / "build" / "dev"):
        path = Path(place or "")
        path = path / "libdeepjit.so" if path.is_dir() else path
        if place and path.exists():
            return path
    raise FileNotFoundError("libdeepjit.so is not found; DEEPJIT_LIBRARY names it")


def cuda_folders() -> str:
    """Where this Python's packages hold CUDA's libraries, for DEEPJIT_CUDA_PATH; deepjit finds toolkits by itself."""
    folders = {}
    for folder in sys.path:
        for name in ("libnvrtc.so.1*", "libcublasLt.so.1*", "libcudnn.so.9"):
            folders |= {str(found.parent): None for found in sorted(Path(folder).glob(f"nvidia/*/lib/{name}"))}
    return ":".join(folders)


_loaded: list[ctypes.CDLL] = []


def library() -> ctypes.CDLL:
    if not _loaded:
        if folders := cuda_folders():
            os.environ.setdefault("DEEPJIT_CUDA_PATH", folders)
        made = ctypes.CDLL(str(library_path()))
        for name in ("last_error_message", "last_error_hint", "engine_inspect", "engine_device", "status_name"):
            getattr(made, f"deepjit_{name}").restype = c_char_p
        for name in ("engine_input_count", "engine_output_count", "context_memory_bytes"):
            getattr(made, f"deepjit_{name}").restype = c_size_t
        for name in ("engine_free", "context_free"):
            getattr(made, f"deepjit_{name}").argtypes = [c_void_p]
        _loaded.append(made)
    return _loaded[0]


def check(status: int) -> None:
    if status:
        lib = library()
        text = lib.deepjit_last_error_message().decode(errors="replace")
        raise Error(
            status, lib.deepjit_status_name(c_int32(status)).decode(), text, lib.deepjit_last_error_hint().decode()
        )


# ---- values


def numpy_type(number: int) -> np.dtype:
    name = NAMES[number]
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def place(slot: Tensor, value, info: Info, kept: list) -> None:
    """Fills a slot with a value; what it points to goes to `kept`."""
    if info.dtype in (SEQUENCE, OPTIONAL):
        if info.dtype == OPTIONAL:
            value = [] if value is None else [value]
        elements = (Tensor * max(len(value), 1))()
        for element, one in zip(elements, value, strict=False):
            place(element, one, info.element.contents, kept)
        number, shape, data = info.dtype, (len(value),), ctypes.cast(elements, c_void_p)
        kept.append(elements)
    else:
        array = np.asarray(value)
        number, shape = NUMBERS.get(array.dtype.name, STRING), array.shape
        if number == STRING:
            texts = [one if isinstance(one, bytes) else str(one).encode() for one in array.ravel().tolist()]
            array = (c_char_p * max(len(texts), 1))(*texts)
            data = ctypes.cast(array, c_void_p)
        else:
            # ml_dtypes leaves the upper bits of these as they come; the library reads them as signed bytes.
            array = np.ascontiguousarray(array.astype(np.int8) if array.dtype.name in ("int4", "int2") else array)
            data = c_void_p(array.ctypes.data)
        kept.append(array)
    dims = (c_int64 * max(len(shape), 1))(*shape)
    kept.append(dims)
    slot.dtype, slot.rank, slot.shape, slot.data = number, len(shape), dims, data


def taken(slot: Tensor):
    """The value in a slot, as a copy."""
    shape = [slot.shape[i] for i in range(slot.rank)]
    count = int(np.prod(shape, dtype=np.int64))
    if slot.dtype in (SEQUENCE, OPTIONAL):
        elements = ctypes.cast(slot.data, POINTER(Tensor))
        values = [taken(elements[i]) for i in range(count)]
        return values if slot.dtype == SEQUENCE else (values[0] if values else None)
    if slot.dtype == STRING:
        texts = ctypes.cast(slot.data, POINTER(c_char_p))
        return np.array([texts[i].decode() for i in range(count)], dtype=object).reshape(shape)
    kind = numpy_type(slot.dtype)
    return np.frombuffer(ctypes.string_at(slot.data, count * kind.itemsize), dtype=kind).reshape(shape).copy()


# ---- engines


class Context:
    """Runs one at a time; keeps its memory and its graphs from run to run."""

    def __init__(self, engine: "Engine"):
        self.engine, self.handle = engine, c_void_p()
        check(library().deepjit_context_create(engine.handle, 0, byref(self.handle)))

    def __del__(self):
        if self.handle:
            library().deepjit_context_free(self.handle)

    def prepared(self, feeds: dict) -> tuple:
        """What run_prepared takes: for runs that are timed."""
        kept: list = []
        slots = (Tensor * max(len(feeds), 1))()
        for slot, (name, value) in zip(slots, feeds.items(), strict=False):
            slot.name = name.encode()
            info = self.engine.inputs.get(name)
            place(slot, value, info if info is not None else Info(), kept)
        return slots, c_size_t(len(feeds)), kept

    def run_prepared(self, prepared: tuple) -> None:
        check(library().deepjit_context_run(self.handle, prepared[0], prepared[1]))

    def outputs(self) -> dict:
        """Of the last run."""
        results = {}
        for i, name in enumerate(self.engine.outputs):
            slot = Tensor()
            check(library().deepjit_context_output(self.handle, c_size_t(i), byref(slot)))
            results[name] = taken(slot)
        return results

    def run(self, feeds: dict) -> dict:
        self.run_prepared(self.prepared(feeds))
        return self.outputs()


class Engine:
    def __init__(self, handle: c_void_p):
        self.handle = handle
        self.inputs, self.outputs = self._infos("input"), self._infos("output")
        self._context: Context | None = None

    def __del__(self):
        library().deepjit_engine_free(self.handle)

    def _infos(self, kind: str) -> dict[str, Info]:
        found = {}
        for i in range(getattr(library(), f"deepjit_engine_{kind}_count")(self.handle)):
            info = Info()
            check(getattr(library(), f"deepjit_engine_{kind}")(self.handle, c_size_t(i), byref(info)))
            found[info.name.decode()] = info
        return found

    def inspect(self) -> str:
        return library().deepjit_engine_inspect(self.handle).decode()

    def save(self, path) -> None:
        check(library().deepjit_engine_save(self.handle, os.fsencode(path)))

    def create_context(self) -> Context:
        return Context(self)

    def run(self, feeds: dict) -> dict:
        if self._context is None:
            self._context = Context(self)
        return self._context.run(feeds)


def triple(shapes) -> tuple:
    """One shape stands for all three."""
    shapes = tuple(shapes)
    return (shapes,) * 3 if shapes and not hasattr(shapes[0], "__len__") else shapes


def ranges_of(ranges: dict) -> tuple:
    made = (Range * max(len(ranges), 1))()
    for slot, (name, shapes) in zip(made, ranges.items(), strict=False):
        low, opt, high = ((c_int64 * max(len(shape), 1))(*shape) for shape in triple(shapes))
        slot.input, slot.rank = name.encode(), len(low)
        slot.min, slot.opt, slot.max = low, opt, high
    return made, len(ranges)


def build(
    model, *, device="cpu", precision="fp32", targets=None, ranges=None, threads=None, level=3, tune=True, disable=(),
    tune_cache=None, force_tactic=None, budget=0.0, device_only=False, log=None,
) -> Engine:  # fmt: skip
    """From a path, bytes, or an onnx.ModelProto."""
    lib, options, handle = library(), BuildOptions(), c_void_p()
    options.size = ctypes.sizeof(BuildOptions)
    lib.deepjit_build_options_init(byref(options))

    def text(value):
        return None if value is None else os.fsencode(value)

    options.device, options.precision, options.targets = text(device), text(precision), text(targets)
    options.tune_cache, options.force_tactic = text(tune_cache), text(force_tactic)
    options.threads, options.level, options.tune, options.device_only = (
        threads or 0,
        level,
        bool(tune),
        bool(device_only),
    )
    options.budget_s = budget
    options.ranges, options.range_count = ranges_of(ranges or {})
    names = (c_char_p * max(len(disable), 1))(*[name.encode() for name in disable])
    options.disable, options.disable_count = names, len(disable)
    if log:
        options.log = LOG(lambda line, _: log(line.decode(errors="replace")))
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if isinstance(model, bytes):
        check(lib.deepjit_build_bytes(model, c_size_t(len(model)), byref(options), byref(handle)))
    else:
        check(lib.deepjit_build_file(os.fsencode(model), byref(options), byref(handle)))
    return Engine(handle)


def load(path, threads: int = 0, device: str | None = None) -> Engine:
    handle = c_void_p()
    name = None if device is None else device.encode()
    check(library().deepjit_load_file_on(os.fsencode(path), c_int32(threads), name, byref(handle)))
    return Engine(handle)


def install() -> None:
    """From here on `import deepjit` gives this module."""
    sys.modules["deepjit"] = sys.modules[__name__]
