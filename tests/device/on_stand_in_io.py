"""Tensors of other libraries on the stand-in GPU, whose streams do nothing until somebody waits; run by
test_stand_in_gpu.py."""

import gc
import subprocess
import threading
from pathlib import Path

import deepjit
import lent_tensors
import numpy as np
import pytest
from lent_tensors import ELSEWHERE, PINNED, ArrayInterface, Dlpack, Memory
from onnx import numpy_helper, parser

EXAMPLE = Path(__file__).resolve().parents[2] / "build/dev/examples/device_pipeline_cpp"
TEXT = "g (float[N,64] x, float[64] b) => (float[N,64] y, float[N,64] z) { a = Mul (x, b) y = Neg (a) z = Flatten (x) }"


@pytest.fixture(scope="module")
def engine():
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {TEXT}')
    return deepjit.build(model, device="cuda", targets="sm_90", tune=False)


@pytest.fixture(scope="module")
def driver(engine):
    driver = lent_tensors.load_driver()
    engine.create_context()
    return driver


def values(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 64), np.float32), rng.standard_normal(64, np.float32)


def empty(driver, n: int) -> Memory:
    return Memory(driver, np.full((n, 64), 7, np.float32))


@pytest.mark.parametrize("lend", [Dlpack, ArrayInterface])
def test_inputs_and_outputs_stay_where_they_are(engine, driver, lend):
    x, b = values(5)
    context = engine.create_context()
    in_x, in_b, out_y, out_z = Memory(driver, x), Memory(driver, b), empty(driver, 5), empty(driver, 5)
    driver.fake_cuda_take_counts()
    for _ in range(3):
        out_y.seen[...] = 0
        bound = {"y": lend(out_y), "z": lend(out_z)}
        result = context.run({"x": lend(in_x), "b": lend(in_b)}, outputs=bound)
        assert result["y"] is bound["y"] and result["z"] is bound["z"]
        np.testing.assert_array_equal(out_y.seen, -(x * b))
        np.testing.assert_array_equal(out_z.seen, x)
        context.synchronize()
    counts = driver.fake_cuda_take_counts()
    assert counts.bytes_in == counts.bytes_out == 0
    assert counts.graphs_made == 1 and counts.graphs_launched == 2


def test_a_producer_is_told_the_stream_that_reads(engine, driver):
    x, b = values(3)
    context = engine.create_context()
    lent, bound = Dlpack(Memory(driver, x)), Dlpack(empty(driver, 3))
    context.run({"x": lent, "b": b}, outputs={"y": bound})
    assert lent.asked == bound.asked == [context.stream] and context.stream > 2
    stream = driver.fake_cuda_stream()
    context.run_async({"x": lent, "b": Dlpack(Memory(driver, b))}, stream, outputs={"y": bound})
    assert lent.asked[-1] == bound.asked[-1] == stream
    context.run({"x": lent, "b": b}, stream=0)
    assert lent.asked[-1] == 1  # as DLPack numbers CUDA's default stream
    context.synchronize()


def test_work_of_an_array_interfaces_stream_comes_first(engine, driver):
    x, b = values(3)
    stream = driver.fake_cuda_stream()
    late = Memory(driver, np.zeros_like(x))
    driver.fake_cuda_write(late.address, x.ctypes.data, x.nbytes, stream)
    result = engine.run({"x": ArrayInterface(late, stream=stream), "b": b})
    np.testing.assert_array_equal(result["y"], -(x * b))
    with pytest.raises(deepjit.Error) as caught:
        engine.run({"x": ArrayInterface(late, stream=0), "b": b})
    assert caught.value.code == 804


def test_outputs_can_stay_on_the_device(engine, driver):
    x, b = values(4)
    context = engine.create_context()
    result = context.run({"x": x, "b": b}, on_device=True)
    y = result["y"]
    assert isinstance(y, deepjit.DeviceTensor)
    assert (y.name, y.shape, y.dtype, y.device, y.nbytes) == ("y", (4, 64), np.float32, "cuda:0", 4 * 64 * 4)
    np.testing.assert_array_equal(y.numpy(), -(x * b))
    again = context.run({"x": y, "b": b}, on_device=True)["y"]  # it is read where it lies
    np.testing.assert_array_equal(again.numpy(), x * b * b)
    np.testing.assert_array_equal(y.numpy(), -(x * b))  # nobody else has its memory
    assert "cuda:0" in repr(y)


