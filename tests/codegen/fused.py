"""What the fusion tests stand on: models as ONNX text, builds with generated kernels, oracles, comparisons.

Kernels do not share launches here (disable=["combos"]), so that launches count kernels. A build with
force_tactic="llvm" runs every region as one generated kernel unless the tuner finds that kernel wrong; then it says so
in the log. Fused.check() therefore fails for a dropped kernel, and what a test compares was computed by
generated code.
"""

import json
import subprocess
from functools import cached_property
from pathlib import Path

import deepjit
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper, parser
from wide_truth import WideTruth, is_narrow, rounded, wide_feeds

REGION = "deepjit.Region"
CLI = Path(getattr(deepjit, "__file__", __file__)).resolve().parents[2] / "cli" / "deepjit"
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 1e-40, -1e-40, 88.0, -88.0, 1e30, -1e30, 3.4e38, np.nan, np.inf, -np.inf]
# Up to float16's and bfloat16's own extremes: what a float32 input would round to infinity says nothing new.
SPECIAL_16 = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 1e-7, -1e-7, 11.0, -11.0, 6e4, -6e4, np.nan, np.inf, -np.inf]


def model(text: str, constants: dict | None = None, opset: int = 21, domains=()) -> onnx.ModelProto:
    """A model from ONNX text: "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }", and its named constants."""
    opsets = ", ".join([f'"" : {opset}', *(f'"{domain}" : 1' for domain in sorted(domains))])
    made = parser.parse_model(f"<ir_version: 10, opset_import: [{opsets}]> {text}")
    for name, array in (constants or {}).items():
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return made


def nodes(text: str, count: int) -> str:
    """`count` lines of nodes: {i} is the line's number and {p} the one before it."""
    return "\n".join(text.format(i=i, p=i - 1) for i in range(1, count + 1))


