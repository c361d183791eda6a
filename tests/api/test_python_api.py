"""The Python API: what goes in, what comes out, and what it says about an engine."""

import gc
import threading
import time
import weakref

import deepjit
import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import conv_relu, image, model, one_op, reference, value

RANGES = {"x": ((1, 3, 8, 8), (2, 3, 8, 8), (4, 3, 8, 8))}


@pytest.fixture(scope="module")
def engine():
    return deepjit.build(conv_relu().SerializeToString(), ranges=RANGES)


def identity(dtype: int, shape=("N",)):
    return deepjit.build(one_op("Identity", dtype, list(shape)).SerializeToString())


def test_result_is_what_onnx_runtime_gives(engine):
    got = engine.run({"x": image()})
    want = reference(conv_relu(), {"x": image()})
    assert list(got) == ["y"] and type(got["y"]) is np.ndarray
    np.testing.assert_allclose(got["y"], want["y"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["path", "pathlike", "bytes", "bytearray", "memoryview", "proto"])
def test_models_are_taken_in_many_forms(kind, tmp_path):
    path = tmp_path / "m.onnx"
    data = conv_relu().SerializeToString()
    path.write_bytes(data)
    sources = {"path": str(path), "pathlike": path, "bytes": data, "bytearray": bytearray(data)}
    sources |= {"memoryview": memoryview(data), "proto": conv_relu()}
    got = deepjit.build(sources[kind], tune=False).run({"x": image()})["y"]
    np.testing.assert_allclose(got, reference(conv_relu(), {"x": image()})["y"], rtol=1e-5, atol=1e-5)


def test_save_load_serialize_give_equal_bits(engine, tmp_path):
    want = engine.run({"x": image()})["y"]
    engine.save(tmp_path / "m.dje")
    assert (tmp_path / "m.dje").read_bytes() == engine.serialize()
    for loaded in (deepjit.load(tmp_path / "m.dje"), deepjit.load(engine.serialize())):
        np.testing.assert_array_equal(loaded.run({"x": image()})["y"], want)
        assert [i.name for i in loaded.inputs] == ["x"]
        assert loaded.steps == engine.steps


def test_description_of_inputs_and_outputs(engine):
    (x,), (y,) = engine.inputs, engine.outputs
    assert (x.name, x.dtype, x.shape) == ("x", np.float32, ("N", 3, 8, 8))
    assert (y.name, y.dtype, y.shape) == ("y", np.float32, ("N", 4, 8, 8))
    assert x.range == RANGES["x"] and y.range is None and not x.optional
    assert "float32" in repr(x) and "N" in repr(x)


def test_threads_of_build_load_and_context(engine):
    assert deepjit.build(conv_relu(), threads=1, tune=False).threads == 1
    loaded = deepjit.load(engine.serialize(), threads=2)
    assert loaded.threads == 2 and loaded.create_context().threads == 2
    assert loaded.create_context(threads=1).threads == 1


def test_report_steps_and_inspect(engine):
    report = engine.report
    assert [s["stage"] for s in report["stages"]] == ["import", "passes", "lower", "tune", "plan"]
    assert report["seconds"] >= sum(s["seconds"] for s in report["stages"]) > 0
    assert report["tuning"]["measured"] >= 1 and report["arena_bytes"] >= report["arena_lower_bound"] > 0
    assert any("Conv" in s["op"] for s in engine.steps)
    assert all(s["tactic"] for s in engine.steps)
    text = engine.inspect()
    assert "Conv" in text and "float32[N,3,8,8]" in text
    assert engine.metadata["build.device"] == "cpu"


def test_memory_bytes_counts_weights_and_contexts(engine):
    loaded = deepjit.load(engine.serialize())
    before = loaded.memory_bytes
    assert before >= 4 * 3 * 3 * 3 * 4
    loaded.run({"x": image(4)})
    assert loaded.memory_bytes == before + loaded.context.memory_bytes > before


# Arrays


def test_dense_inputs_are_not_copied_and_outputs_are_fresh(engine):
    x = image()
    first = engine.run({"x": x})["y"]
    kept = first.copy()
    second = engine.run({"x": -x})["y"]
    np.testing.assert_array_equal(first, kept)
    assert not np.shares_memory(first, second)
    assert first.flags.owndata and first.flags.writeable and first.flags.c_contiguous


@pytest.mark.parametrize("order", ["fortran", "reversed", "transposed", "broadcast", "unaligned", "read_only"])
def test_layouts_of_inputs(engine, order):
    x = image()
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:]
    frozen = x.copy()
    frozen.flags.writeable = False
    layouts = {
        "fortran": np.asfortranarray(x),
        "reversed": x[::-1],
        "transposed": x.transpose(0, 1, 3, 2),
        "broadcast": np.broadcast_to(x[:1], x.shape),
        "unaligned": unaligned.view(np.float32).reshape(x.shape),
        "read_only": frozen,
    }
    given = layouts[order]
    want = engine.run({"x": np.array(given, order="C")})["y"]
    np.testing.assert_array_equal(engine.run({"x": given})["y"], want)


class DlpackOnly:
    """A tensor of another library: nothing but DLPack."""

    def __init__(self, array):
        self.array = array
        self.taken = 0

    def __dlpack__(self, **arguments):
        self.taken += 1
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack_inputs(engine):
    other = DlpackOnly(image())
    np.testing.assert_array_equal(engine.run({"x": other})["y"], engine.run({"x": image()})["y"])
    assert other.taken == 1


def test_dlpack_of_another_device_is_refused(engine):
    class OnDevice(DlpackOnly):
        def __dlpack__(self, **arguments):
            raise BufferError("not in host memory")

    with pytest.raises(deepjit.Error, match="not in host memory") as caught:
        engine.run({"x": OnDevice(image())})
    assert caught.value.code == 502 and caught.value.hint


