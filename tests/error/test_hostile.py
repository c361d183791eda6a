"""Models and files made to hurt: the right error, within a second, in bounded memory, and never a crash."""

import os
import stat
import subprocess
import sys

import deepjit
import numpy as np
import pytest
from bad_models import good, model, node, value
from expect import MIB, expect, expect_bounded, peak_growth
from hostile_models import HOSTILE, function, with_functions
from onnx import TensorProto, helper, numpy_helper


@pytest.mark.parametrize("case", HOSTILE, ids=[c.name for c in HOSTILE])
def test_hostile_model(case):
    data = case.make()
    expect_bounded(case.code, lambda: deepjit.build(data), *case.words)


# Sizes that wrap or explode in the operators' own arithmetic. The shapes are constants, so the build sees them.
HUGE = 1 << 62
WRAPPED = {
    "ConstantOfShape": (207, {"s": [HUGE, 4]}, {}),
    "ConstantOfShape_negative": (203, {"s": [-1]}, {}),
    "Expand": (207, {"x": np.float32([1]), "s": [1 << 40, 1 << 40]}, {}),
    "Tile": (207, {"x": np.float32([1, 2]), "r": [HUGE]}, {}),
    "Reshape": (207, {"x": np.float32([1, 2]), "s": [1 << 32, 1 << 32]}, {}),
    "Pad": (207, {"x": np.float32([1, 2]), "p": [HUGE, HUGE]}, {}),
    "OneHot": (207, {"i": np.zeros((4, 4), np.int64), "d": np.int64(HUGE), "v": np.float32([0, 1])}, {}),
    "Range": (207, {"a": np.int64(-HUGE), "b": np.int64(HUGE), "d": np.int64(1)}, {}),
    "DepthToSpace": (203, {"x": np.zeros((1, 4, 1, 1), np.float32)}, {"blocksize": 1 << 31}),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_sizes_that_wrap(name):
    code, constants, attributes = WRAPPED[name]
    made = [numpy_helper.from_array(np.asarray(array), k) for k, array in constants.items()]
    nodes = [node(name.split("_")[0], list(constants), ["y"], **attributes)]
    data = model(nodes, [], [helper.make_empty_tensor_value_info("y")], made).SerializeToString()
    expect_bounded(code, lambda: deepjit.build(data).run({}))


# Work and memory that a small model asks for, without an error of its own


def test_folding_leaves_large_results_to_run_time():
    """An expansion to 1 GiB that is summed up again must not happen at build."""
    made = [
        numpy_helper.from_array(np.float32([1]), "one"),
        numpy_helper.from_array(np.int64([1 << 14, 1 << 14]), "s"),
    ]
    nodes = [node("Expand", ["one", "s"], ["big"], "expand"), node("Gather", ["big", "i"], ["y"], "pick")]
    data = model(nodes, [value("i", [1], TensorProto.INT64)], [value("y", None)], made).SerializeToString()
    assert peak_growth(lambda: deepjit.build(data, tune=False)) < 100 * MIB


def test_long_names_of_nested_functions_stay_small():
    """60,000 bytes of name a level and 2^10 calls would make gigabytes of names."""
    functions = [function(f"f{k}", [f"f{k + 1}"] * 2) for k in range(10)] + [function("f10", ["Relu"])]
    for f in functions:
        for n in f.node:
            n.name = "n" * 60_000
    data = with_functions(functions)
    assert peak_growth(lambda: deepjit.build(data, tune=False)) < 200 * MIB


# Files


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "w.bin").write_bytes(np.arange(12, dtype=np.float32).tobytes())
    return tmp_path / "model"


def external(folder, location: str, dims=(3, 4)) -> str:
    made = good()
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.dims[:] = dims
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    (folder / "m.onnx").write_bytes(made.SerializeToString())
    return str(folder / "m.onnx")