def feeds_of(made: onnx.ModelProto, dims: dict | None = None, hard: bool = False, seed: int = 0) -> dict:
    """Random inputs, the symbolic dims as given. hard: a third of the floats are special values, and many are equal."""
    rng = np.random.default_rng(seed)
    given = {t.name for t in made.graph.initializer}
    feeds = {}
    for info in made.graph.input:
        if info.name in given:
            continue
        tensor = info.type.tensor_type
        shape = [d.dim_value if d.HasField("dim_value") else (dims or {})[d.dim_param] for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if tensor.elem_type == TensorProto.BOOL:
            feeds[info.name] = rng.random(shape) < 0.5
        elif np.issubdtype(dtype, np.integer):
            low = 0 if np.issubdtype(dtype, np.unsignedinteger) else -9
            feeds[info.name] = rng.integers(low, 10, shape).astype(dtype)
        else:
            feeds[info.name] = floats(rng, shape, hard, SPECIAL if dtype.itemsize > 2 else SPECIAL_16).astype(dtype)
    return feeds


def floats(rng, shape, hard: bool = False, special=SPECIAL) -> np.ndarray:
    values = rng.standard_normal(shape)
    if not hard:
        return values
    values = np.where(rng.random(shape) < 0.3, np.round(values), values)
    return np.where(rng.random(shape) < 0.3, rng.choice(special, shape), values)


def difference(got: np.ndarray, want: np.ndarray, own_scale: bool = False) -> str:
    """How got differs beyond its NaN and Inf pattern and its tolerance, or "".

    The tolerance is relative to the largest value, or (own_scale) to each value and a tenth: inputs are of order 1.
    Floats of 16 bits may always differ by one unit in the last place."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if got.dtype.kind in "biu":
        return first_of(got != want, got, want)
    tolerance, near = tolerance_of(got.dtype), are_neighbours(got, want)
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want)
    scale = np.abs(want) + 0.1 if own_scale else np.full(want.shape, np.max(np.abs(want[finite]), initial=1e-2))
    with np.errstate(invalid="ignore"):
        same = np.where(finite, np.abs(got - want) <= tolerance * scale, got == want)
    same |= near & finite & np.isfinite(got)
    return first_of(~(same | (np.isnan(got) & np.isnan(want))), got, want)


def first_of(wrong: np.ndarray, got: np.ndarray, want: np.ndarray) -> str:
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{wrong.sum()} of {wrong.size} wrong, first at {list(at)}: {got[at]}, not {want[at]}"


def are_neighbours(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Where two 16-bit floats are equal or have none between them."""
    if got.dtype.itemsize != 2:
        return np.zeros(got.shape, bool)
    bits = [np.ascontiguousarray(a).view(np.uint16).reshape(a.shape).astype(np.int32) for a in (got, want)]
    places = [np.where(b & 0x8000, -(b & 0x7FFF), b) for b in bits]
    return np.abs(places[0] - places[1]) <= 1


def tolerance_of(dtype) -> float:
    return 1e-3 if np.dtype(dtype).itemsize == 2 else 1e-5


def assert_same(got: dict, want: dict, what: str, own_scale: bool = False) -> None:
    assert got.keys() == want.keys()
    faults = {name: difference(got[name], want[name], own_scale) for name in want}
    assert not any(faults.values()), f"against {what}: {faults}"


def assert_equal_bits(got: dict, want: dict) -> None:
    assert got.keys() == want.keys()
    for name in want:
        assert got[name].dtype == want[name].dtype and got[name].shape == want[name].shape
        assert got[name].tobytes() == want[name].tobytes(), name


class Fused:
    """A build whose regions run as generated kernels, and the oracles of the same model."""

    def __init__(self, made: onnx.ModelProto, ort: bool = True, **options):
        self.made, self.with_ort, self.log = made, ort, []
        self.truth = WideTruth(made) if is_narrow(made) else None  # of models with 16-bit floats
        self.options = {"threads": 1, **options, "disable": [*options.get("disable", ()), "combos"]}
        self.engine = deepjit.build(made, force_tactic="llvm", log=self.log.append, **self.options)

    @property
    def regions(self) -> list[dict]:
        return [step for step in self.engine.steps if step["op"] == REGION]

    def dropped(self) -> list[str]:
        """Log lines of generated kernels that the tuner found wrong."""
        return [line for line in self.log if REGION + ": llvm" in line and " dropped: " in line]

    @cached_property
    def level_0(self):
        return deepjit.build(self.made, level=0, tune=False, threads=1)

    @cached_property
    def no_regions(self):
        disable = [*self.options.get("disable", ()), "regions"]
        return deepjit.build(self.made, **{**self.options, "tune": False, "disable": disable})

    @cached_property
    def session(self):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        made = self.made if self.truth is None else self.truth.model
        return onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def ort(self, feeds: dict) -> dict:
        names = [o.name for o in self.session.get_outputs()]
        given = feeds if self.truth is None else wide_feeds(feeds)
        results = dict(zip(names, self.session.run(names, given), strict=True))
        return results if self.truth is None else rounded(self.made, results)

    def assert_generated(self) -> None:
        dropped = "\n".join(self.dropped())
        assert not dropped, dropped
        assert self.regions, "no region"
        slow = [r["name"] for r in self.regions if not r["tactic"].startswith("llvm:")]
        assert slow == [], f"regions without a generated kernel: {slow}"

    def compare(self, feeds: dict, own_scale: bool = False, ort: bool = True) -> dict:
        got = self.engine.run(feeds)
        if self.truth is None:
            assert_same(got, self.level_0.run(feeds), "level 0", own_scale)
            assert_same(got, self.no_regions.run(feeds), "no regions", own_scale)
        else:  # steps one by one round each of their results
            assert_same(got, self.truth.run(feeds), "numpy in float32", own_scale)
        if self.with_ort and ort:
            assert_same(got, self.ort(feeds), "ONNX Runtime", own_scale)
        return got

    def launches(self, feeds: dict) -> int:
        return launches(self.engine, {name: array.shape for name, array in feeds.items()})


def launches(engine, shapes: dict, folder: Path | None = None) -> int:
    """Steps that one run launches. Engine tells its steps, not which of them stand inside others: the CLI counts."""
    import tempfile

    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        path = Path(scratch) / "m.dje"
        engine.save(path)
        command = [CLI, "bench", path, "--iterations", "1", "--json"]
        for name, shape in shapes.items():
            if shape == ():
                continue
            command += ["--shapes", f"{name}={'x'.join(map(str, shape))}"]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["launches"]


def check(made, dims=({},), ort: bool = True, kernels: bool = True, own_scale: bool = False, **options) -> Fused:
    """Right at all dims. kernels: every region is a generated kernel."""
    fused = Fused(made, ort=ort, **options)
    if kernels:
        fused.assert_generated()
    for seed, given in enumerate(dims):
        fused.compare(feeds_of(made, given, seed=seed), own_scale)
    return fused