def test_lists_and_scalars_are_taken():
    assert identity(TensorProto.DOUBLE).run({"x": [1.0, 2.5]})["y"].tolist() == [1.0, 2.5]
    got = identity(TensorProto.INT64, ()).run({"x": 7})["y"]
    assert type(got) is np.ndarray and got.shape == () and got.dtype == np.int64 and got == 7


def test_zero_dimensional_arrays_stay_so():
    made = identity(TensorProto.FLOAT, ())
    assert made.inputs[0].shape == ()
    for x in (np.array(2.5, np.float32), np.float32(2.5)):
        got = made.run({"x": x})["y"]
        assert type(got) is np.ndarray and got.shape == () and got == 2.5


def test_empty_arrays():
    got = identity(TensorProto.FLOAT, ("N", 3)).run({"x": np.empty((0, 3), np.float32)})["y"]
    assert got.shape == (0, 3)


PLAIN = [
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
]


@pytest.mark.parametrize("name", PLAIN)
def test_plain_dtypes(name):
    dtype = np.dtype(name)
    made = identity(helper.np_dtype_to_tensor_dtype(dtype))
    x = np.array([0, 1, 100]).astype(dtype)
    got = made.run({"x": x})["y"]
    assert got.dtype == dtype == made.inputs[0].dtype
    np.testing.assert_array_equal(got, x)


SMALL = {
    "bfloat16": [0, -1, 7, -3],
    "float8_e4m3fn": [0, -1, 7, -3],
    "float8_e4m3fnuz": [0, -1, 7, -3],
    "float8_e5m2": [0, -1, 7, -3],
    "float8_e5m2fnuz": [0, -1, 7, -3],
    "float8_e8m0fnu": [0.25, 1, 8, 64],
    "float4_e2m1fn": [0, -1, 6, -3],
    "int4": [0, -1, 7, -3],
    "uint4": [0, 1, 7, 13],
    "int2": [0, -1, 1, -2],
    "uint2": [0, 1, 3, 2],
}


@pytest.mark.parametrize("name", SMALL)
def test_dtypes_of_ml_dtypes(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    made = identity(helper.np_dtype_to_tensor_dtype(dtype))
    x = np.array(SMALL[name], np.float32).astype(dtype)
    got = made.run({"x": x})["y"]
    assert got.dtype == dtype == made.inputs[0].dtype
    np.testing.assert_array_equal(got.astype(np.float32), x.astype(np.float32))
    assert got.tobytes() == x.tobytes()


def test_other_names_of_int64():
    got = identity(TensorProto.INT64).run({"x": np.array([1, 2], dtype=np.longlong)})["y"]
    assert got.dtype == np.int64 and got.tolist() == [1, 2]


REFUSED = {
    "objects": np.array([1, None], dtype=object),
    "text": np.array(["a", "b"]),
    "complex": np.zeros(2, np.complex64),
    "dates": np.zeros(2, "M8[s]"),
    "records": np.zeros(2, [("a", np.float32)]),
    "other_byte_order": np.zeros(2, ">f4"),
    "ragged": [[1.0], [1.0, 2.0]],
    "none": None,
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_dtypes(name):
    with pytest.raises(deepjit.Error, match='"x"') as caught:
        identity(TensorProto.FLOAT).run({"x": REFUSED[name]})
    assert caught.value.code == 502


def test_names_that_are_no_strings(engine):
    for feeds in ({1: image()}, [("x", image())], None):
        with pytest.raises(deepjit.Error) as caught:
            engine.run(feeds)
        assert caught.value.code == 501


def test_optional_input_has_its_default():
    default = numpy_helper.from_array(np.array([10, 20], np.float32), "b")
    add = helper.make_node("Add", ["a", "b"], ["y"])
    made = deepjit.build(model([add], [value("a", [2]), value("b", [2])], [value("y", [2])], [default]))
    a = np.array([1, 2], np.float32)
    optional = {i.name: i.optional for i in made.inputs}
    assert made.run({"a": a})["y"].tolist() == [11, 22]
    if "b" in optional:  # an engine may also fold it away
        assert optional == {"a": False, "b": True}
        assert made.run({"a": a, "b": a})["y"].tolist() == [2, 4]


# Lifetimes and threads


def test_a_context_outlives_its_engine(engine):
    loaded = deepjit.load(engine.serialize())
    context = loaded.create_context()
    del loaded
    gc.collect()
    np.testing.assert_array_equal(context.run({"x": image()})["y"], engine.run({"x": image()})["y"])


def test_inputs_are_released_after_a_run(engine):
    x = image()
    alive = weakref.ref(x)
    engine.run({"x": x})
    del x
    gc.collect()
    assert alive() is None


def slow_engine():
    size, steps = 512, 8
    nodes = [helper.make_node("MatMul", [f"v{k}", "w"], [f"v{k + 1}"]) for k in range(steps)]
    weights = numpy_helper.from_array(np.full((size, size), 1 / size, np.float32), "w")
    made = model(nodes, [value("v0", [size, size])], [value(f"v{steps}", [size, size])], [weights])
    return deepjit.build(made, threads=1, tune=False), {"v0": np.ones((size, size), np.float32)}


def test_the_gil_is_free_during_a_run():
    """Another thread counts on while a run is under way."""
    made, feeds = slow_engine()
    context = made.create_context()
    context.run(feeds)
    ticks, done = 0, threading.Event()

    def work():
        start = time.perf_counter()
        while time.perf_counter() - start < 0.3:
            context.run(feeds)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        ticks += 1
        time.sleep(0.001)
    thread.join()
    assert ticks > 20


def test_version():
    assert deepjit.__version__.count(".") == 2
