"""`precision=` and `calib=`, as users call them. Numbers are those of the stand-in GPU (on_stand_in_gpu.py)."""

from pathlib import Path

import deepjit
import numpy as np
import pytest
import stand_in_gpu
from onnx import numpy_helper, parser

from program import run_program

HERE = Path(__file__).parent
NORM = (
    "g (float[N,64] x) => (float[N,64] y)"
    "{ a = Mul (x, w) n = LayerNormalization <axis = -1> (a, w) e = Exp (n) y = Tanh (e) }"
)
MLP = "g (float[N,64] x) => (float[N,64] y) { a = MatMul (x, m) b = Relu (a) y = MatMul (b, m) }"
CONSTANTS = {
    "w": np.linspace(0.5, 1.5, 64, dtype=np.float32),
    "m": np.full((64, 64), 0.125, np.float32),
}


def model(text: str):
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    for number, node in enumerate(made.graph.node):
        node.name = f"{node.op_type}_{number}"
    for name, value in CONSTANTS.items():
        if any(name in node.input for node in made.graph.node):
            made.graph.initializer.append(numpy_helper.from_array(value, name))
    return made


def failed(code: str, *words: str, **options):
    with pytest.raises(deepjit.Error) as caught:
        deepjit.build(model(NORM), **options)
    assert caught.value.name == code
    for word in words:
        assert word in str(caught.value)


@pytest.fixture(scope="module")
def nvrtc():
    """Skips where the run-time compiler is not installed."""
    try:
        deepjit.build(model("g (float[N,4] x) => (float[N,4] y) { a = Tanh (x) y = Neg (a) }"), device="null")
    except deepjit.Error as error:
        if error.name != "LIBRARY_MISSING":
            raise
        pytest.skip(str(error))


def test_the_cpu_computes_in_fp32():
    for precision in ("tf32", "fp16", "bf16"):
        failed("ARGUMENT", precision, "CPU", "fp32", precision=precision)
    failed("ARGUMENT", "fp12", "fp32, tf32, fp16, bf16", precision="fp12", device="null")


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_inputs_and_outputs_keep_their_types(nvrtc, precision):
    engine = deepjit.build(model(NORM), device="null", precision=precision)
    assert engine.metadata["build.precision"] == precision
    assert [str(info.dtype) for info in (*engine.inputs, *engine.outputs)] == ["float32", "float32"]
    told = {reason for step in engine.steps for reason in step["precision"]}
    assert told == {
        f"{precision}: pointwise",
        f"{precision}: norm, float32 inside",
        "fp32: its results may leave 16 bits' range",
        "fp32: carries on float32 values",
    }


def test_fp32_and_tf32(nvrtc):
    plain = deepjit.build(model(NORM), device="null")
    assert all(step["precision"] == [] for step in plain.steps)
    tf32 = deepjit.build(model(NORM), device="null", precision="tf32")
    assert tf32.metadata["build.precision"] == "tf32"
    assert [step["op"] for step in tf32.steps] == [step["op"] for step in plain.steps]


def test_samples_decide(nvrtc):
    rng = np.random.default_rng(0)
    x = {"x": rng.standard_normal((3, 64)).astype(np.float32)}
    large = {"x": 60000 * x["x"]}

    def reasons(calib):
        engine = deepjit.build(model(NORM), device="null", precision="fp16", calib=calib)
        return {reason for step in engine.steps for reason in step["precision"]}

    assert not any("seen" in reason for reason in reasons(x))
    seen = [reason for reason in reasons([x, large]) if "seen values up to" in reason]
    assert len(seen) == 1 and float(seen[0].split()[-1]) > 65504


def test_samples_from_a_file(nvrtc, tmp_path):
    model_file = tmp_path / "m.onnx"
    model_file.write_bytes(model(NORM).SerializeToString())
    np.savez(tmp_path / "one.npz", x=np.full((2, 64), 1e6, np.float32))
    np.savez_compressed(tmp_path / "packed.npz", x=np.full((2, 64), 1e6, np.float32))
    (tmp_path / "none.npz").write_bytes(b"PK")
    engine = deepjit.build(str(model_file), device="null", precision="fp16", calib=tmp_path / "one.npz")
    assert any("seen values up to 1.5e+06" in r for step in engine.steps for r in step["precision"])
    build = ("build", "m.onnx", "--device", "null", "--precision", "fp16", "-o", "m.dje", "--calib")
    assert run_program(tmp_path, *build, "one.npz").code == 0
    text = run_program(tmp_path, "inspect", "m.dje").out
    assert "fp32: seen values up to 1.5e+06" in text and "build.precision = fp16" in text
    steps = run_program(tmp_path, "inspect", "m.dje", "--json").json["steps"]
    assert any("fp32: seen values up to 1.5e+06" in step["precision"] for step in steps)
    for name, word in (("packed.npz", "compressed"), ("none.npz", "no .npz file"), ("gone.npz", "gone.npz")):
        done = run_program(tmp_path, *build, name)
        assert done.code not in (0, 1) and word in done.err


def test_bad_samples():
    ones = np.ones((2, 64), np.float32)
    fp16 = {"device": "null", "precision": "fp16"}
    failed("INPUT_NAME", "sample 0", '"z"', "x", calib={"x": ones, "z": ones}, **fp16)
    failed("INPUT_SHAPE", "sample 1", calib=[{"x": ones}, {"x": ones[:, :3]}], **fp16)
    failed("INPUT_DTYPE", "sample 0", calib={"x": ones.astype(np.int64)}, **fp16)
    failed("INPUT_NAME", "sample 0", "x", calib={}, **fp16)
    failed("ARGUMENT", "calib", calib=3, **fp16)
    failed("ARGUMENT", "fp32", calib={"x": ones}, device="null")


def test_only_the_edges_of_a_network_are_cast(tmp_path):
    text = (
        "g (float[N,3,H,W] x) => (float[N,8] y) {"
        "c = Conv <pads = [1, 1, 1, 1]> (x, k) r = Relu (c) p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)"
        "g = GlobalAveragePool (p) s = Conv (g, q) h = HardSigmoid (s) m = Mul (p, h) d = Conv (m, q) a = Add (d, p)"
        "v = GlobalAveragePool (a) y = Flatten (v) }"
    )
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    for name, shape in (("k", (8, 3, 3, 3)), ("q", (8, 8, 1, 1))):
        weights = np.random.default_rng(len(name)).standard_normal(shape).astype(np.float32) / 8
        made.graph.initializer.append(numpy_helper.from_array(weights, name))
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    done = run_program(
        tmp_path, "build", "m.onnx", "--device", "cuda", "--target", "sm_90", "--no-tune", "--precision", "fp16",
        "--stop-after", "lower", environment={"DEEPJIT_DUMP": "graph", "DEEPJIT_DUMP_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.code == 0, done.err
    graph = (tmp_path / "graph.txt").read_text()
    assert graph.count(" = Cast(") == 2 and graph.count(" = Transpose(") == 1, graph
    assert graph.count(" = deepjit.Conv(") == 3 and graph.count('layout="NHWC"') == 4, graph


def test_numbers_on_the_stand_in_gpu():
    done = stand_in_gpu.run_tests(HERE / "on_stand_in_gpu.py")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout, done.stdout[-2000:]