def test_what_stays_is_lent_to_others(engine, driver):
    x, b = values(4)
    context = engine.create_context()
    y = context.run({"x": x, "b": b}, on_device=True)["y"]
    assert y.__dlpack_device__() == (2, 0)
    address, device, shape, kind = lent_tensors.tensor_in(y.__dlpack__(stream=1))
    assert (device, shape, kind) == ((2, 0), (4, 64), (2, 32))
    interface = y.__cuda_array_interface__
    assert interface["data"] == (address, False) and interface["shape"] == (4, 64)
    assert interface["typestr"] == "<f4" and interface["stream"] is None and interface["version"] == 3
    capsule = y.__dlpack__(stream=-1)
    del y
    context.run({"x": x, "b": b}, on_device=True)
    assert lent_tensors.tensor_in(capsule)[0] == address
    with pytest.raises(BufferError):
        context.run({"x": x, "b": b}, on_device=True)["y"].__dlpack__(copy=True)


def test_memory_of_outputs_is_used_again_or_freed(engine, driver):
    x, b = values(2000)
    context = engine.create_context()
    for lends in (False, True):
        before = driver.fake_cuda_allocated()
        for _ in range(30):
            y = context.run({"x": x, "b": b}, on_device=True)["y"]
            if lends:
                y.__dlpack__(stream=1)
        del y
        gc.collect()
        assert driver.fake_cuda_allocated() - before <= 10 * x.nbytes


def test_runs_that_are_not_waited_for(engine, driver):
    x, b = values(6)
    context = engine.create_context()
    stream = driver.fake_cuda_stream()
    late, weights, out = Memory(driver, np.zeros_like(x)), Memory(driver, b), empty(driver, 6)
    for round_ in range(4):
        now = x + np.float32(round_)
        out.seen[...] = 7
        driver.fake_cuda_write(late.address, now.ctypes.data, now.nbytes, stream)
        result = context.run_async(
            {"x": ArrayInterface(late), "b": Dlpack(weights)}, stream, outputs={"y": ArrayInterface(out)}
        )
        assert (out.seen == 7).all()
        z = result["z"]
        assert z.__cuda_array_interface__["stream"] == stream
        driver.fake_cuda_finish(stream)
        np.testing.assert_array_equal(out.seen, -(now * b))
        np.testing.assert_array_equal(z.numpy(), now)


def test_a_reader_of_a_late_output_waits_on_the_device(engine, driver):
    x, b = values(6)
    first, second = engine.create_context(), engine.create_context()
    stream, other = driver.fake_cuda_stream(), driver.fake_cuda_stream()
    weights = Dlpack(Memory(driver, b))
    y = first.run_async({"x": Dlpack(Memory(driver, x)), "b": weights}, stream)["y"]
    z = second.run_async({"x": y, "b": weights}, other)["y"]
    driver.fake_cuda_finish(other)
    np.testing.assert_array_equal(z.numpy(), x * b * b)
    y = first.run_async({"x": Dlpack(Memory(driver, x)), "b": weights}, stream)["y"]
    np.testing.assert_array_equal(y.numpy(), -(x * b))


class TorchStream:
    def __init__(self, handle):
        self.cuda_stream = handle


class CupyStream:
    def __init__(self, handle):
        self.ptr = handle


class CoreStream:
    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return (0, self.handle)


@pytest.mark.parametrize("kind", [int, TorchStream, CupyStream, CoreStream])
def test_streams_of_other_libraries(engine, driver, kind):
    x, b = values(2)
    stream = driver.fake_cuda_stream()
    context = engine.create_context()
    result = context.run_async({"x": Dlpack(Memory(driver, x)), "b": Dlpack(Memory(driver, b))}, kind(stream))
    assert result["y"].__cuda_array_interface__["stream"] == stream
    np.testing.assert_array_equal(result["y"].numpy(), -(x * b))
    np.testing.assert_array_equal(context.run({"x": x, "b": b}, stream=kind(stream))["y"], -(x * b))
    with pytest.raises(deepjit.Error) as caught:
        context.run({"x": x, "b": b}, stream="fast")
    assert caught.value.code == 804


def test_page_locked_memory_without_a_wait(engine, driver):
    x, b = values(2)
    context = engine.create_context()
    stream = driver.fake_cuda_stream()
    pinned = [Memory(driver, array, PINNED) for array in (x, b, np.zeros_like(x))]
    inputs = {"x": pinned[0].seen, "b": Dlpack(pinned[1], device=(3, 0))}
    result = context.run_async(inputs, stream, outputs={"y": pinned[2].seen})
    assert result["y"] is pinned[2].seen and (pinned[2].seen == 0).all()
    context.synchronize()
    np.testing.assert_array_equal(pinned[2].seen, -(x * b))
    with pytest.raises(deepjit.Error) as caught:
        context.run_async({"x": x, "b": b}, stream)
    assert caught.value.code == 804 and "page-locked" in str(caught.value)


