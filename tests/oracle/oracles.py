"""The oracles in their order of trust, and what each says about one model."""

import contextlib
import io
import signal
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

ORDER = ["formula", "reference", "onnx.reference", "ort-off", "ort-on"]
LIMIT_S = 20.0


class TooLong(Exception):
    pass


@contextlib.contextmanager
def time_limit(seconds: float):
    """Ends Python code that runs on; onnx.reference takes minutes for some graphs."""

    def stop(signum, frame):
        raise TooLong(f"no answer after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def runtime(model: onnx.ModelProto, feeds: dict, optimise: bool) -> list:
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    answers = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)
    types = [onnx.helper.tensor_dtype_to_np_dtype(o.type.tensor_type.elem_type) for o in model.graph.output]
    return [as_type(a, t) for a, t in zip(answers, types, strict=True)]


def as_type(array, dtype):
    """ONNX Runtime hands out float8 and bfloat16 as the integers of their bits."""
    bits = {1: np.uint8, 2: np.uint16}.get(np.dtype(dtype).itemsize)
    foreign = np.dtype(dtype).kind == "V"
    return array.view(dtype) if foreign and isinstance(array, np.ndarray) and array.dtype == bits else array


def own(model, feeds: dict, names: list, **options) -> list:
    import deepjit

    got = deepjit.build(model, threads=1, **options).run(feeds)
    return [got[n] for n in names]


def ask(oracle: str, model: onnx.ModelProto, feeds: dict) -> tuple[dict | None, str]:
    """(answers by output name, "") or (None, why it refuses)."""
    names = [o.name for o in model.graph.output]
    ways = {
        "reference": lambda: own(model, feeds, names, level=0, tune=False),
        "onnx.reference": lambda: ReferenceEvaluator(model).run(None, feeds),
        "ort-off": lambda: runtime(model, feeds, False),
        "ort-on": lambda: runtime(model, feeds, True),
        "deepjit": lambda: own(model, feeds, names, level=3, budget=0.3),
    }
    try:
        with time_limit(LIMIT_S), np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.redirect_stderr(io.StringIO()):
                return dict(zip(names, ways[oracle](), strict=True)), ""
    except Exception as error:  # each oracle raises its own dozen types
        return None, f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