def make_device(path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # zeros without end
        os.close(os.open(path, os.O_RDONLY))
    except OSError as error:
        pytest.skip(f"devices cannot be made or opened here: {error}")


def test_external_data_on_a_device(folder):
    make_device(folder / "zero")
    path = external(folder, "zero")
    expect_bounded(303, lambda: deepjit.build(path), "zero")


def test_external_data_behind_a_link_to_a_device(folder):
    (folder / "zero").symlink_to("/dev/zero")
    path = external(folder, "zero")
    expect_bounded(303, lambda: deepjit.build(path), "zero")


def test_external_data_in_a_file_of_holes(folder):
    """It claims more than the machine has, and takes no place on the disk."""
    size = 1 << 36
    with open(folder / "holes", "wb") as file:
        file.truncate(3 * size)
    path = external(folder, "holes", (3, size // 4))
    error = pytest.raises(deepjit.Error, deepjit.build, path).value
    assert error.code in (103, 601), str(error)


@pytest.mark.parametrize("load", [deepjit.build, deepjit.load], ids=["model", "engine"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "link_to_nothing"])
def test_a_model_or_engine_that_is_no_file(load, kind, tmp_path):
    path = tmp_path / ("m.onnx" if load is deepjit.build else "m.dje")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "nothing")
    expect_bounded(304, lambda: load(str(path)), path.name)


def large() -> "deepjit.Engine":
    """An engine with 4 MiB of weights."""
    weights = np.random.default_rng(2).standard_normal((1024, 1024)).astype(np.float32)
    made = model(
        [node("MatMul", ["x", "w"], ["y"])],
        [value("x", [1, 1024])],
        [value("y", None)],
        [numpy_helper.from_array(weights, "w")],
    )
    return deepjit.build(made.SerializeToString(), tune=False)


def engine_file_changed(path, engine, x, change):
    """Pages of the file may be gone: the next run is refused, and the process lives on."""
    want = large().run({"x": x})["y"]
    np.testing.assert_array_equal(engine.run({"x": x})["y"], want)
    change()
    expect(406, lambda: engine.run({"x": x}))
    np.testing.assert_array_equal(large().run({"x": x})["y"], want)


def test_an_engine_file_that_is_cut_after_loading(tmp_path):
    path = tmp_path / "m.dje"
    large().save(str(path))
    engine = deepjit.load(str(path))
    x = np.ones((1, 1024), np.float32)
    engine_file_changed(path, engine, x, lambda: os.truncate(path, 0))


def test_an_engine_file_that_is_written_over_in_place(tmp_path):
    path = tmp_path / "m.dje"
    large().save(str(path))
    engine = deepjit.load(str(path))
    data = path.read_bytes()
    engine_file_changed(path, engine, np.ones((1, 1024), np.float32), lambda: path.write_bytes(data[::-1]))


def test_an_engine_file_that_is_replaced_or_removed_stays_loaded(tmp_path):
    path = tmp_path / "m.dje"
    large().save(str(path))
    engine = deepjit.load(str(path))
    x = np.ones((1, 1024), np.float32)
    want = engine.run({"x": x})["y"]
    large().save(str(path))  # by rename
    np.testing.assert_array_equal(engine.run({"x": x})["y"], want)
    path.unlink()
    np.testing.assert_array_equal(engine.run({"x": x})["y"], want)


def test_weights_are_mapped_from_the_engine_file(tmp_path):
    path = tmp_path / "m.dje"
    large().save(str(path))
    engine = deepjit.load(str(path))
    engine.run({"x": np.ones((1, 1024), np.float32)})
    with open("/proc/self/maps") as maps:
        assert any(str(path) in line for line in maps)


CUT_WHILE_LOADING = """
import os, sys, threading
import deepjit
path, victim, kind = sys.argv[1:4]
whole = open(victim, "rb").read()
stop = threading.Event()
def cut():
    while not stop.is_set():
        with open(victim, "r+b") as file:
            file.truncate(len(whole) // 3)
            file.seek(0)
            file.write(whole)
worker = threading.Thread(target=cut)
worker.start()
refused = 0
for _ in range(60):
    try:
        deepjit.build(path, tune=False) if kind == "model" else deepjit.load(path)
    except deepjit.Error as error:
        refused += 1
        assert error.code != 900, str(error)
stop.set()
worker.join()
"""


@pytest.mark.parametrize("kind", ["model", "external", "engine"])
def test_a_file_that_is_cut_while_it_is_loaded(kind, folder):
    """It may be taken or refused; a mapping would end the process with SIGBUS."""
    if kind == "engine":
        path = victim = folder / "m.dje"
        large().save(str(path))
    elif kind == "external":
        victim = folder / "w.bin"
        victim.write_bytes(np.ones((3, 1 << 18), np.float32).tobytes())
        path = external(folder, "w.bin", (3, 1 << 18))
    else:
        path = victim = folder / "m.onnx"
        made = good()
        made.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((3, 1 << 18), np.float32), "w"))
        made.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 1 << 18
        path.write_bytes(made.SerializeToString())
    command = [sys.executable, "-c", CUT_WHILE_LOADING, str(path), str(victim), "model" if kind != "engine" else kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stderr}"


def test_hostile_models_leave_the_library_working():
    for case in HOSTILE[:3]:
        data = case.make()
        expect(case.code, lambda data=data: deepjit.build(data))
    x = np.ones((2, 3), np.float32)
    assert deepjit.build(good().SerializeToString()).run({"x": x})["y"].shape == (2, 4)