def bad_tensors(driver, x):
    """Name to (a tensor that x cannot be, error code, words of the message)."""
    memory = Memory(driver, x)
    f8 = Memory(driver, x.astype(np.float64))
    far = Memory(driver, x, ELSEWHERE)
    return {
        "columns": (Dlpack(memory, strides=(1, x.shape[0])), 503, "contiguous"),
        "rows apart": (ArrayInterface(memory, strides=(512, 4)), 503, "contiguous"),
        "another type": (Dlpack(f8), 502, "float64"),
        "another type, array interface": (ArrayInterface(f8), 502, "float64"),
        "no type": (ArrayInterface(memory, typestr="<c8"), 502, "<c8"),
        "lanes": (Dlpack(memory, lanes=2), 502, "element type"),
        "complex": (Dlpack(memory, code=5), 502, "element type"),
        "masked": (ArrayInterface(memory, mask=memory), 502, "mask"),
        "another device": (Dlpack(memory, device=(2, 1)), 804, "cuda:1"),
        "an address elsewhere": (ArrayInterface(far), 804, "another device"),
        "an address of the host": (ArrayInterface(memory, data=(x.ctypes.data, False)), 804, "not in memory of cuda:0"),
        "broken": (ArrayInterface(memory, data=None), 502, "not right"),
    }


BAD = ["columns", "rows apart", "another type", "another type, array interface", "no type", "lanes", "complex",
       "masked", "another device", "an address elsewhere", "an address of the host", "broken"]  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_tensors_that_cannot_be_taken(engine, driver, name):
    x, b = values(3)
    tensor, code, words = bad_tensors(driver, x)[name]
    context = engine.create_context()
    with pytest.raises(deepjit.Error) as caught:
        context.run({"x": tensor, "b": b})
    assert caught.value.code == code and words in str(caught.value) and "x" in str(caught.value)
    np.testing.assert_array_equal(context.run({"x": x, "b": b})["y"], -(x * b))


@pytest.mark.parametrize("name", BAD)
def test_tensors_that_no_output_goes_to(engine, driver, name):
    x, b = values(3)
    tensor, code, words = bad_tensors(driver, x)[name]
    with pytest.raises(deepjit.Error) as caught:
        engine.run({"x": x, "b": b}, outputs={"y": tensor})
    assert words in str(caught.value) and caught.value.code in (code, 804)


def test_eight_threads_get_equal_bits(engine, driver):
    x, b = values(16)
    want = engine.run({"x": x, "b": b})["y"].tobytes()
    wrong = []

    def work(i):
        context = engine.create_context()
        stream = driver.fake_cuda_stream()
        lent = {"x": Dlpack(Memory(driver, x)), "b": Dlpack(Memory(driver, b))}
        for k in range(12):
            if (i + k) % 2:
                got = context.run({"x": x, "b": b})["y"]
            else:
                got = context.run_async(lent, stream)["y"].numpy()
            if got.tobytes() != want:
                wrong.append((i, k))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_is_known_before(engine, driver):
    use = engine.memory_use({"x": (5000, 64)})
    assert use["total"] == sum(use[k] for k in ("constants", "values", "scratch", "inputs", "outputs"))
    x, b = values(5000)
    before = driver.fake_cuda_allocated()
    context = engine.create_context()
    context.run({"x": x, "b": b})
    assert driver.fake_cuda_allocated() - before == pytest.approx(use["total"] - use["constants"], rel=0.02)
    assert context.device_bytes == driver.fake_cuda_allocated() - before


def test_the_example_runs_one_engine_behind_another(driver, tmp_path):
    for name, op in (("first", "a = Mul (x, x) y = Neg (a)"), ("second", "a = Add (x, x) y = Abs (a)")):
        text = f'<ir_version: 10, opset_import: ["" : 21]> g (float[N,8] x) => (float[N,8] y) {{ {op} }}'
        (tmp_path / f"{name}.onnx").write_bytes(parser.parse_model(text).SerializeToString())
    command = [EXAMPLE, tmp_path / "first.onnx", tmp_path / "second.onnx", "2x8", "cuda"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["y on cuda:0: 0 2 8 18"] * 3


def test_an_input_that_is_left_out_needs_no_page_locked_memory(driver):
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {TEXT}')
    model.graph.initializer.append(numpy_helper.from_array(np.arange(64, dtype=np.float32), "b"))
    context = deepjit.build(model, device="cuda", targets="sm_90", tune=False).create_context()
    x, b = values(4)
    stream = driver.fake_cuda_stream()
    for _ in range(3):
        result = context.run_async({"x": Dlpack(Memory(driver, x))}, stream)["y"]
        np.testing.assert_array_equal(result.numpy(), -(x * np.arange(64, dtype=np.float32)))
    lent = {"x": Dlpack(Memory(driver, x)), "b": Dlpack(Memory(driver, b))}
    np.testing.assert_array_equal(context.run_async(lent, stream)["y"].numpy(), -(x * b))
