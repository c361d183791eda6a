"""Outputs that go to arrays of the caller, and tensors that lie where the engine does not run."""

import threading

import deepjit
import numpy as np
import pytest
from onnx import parser

TEXT = "g (float[N,4] x) => (float[N,4] y, int64[2] s) { y = Neg (x) s = Shape (x) }"


@pytest.fixture(scope="module")
def engine():
    return deepjit.build(parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {TEXT}'), tune=False)


X = np.arange(12, dtype=np.float32).reshape(3, 4)


class OnCuda:
    """Says that it lies on a GPU."""

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **arguments):
        raise AssertionError("nobody can read it")


class Interface:
    __cuda_array_interface__ = {"version": 3, "shape": (3, 4), "typestr": "<f4", "data": (4096, False)}


def test_an_output_goes_to_the_callers_array(engine):
    y = np.empty_like(X)
    for _ in range(3):
        y[...] = 7
        result = engine.run({"x": X}, outputs={"y": y})
        assert result["y"] is y
        np.testing.assert_array_equal(y, -X)
        np.testing.assert_array_equal(result["s"], [3, 4])


def test_an_output_goes_to_a_tensor_of_another_library(engine):
    y = np.empty_like(X)

    class Lent:
        def __dlpack__(self, stream=None):
            return y.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    lent = Lent()
    assert engine.run({"x": X}, outputs={"y": lent})["y"] is lent
    np.testing.assert_array_equal(y, -X)


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ({"y": np.empty((4, 4), np.float32)}, "shape"),
        ({"y": np.empty((3, 4), np.float64)}, "float64"),
        ({"y": np.empty((4, 3), np.float32).T}, "dense"),
        ({"y": np.broadcast_to(np.float32(0), (3, 4))}, "writeable"),
        ({"z": np.empty((3, 4), np.float32)}, '"z"'),
        ({3: np.empty((3, 4), np.float32)}, "name"),
        ([X], "dict"),
        ({"y": [1, 2]}, "__dlpack__"),
        ({"y": OnCuda()}, "CPU"),
        ({"y": Interface()}, "CPU"),
    ],
)
def test_arrays_that_an_output_does_not_go_to(engine, outputs, words):
    with pytest.raises(deepjit.Error) as caught:
        engine.run({"x": X}, outputs=outputs)
    assert caught.value.code in (502, 804) and words in str(caught.value)
    np.testing.assert_array_equal(engine.run({"x": X})["y"], -X)


@pytest.mark.parametrize("tensor", [OnCuda(), Interface()])
def test_a_tensor_of_a_gpu_is_no_input_of_the_cpu(engine, tensor):
    with pytest.raises(deepjit.Error) as caught:
        engine.run({"x": tensor})
    assert caught.value.code == 804 and "the CPU" in str(caught.value) and caught.value.hint


def test_the_cpu_has_no_streams(engine):
    context = engine.create_context()
    for run in (
        lambda: context.run({"x": X}, on_device=True),
        lambda: context.run({"x": X}, stream=1),
        lambda: context.run_async({"x": X}, 1),
    ):
        with pytest.raises(deepjit.Error) as caught:
            run()
        assert caught.value.code == 804
    context.synchronize()
    assert (engine.device, context.stream, context.device_bytes) == ("cpu", 0, 0)


def test_memory_is_known_before_the_first_run(engine):
    use = engine.memory_use({"x": (1000, 4)})
    assert use["outputs"] == 1000 * 4 * 4 + 16 and use["inputs"] == 0
    assert use["total"] == sum(use[k] for k in ("constants", "values", "scratch", "inputs", "outputs"))
    for shapes, code in (({}, 804), ({"y": (1, 4)}, 501), ({"x": (1, 5)}, 503), ({"x": (-1, 4)}, 503)):
        with pytest.raises(deepjit.Error) as caught:
            engine.memory_use(shapes)
        assert caught.value.code == code


def test_eight_threads_get_equal_bits(engine):
    x = np.random.default_rng(1).standard_normal((64, 4), np.float32)
    want = engine.run({"x": x})["y"].tobytes()
    wrong = []

    def work():
        context = engine.create_context(threads=1)
        y = np.empty_like(x)
        for k in range(50):
            got = context.run({"x": x}, outputs={"y": y})["y"] if k % 2 else context.run({"x": x})["y"]
            if got.tobytes() != want:
                wrong.append(k)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
