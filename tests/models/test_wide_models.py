"""Real models on one engine that is built without any hint about shapes, against ONNX Runtime, shape after shape.

The bound of a float model is 1e-4 of each output's scale. A model with 8-bit arithmetic jumps: a value at the edge of
two steps rounds either way, and all that follows moves. ONNX Runtime itself moves so from one optimization level to
another, and when the model's numbers change by a millionth. The right answer is the one without optimization, which
computes the graph as it is written, and the bound is one quantisation step, or what ONNX Runtime moves on these very
inputs where that is more. Steps are counted where they are defined: in the tensors that are quantized last before the
outputs. An output in float may move by 1/255 of its range, or by twice what ONNX Runtime's moves.
"""

import deepjit
import fetch_models
import models
import numpy as np
import onnx
import onnxruntime
import pytest
import wide_model_feeds
from wide_model_feeds import Wide

LEVELS = onnxruntime.GraphOptimizationLevel
STEP = 1 / 255


def session(path: str | bytes, level) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def others(wide: Wide, path: str) -> list[onnxruntime.InferenceSession]:
    """What else ONNX Runtime may answer."""
    if not wide.eight_bits:
        return []
    plain = [session(wide_model_feeds.nudged(path, seed), LEVELS.ORT_DISABLE_ALL) for seed in range(4)]
    return [session(path, LEVELS.ORT_ENABLE_ALL), *plain]


def allowed(wide: Wide, right: np.ndarray, moved: list[np.ndarray]) -> float:
    if not wide.eight_bits:
        return wide_model_feeds.BOUND * np.abs(right).max()
    return max(STEP * np.ptp(np.append(right, 0)), *(2 * np.abs(right - other).max() for other in moved))


def params(wides):
    marks = {True: [pytest.mark.large], False: []}
    return [pytest.param(w, id=w.model, marks=marks[models.MODELS[w.model].large]) for w in wides]


def path_of(wide: Wide) -> str:
    if models.MODELS[wide.model].large:
        fetch_models.main([wide.model])
    return str(models.path(wide.model))


@pytest.mark.parametrize("wide", params(wide_model_feeds.WIDE))
def test_one_engine_serves_every_shape(wide):
    path = path_of(wide)
    engine = deepjit.build(path, threads=1)
    plain, rest = session(path, LEVELS.ORT_DISABLE_ALL), others(wide, path)
    names = [o.name for o in plain.get_outputs()]
    rng = np.random.default_rng(11)
    inputs = [make(rng) for make in wide.makes]
    for feeds in [*inputs, inputs[0]]:
        got = engine.run(feeds)
        assert list(got) == names
        moved = [other.run(names, feeds) for other in rest]
        for i, (name, right) in enumerate(zip(names, plain.run(names, feeds), strict=True)):
            what = f"{name} for {[x.shape for x in feeds.values()]}"
            assert got[name].shape == right.shape and got[name].dtype == right.dtype, what
            assert np.isfinite(got[name]).all(), f"{what} has values that are not finite"
            assert np.abs(right).max() > 0, f"{what} is all zeros, the test says nothing"
            error, bound = np.abs(got[name] - right).max(), allowed(wide, right, [m[i] for m in moved])
            assert error <= bound, f"{what} is off by {error:.2e}, allowed are {bound:.2e}"


def quantized_last(graph: onnx.GraphProto) -> list[str]:
    """The quantized tensors that the outputs are computed from without another one between."""
    producers = {name: node for node in graph.node for name in node.output}
    found, seen, waiting = set(), set(), [o.name for o in graph.output]
    while waiting:
        node = producers.get(waiting.pop())
        if node is None or node.output[0] in seen:
            continue
        seen.add(node.output[0])
        if node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear"):
            found.add(node.output[0])
        elif node.op_type != "DynamicQuantizeLSTM":
            waiting.extend(node.input)
    return sorted(found)


@pytest.mark.parametrize("wide", params(w for w in wide_model_feeds.WIDE if w.eight_bits))
def test_what_is_quantized_last_moves_by_a_step(wide, tmp_path):
    """Or by as many as ONNX Runtime's."""
    model = onnx.load(path_of(wide))
    names = quantized_last(model.graph)
    assert names
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    onnx.save(model, tmp_path / "m.onnx")
    path = str(tmp_path / "m.onnx")
    engine, plain, rest = deepjit.build(path, threads=1), session(path, LEVELS.ORT_DISABLE_ALL), others(wide, path)
    rng = np.random.default_rng(11)
    for feeds in [make(rng) for make in wide.makes]:
        right = [a.astype(np.int32) for a in plain.run(names, feeds)]
        answers, got = [other.run(names, feeds) for other in rest], engine.run(feeds)
        for i, (name, values) in enumerate(zip(names, right, strict=True)):
            assert np.ptp(values) > 1 or values.size < 3, f"{name} says nothing"
            moved = max(np.abs(values - answer[i]).max() for answer in answers)
            steps = np.abs(values - got[name]).max()
            assert steps <= max(1, moved), f"{name} is off by {steps} steps, ONNX Runtime by {moved}"
