"""ONNX Runtime on the same ONNX file, in float16 on the GPU: where its package has the CUDA provider.

Its own converter (onnxruntime.transformers.float16) makes the file float16, with inputs and outputs as they were.
"""

import statistics
import time
from pathlib import Path

import numpy as np

NUMPY = {"tensor(float16)": np.float16, "tensor(float)": np.float32, "tensor(int64)": np.int64}


def why_not() -> str:
    """Why there is no such peer here; "" when there is one."""
    try:
        import onnxruntime
    except ImportError as fault:
        return f"onnxruntime: {fault}"
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return f"onnxruntime {onnxruntime.__version__} has only {', '.join(onnxruntime.get_available_providers())}"
    return ""


def half_model(model: Path, keep: tuple[str, ...] = ()) -> Path:
    """The model in float16, beside it; nodes whose names begin as one of `keep` stay in float32."""
    half = model.with_name(f"{model.stem}_fp16.onnx")
    if not half.exists():
        import onnx
        from onnxruntime.transformers import float16

        made = onnx.load(model)
        wide = [node.name for node in made.graph.node if node.name.startswith(keep)] if keep else None
        onnx.save(float16.convert_float_to_float16(made, keep_io_types=True, node_block_list=wide), half)
    return half


def session(model: Path, stream: int | None = None, graph: bool = False, device: str = "cuda"):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if device != "cuda":
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    how = {"cudnn_conv_algo_search": "EXHAUSTIVE", "prefer_nhwc": "1", "use_tf32": "1"}
    if stream is not None:
        how["user_compute_stream"] = str(stream)
    if graph:
        how["enable_cuda_graph"] = "1"
    providers = [("CUDAExecutionProvider", how), "CPUExecutionProvider"]
    made = onnxruntime.InferenceSession(str(model), options, providers=providers)
    if made.get_providers()[0] != "CUDAExecutionProvider":
        raise RuntimeError("the CUDA provider could not be loaded")
    return made


class OrtPeer:
    """A net with inputs and outputs bound on the GPU, as a graph where ONNX Runtime can: on a stream of ours, timed by
    CUDA's events; else on its own, timed by the clock; else without a graph, by events again."""

    def __init__(self, model: Path, feeds: dict):
        import torch

        start = time.time()
        self.stream, self.refusals = torch.cuda.Stream(), []
        for self.graph, self.timed_by in ((True, "events"), (True, "clock"), (False, "events")):
            try:
                self._bind(model, feeds)
                break
            except Exception as fault:  # such as: some nodes run on the CPU, so no graph
                self.refusals.append(repr(fault)[:200])
                if not self.graph:
                    raise
        self.ready_s = time.time() - start

    def _bind(self, model: Path, feeds: dict) -> None:
        import onnxruntime

        stream = self.stream.cuda_stream if self.timed_by == "events" else None
        self.session = session(half_model(model), stream, self.graph)
        self.binding, self.kept = self.session.io_binding(), []
        for name, array in feeds.items():
            value = onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", 0)
            self.kept.append(value)
            self.binding.bind_ortvalue_input(name, value)
        for output in self.session.get_outputs():
            self.binding.bind_output(output.name, "cuda")
        self.session.run_with_iobinding(self.binding)
        if self.graph:  # a graph wants outputs that stay where they are
            for output, value in zip(self.session.get_outputs(), self.binding.get_outputs(), strict=True):
                kind = NUMPY[output.type]
                fixed = onnxruntime.OrtValue.ortvalue_from_shape_and_type(value.shape(), kind, "cuda", 0)
                self.kept.append(fixed)
                self.binding.bind_ortvalue_output(output.name, fixed)
        for _ in range(5):
            self.session.run_with_iobinding(self.binding)

    def time(self, count: int = 100, flush=None) -> float:
        """P50 of a run in microseconds; `flush` is called before each."""
        import torch

        for _ in range(10):
            self.session.run_with_iobinding(self.binding)
        times = []
        for _ in range(count):
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            with torch.cuda.stream(self.stream):
                if flush:
                    flush()
                if self.timed_by == "clock":
                    self.stream.synchronize()
                begin = time.perf_counter()
                marks[0].record()
                self.session.run_with_iobinding(self.binding)
                marks[1].record()
            clock_us = (time.perf_counter() - begin) * 1e6
            self.stream.synchronize()
            times.append(clock_us if self.timed_by == "clock" else marks[0].elapsed_time(marks[1]) * 1e3)
        return statistics.median(times)
