"""What 16-bit floats in kernels mean beyond single models: one kernel on a GPU too, random graphs, the command line."""

import json
import subprocess

import deepjit
import numpy as np
import onnx
import pytest
from cases_sixteen import SIXTEEN_BITS, TO, the_chain
from fused import CLI, REGION, Fused, are_neighbours, feeds_of, model
from fusion_case import Case
from random_regions import RandomGraph
from test_generated_ops import BINARY, UNARY
from wide_truth import NARROW

DTYPES = {"float16": np.dtype(np.float16), "bfloat16": NARROW[TO["bfloat16"]]}


@pytest.mark.parametrize("case", SIXTEEN_BITS, ids=str)
def test_is_one_kernel_of_a_gpu(case: Case):
    """Compiled, as no GPU is here; test_cuda_text.py runs them on an emulation."""
    try:
        engine = deepjit.build(case.model(), device="null", disable=["combos"])
    except deepjit.Error as error:
        if error.name != "LIBRARY_MISSING":
            raise
        pytest.skip(str(error))
    (region,) = (step for step in engine.steps if step["op"] == REGION)
    assert region["tactic"].startswith("nvrtc:")
    assert len(engine.steps) == 1 + len(region["origins"])  # the kernel, and the steps that it stands for


ROWS = ["Softmax", "LogSoftmax", "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2"]
ALONE = [f"y = {op} (x)" for op in UNARY] + [f"y = {op} (x, b)" for op in BINARY]
BESIDE = [f"a = Sub (x, b) c = {op} (a) y = Max (c, k)" for op in UNARY]
BESIDE += [f"a = Tanh (x) c = {op} (a, b) y = Max (c, k)" for op in BINARY]
BESIDE += [f"a = Tanh (x) c = {op} (a{', last' if 'R' in op else ''}) y = Max (c, k)" for op in ROWS]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("body", ALONE + BESIDE)
def test_ops(body, dtype):
    """No kernel is dropped, and each gives what numpy gives in float32."""
    given = {"k": np.asarray(-0.75).astype(DTYPES[dtype])} if "k)" in body else {}
    given |= {"last": np.array([-1])} if "last" in body else {}
    width = "1" if "last" in body else "W"
    fused = Fused(model(f"g ({dtype}[N,W] x, {dtype}[N,W] b) => ({dtype}[N,{width}] y) {{ {body} }}", given), ort=False)
    fused.assert_generated()
    # onnx's own formulas lose NaN in the one, and are infinite for exp(x) in the other.
    special = "ThresholdedRelu" not in body and "Softplus" not in body
    for hard in (False, True) if special else (False,):
        fused.compare(feeds_of(fused.made, {"N": 5, "W": 67}, hard), own_scale=hard)


def narrow(made: onnx.ModelProto, dtype: str) -> onnx.ModelProto:
    """The float32 model in a 16-bit type: its inputs, outputs, constants, and Casts to float32."""
    for value in [*made.graph.input, *made.graph.output]:
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TO[dtype]
    for tensor in made.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            array = onnx.numpy_helper.to_array(tensor).astype(DTYPES[dtype])
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    for node in made.graph.node:
        for attribute in node.attribute:
            if attribute.name == "to" and attribute.i == onnx.TensorProto.FLOAT:
                attribute.i = TO[dtype]
    return made


def largest(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)), initial=0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed, dtype):
    """Kernels round at fewer places than the steps: they are as near to what float32 gives, but for a last place."""
    graph = RandomGraph(seed)
    fused = Fused(narrow(graph.model(), dtype), ort=False, ranges=graph.ranges())
    for k, dims in enumerate(graph.dims(3)):
        feeds = feeds_of(fused.made, dims, seed=k)
        got, steps, want = fused.engine.run(feeds), fused.level_0.run(feeds), fused.truth.run(feeds)
        for name, truth in want.items():
            assert got[name].dtype == truth.dtype and got[name].shape == truth.shape
            near = are_neighbours(got[name], truth).all()
            assert near or largest(got[name], truth) <= 1.5 * largest(steps[name], truth), name
    assert fused.dropped() == []


def test_on_the_command_line(tmp_path):
    """compare takes the roundings of the steps for what they are; inspect tells what the error of a kernel is."""
    onnx.save(the_chain("bfloat16", depth=3).model(), tmp_path / "m.onnx")
    command = [CLI, "compare", tmp_path / "m.onnx", "--shapes", "x=2x40x256", "--json"]
    for words, equal in (([], True), (["--tolerance", "1e-6"], False)):
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=120)
        (output,) = json.loads(done.stdout)["outputs"]
        assert (done.returncode, output["equal"]) == (0 if equal else 1, equal), done.stderr
    command = [CLI, "inspect", tmp_path / "m.onnx", "--steps", "--range", "x=2x40x256"]
    text = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    assert "of 16-bit floats, one unit in the last place is allowed" in text
