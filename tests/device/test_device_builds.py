"""Engines built for a GPU where there is none: what is compiled, recorded, refused, and run on the null device."""

import deepjit
import numpy as np
import pytest
from onnx import numpy_helper, parser

from program import run_program

CHAIN = (
    "g (float[N,64] x, float[64] b) => (float[N,64] y, float[N,1] m)"
    "{ a = Mul (x, b) c = Tanh (a) m = ReduceMean (c, last) y = Sub (c, m) }"
)
MIXED = (
    "g (float[N,64] x) => (float[N,16] y, int64[2,K] z)"
    "{ a = Tanh (x) p = MatMul (a, w) s = Softmax (p) y = CumSum (s, one) z = NonZero (x) }"
)
CONSTANTS = {"last": np.array([-1]), "one": np.array(1), "w": np.ones((64, 16), np.float32)}


def model(text: str, *constants: str):
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    for name in constants:
        made.graph.initializer.append(numpy_helper.from_array(CONSTANTS[name], name))
    return made


@pytest.fixture(scope="module")
def nvrtc():
    """Skips where the run-time compiler is not installed."""
    try:
        deepjit.build(model("g (float[N,4] x) => (float[N,4] y) { a = Tanh (x) y = Neg (a) }"), device="null")
    except deepjit.Error as error:
        if error.name != "LIBRARY_MISSING":
            raise
        pytest.skip(str(error))


def feeds(n: int) -> dict:
    rng = np.random.default_rng(n)
    return {"x": rng.standard_normal((n, 64), np.float32), "b": rng.standard_normal(64, np.float32)}


def test_says_what_it_compiled_and_that_it_measured_nothing(nvrtc):
    engine = deepjit.build(model(CHAIN, "last"), device="cuda", targets="sm_90,sm_75", tune=False)
    assert engine.metadata["build.device"] == "cuda"
    assert engine.metadata["build.targets"] == "sm_75, sm_90"
    assert "not run or compared" in engine.metadata["build.measured"]
    assert any("not run or compared" in warning for warning in engine.report["warnings"])
    kernels = [step for step in engine.steps if step["tactic"].startswith("nvrtc:")]
    assert kernels and all(step["time_us"] == 0 for step in kernels)


def test_runs_from_file_on_the_null_device(nvrtc, tmp_path):
    path = tmp_path / "m.dje"
    deepjit.build(model(CHAIN, "last"), device="null").save(path)
    engine = deepjit.load(path)
    for n in (1, 5, 300, 5):
        outputs = engine.run(feeds(n))
        assert outputs["y"].shape == (n, 64) and outputs["m"].shape == (n, 1)
    assert engine.create_context().run(feeds(2))["y"].shape == (2, 64)


def test_equal_builds_give_equal_bytes(nvrtc):
    first, second = (deepjit.build(model(CHAIN, "last"), device="null", targets="90").serialize() for _ in range(2))
    assert first == second


def test_every_step_without_a_kernel_is_named_with_the_reason(nvrtc):
    with pytest.raises(deepjit.Error) as caught:
        deepjit.build(model(MIXED, "w", "one"), device="null", device_only=True)
    assert caught.value.name == "NO_DEVICE_KERNEL" and caught.value.code == 705
    message = str(caught.value)
    for word in ("CumSum", "NonZero", "known only while running", "--device-only"):
        assert word in message, message
    assert "Tanh:" not in message and "Softmax:" not in message


def test_steps_without_a_kernel_run_on_the_cpu_and_are_named(nvrtc, tmp_path):
    lines = []
    engine = deepjit.build(model(MIXED, "w", "one"), device="null", log=lines.append)
    told = [warning for warning in engine.report["warnings"] if warning.startswith("on the CPU run ")]
    assert len(told) == 1 and "CumSum (1)" in told[0] and "NonZero (1)" in told[0]
    assert engine.metadata["build.host_steps"] in told[0]
    assert any("NonZero: runs on the CPU: its shapes" in line for line in lines)
    x = feeds(3)["x"]
    x[1] = 0
    for _ in range(3):
        got = engine.run({"x": x})
        assert got["y"].shape == (3, 16) and (got["z"] == np.array(np.nonzero(x))).all()
    (tmp_path / "m.onnx").write_bytes(model(MIXED, "w", "one").SerializeToString())
    done = run_program(tmp_path, "build", "m.onnx", "-o", "m.dje", "--device", "null")
    assert done.code == 0 and "on the CPU run" in done.err
    assert "build.host_steps" in run_program(tmp_path, "inspect", "m.dje").out
    assert "device-limit" in run_program(tmp_path, "inspect", "m.dje", "--why").out
    bench = run_program(tmp_path, "bench", "m.dje", "--iterations", "5")
    assert bench.code == 0 and "on the CPU  " in bench.out and "the launches alone" not in bench.out
    refused = run_program(tmp_path, "build", "m.onnx", "-o", "m.dje", "--device", "null", "--device-only")
    assert refused.code == 2 and "E705 NO_DEVICE_KERNEL" in refused.err


