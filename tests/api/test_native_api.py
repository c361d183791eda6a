"""The C and C++ APIs by their examples, within the build and against an installation; and what the library exports."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import deepjit
import numpy as np
import pytest
from small_models import conv_relu, image, reference

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(deepjit.__file__).resolve().parents[2]

if not (BUILD / "libdeepjit.so").exists():
    pytest.skip("deepjit was not imported from a build folder", allow_module_level=True)


def run(*command, **options) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def files(tmp_path):
    (tmp_path / "m.onnx").write_bytes(conv_relu().SerializeToString())
    (tmp_path / "x.bin").write_bytes(image().tobytes())
    return tmp_path


def check_output(folder: Path, printed: str):
    assert "input x: N 3 8 8" in printed and "output y: 2 4 8 8" in printed
    got = np.frombuffer((folder / "y.bin").read_bytes(), np.float32).reshape(2, 4, 8, 8)
    np.testing.assert_allclose(got, reference(conv_relu(), {"x": image()})["y"], rtol=1e-5, atol=1e-5)


def test_c_example(files):
    data = "x", "2x3x8x8", files / "x.bin", files / "y.bin"
    check_output(files, run(BUILD / "examples" / "run_engine_c", files / "m.onnx", *data))


def test_cpp_example_and_its_engine_in_c(files):
    data = "x", "2x3x8x8", files / "x.bin", files / "y.bin"
    check_output(files, run(BUILD / "examples" / "run_engine_cpp", files / "m.onnx", files / "m.dje", *data))
    (files / "y.bin").unlink()
    check_output(files, run(BUILD / "examples" / "run_engine_c", files / "m.dje", *data))


def test_user_op_example_in_cpp():
    lines = run(BUILD / "examples" / "user_op_cpp").splitlines()
    assert lines[0].startswith("my.ops::Gate: ") and "cases agree" in lines[0]
    x = np.array([-2, -1, 0, 1, 2])
    np.testing.assert_allclose([float(line) for line in lines[1:]], x / (1 + np.exp(-1.5 * x)) + 0.5, rtol=1e-5)


def test_user_op_example_in_python():
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    lines = run(sys.executable, ROOT / "examples" / "python" / "user_op.py", env=environment).splitlines()
    assert lines[0].startswith("my.ops::RmsNorm: ") and "cases agree" in lines[0]
    assert lines[1] == "one kernel: Add_0, norm, Relu_2; ops of the user: my.ops::RmsNorm"
    assert float(lines[2].removeprefix("largest difference: ")) < 1e-5


@pytest.mark.parametrize("name", ["run_engine_c", "run_engine_cpp"])
def test_examples_report_errors(files, name):
    (files / "bad.onnx").write_bytes(b"no model")
    arguments = [files / "bad.onnx", *([files / "m.dje"] if name.endswith("cpp") else [])]
    arguments += ["x", "2x3x8x8", files / "x.bin", files / "y.bin"]
    done = subprocess.run([BUILD / "examples" / name, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "\nerror[E101 PARSE]: " in "\n" + done.stderr


def test_only_the_api_is_exported():
    names = run("nm", "-DC", "--defined-only", BUILD / "libdeepjit.so").splitlines()
    symbols = [line.split(maxsplit=2)[2] for line in names]
    assert "deepjit_build_file" in symbols and any(s.startswith("deepjit::v1::build(") for s in symbols)
    foreign = [s for s in symbols if not s.startswith("deepjit_") and "deepjit::v1::" not in s]
    assert foreign == []


def test_c_abi_refuses_misuse():
    library = ctypes.CDLL(str(BUILD / "libdeepjit.so"))
    library.deepjit_last_error.restype = ctypes.c_char_p
    library.deepjit_status_name.restype = ctypes.c_char_p
    engine = ctypes.c_void_p()
    assert library.deepjit_load_file(None, 0, ctypes.byref(engine)) == 804
    assert b"E804 ARGUMENT" in library.deepjit_last_error()
    assert library.deepjit_load_file(b"/no/such.dje", 0, ctypes.byref(engine)) == 304
    assert engine.value is None and b"such.dje" in library.deepjit_last_error()
    options = (ctypes.c_size_t * 64)(3)  # a size field that no version ever had
    assert library.deepjit_build_file(b"m.onnx", ctypes.byref(options), ctypes.byref(engine)) == 804
    assert library.deepjit_build_bytes(None, 5, None, ctypes.byref(engine)) == 804
    assert library.deepjit_build_bytes(b"", 0, None, None) == 804
    assert library.deepjit_context_run(None, None, 0) == 804
    library.deepjit_engine_free(None)
    library.deepjit_context_free(None)
    assert library.deepjit_status_name(203) == b"SHAPE_MISMATCH" and library.deepjit_status_name(0) == b"OK"


def test_c_abi_takes_options_of_an_older_version(files):
    """A caller compiled when the struct ended at `reserved`: all later fields take their defaults."""
    library = ctypes.CDLL(str(BUILD / "libdeepjit.so"))
    engine = ctypes.c_void_p()

    class Old(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_char_p), ("precision", ctypes.c_char_p)]
        _fields_ += [(name, ctypes.c_int32) for name in ("threads", "level", "tune", "reserved")]

    options = Old(ctypes.sizeof(Old), b"cpu", None, 1, 3, 0, 0)
    path = str(files / "m.onnx").encode()
    assert library.deepjit_build_file(path, ctypes.byref(options), ctypes.byref(engine)) == 0
    library.deepjit_engine_free(engine)
    options.device = b"abacus"
    assert library.deepjit_build_file(path, ctypes.byref(options), ctypes.byref(engine)) == 804


def test_c_abi_takes_several_ranges(files):
    """An input that comes again starts another range."""
    library = ctypes.CDLL(str(BUILD / "libdeepjit.so"))

    class Range(ctypes.Structure):
        _fields_ = [("input", ctypes.c_char_p), ("rank", ctypes.c_int32)]
        _fields_ += [(name, ctypes.POINTER(ctypes.c_int64)) for name in ("min", "opt", "max")]

    class Options(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_char_p), ("precision", ctypes.c_char_p)]
        _fields_ += [(name, ctypes.c_int32) for name in ("threads", "level", "tune", "reserved")]
        _fields_ += [("ranges", ctypes.POINTER(Range)), ("range_count", ctypes.c_size_t)]

    def shape(n):
        return (ctypes.c_int64 * 4)(n, 3, 8, 8)

    ranges = (Range * 2)(Range(b"x", 4, shape(1), shape(1), shape(1)), Range(b"x", 4, shape(2), shape(4), shape(8)))
    options = Options(ctypes.sizeof(Options), b"cpu", None, 1, 3, 0, 0, ranges, 2)
    engine = ctypes.c_void_p()
    path = str(files / "m.onnx").encode()
    assert library.deepjit_build_file(path, ctypes.byref(options), ctypes.byref(engine)) == 0
    assert library.deepjit_engine_save(engine, str(files / "m.dje").encode()) == 0
    library.deepjit_engine_free(engine)
    bounds = [[shape[0] for shape in own["x"]] for own in deepjit.load(str(files / "m.dje")).ranges]
    assert bounds == [[1, 1, 1], [2, 4, 8]]


def test_installation_serves_cmake_projects(files):
    """An installed deepjit: the tool runs, and a project of its own finds and uses the library."""
    prefix, build = files / "prefix", files / "build"
    run("cmake", "--install", BUILD, "--prefix", prefix, "--component", "native")
    assert os.access(prefix / "bin" / "deepjit", os.X_OK)
    run("cmake", "-S", ROOT / "examples", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", "-G", "Ninja")
    run("cmake", "--build", build)
    data = "x", "2x3x8x8", files / "x.bin", files / "y.bin"
    check_output(files, run(build / "run_engine_c", files / "m.onnx", *data))
    assert "cases agree" in run(build / "user_op_cpp")