@pytest.mark.parametrize("op", ["Relu", "Softmax", "Cast <to = 1>"])
def test_lone_ops_have_kernels(nvrtc, op):
    engine = deepjit.build(model(f"g (float[N,64] x) => (float[N,64] y) {{ y = {op} (x) }}"), device="null")
    assert engine.run({"x": feeds(3)["x"]})["y"].size == 3 * 64


def test_an_input_that_is_an_output_comes_back(nvrtc):
    engine = deepjit.build(
        model("g (float[N,64] x) => (float[N,64] y, float[N,64] z) { y = Relu (x) z = Flatten (x) }"), device="null"
    )
    x = feeds(7)["x"]
    for _ in range(3):
        assert (engine.run({"x": x})["z"] == x).all()


def test_level_0_has_kernels_too(nvrtc):
    engine = deepjit.build(model(CHAIN, "last"), device="null", level=0)
    assert engine.run(feeds(3))["y"].shape == (3, 64)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"device": "gpu"}, "ARGUMENT"),
        ({"device": "cuda:x"}, "ARGUMENT"),
        ({"device": "cuda", "targets": "sm_9"}, "ARGUMENT"),
        ({"device": "cuda", "targets": "hopper"}, "ARGUMENT"),
        ({"device": "cpu", "targets": "sm_90"}, "ARGUMENT"),
        ({"device": "cpu", "device_only": True}, "ARGUMENT"),
    ],
)
def test_bad_options(options, name):
    with pytest.raises(deepjit.Error) as caught:
        deepjit.build(model(CHAIN, "last"), **options)
    assert caught.value.name == name


def test_an_engine_runs_on_its_own_kind_only(nvrtc, tmp_path):
    path = tmp_path / "m.dje"
    deepjit.build(model(CHAIN, "last"), device="null").save(path)
    with pytest.raises(deepjit.Error) as caught:
        deepjit.load(path, device="cpu")
    assert caught.value.name == "ENGINE_INCOMPATIBLE"
    with pytest.raises(deepjit.Error) as caught:  # code for sm_90
        deepjit.load(path, device="null:80").run(feeds(1))
    assert caught.value.name == "ENGINE_INCOMPATIBLE" and "sm_90" in str(caught.value) and "sm_80" in str(caught.value)


def test_devices_tells_what_is_here(tmp_path):
    done = run_program(tmp_path, "devices", "--measure", "--json")
    assert done.code == 0, done.err
    devices = done.json["devices"]
    assert devices[0]["name"] == "cpu" and devices[0]["found"] and devices[0]["copy_gb_s"] > 0
    assert done.json["nvrtc"] is None or done.json["nvrtc"]["file"]
    for device in devices[1:]:
        assert device["name"].startswith("cuda") and (device["found"] or device["reason"])
    assert run_program(tmp_path, "devices").out.startswith("cpu ")


def test_command_line(nvrtc, tmp_path):
    def ok(*arguments):
        done = run_program(tmp_path, *arguments)
        assert done.code == 0, done.err
        return done

    (tmp_path / "m.onnx").write_bytes(model(CHAIN, "last").SerializeToString())
    built = ok("build", "m.onnx", "-o", "m.dje", "--device", "null", "--target", "sm_90", "--json")
    assert built.json["device"] == "null" and "not run or compared" in built.err
    assert "build.targets = sm_90" in ok("inspect", "m.dje").out
    bench = ok("bench", "m.dje", "--iterations", "5", "--json").json
    assert bench["device"] == "null" and 0 < bench["device_us"]["p50"] <= bench["host_us"]["p50"]
    refused = run_program(tmp_path, "run", "m.dje", "-i", "x=random:1", "-i", "b=random:2", "--device", "cuda")
    assert refused.code == 2 and "E404 ENGINE_INCOMPATIBLE" in refused.err
