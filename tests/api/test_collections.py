"""Strings, sequences and optionals through the Python API and the C ABI."""

import ctypes
from pathlib import Path

import deepjit
import numpy as np
import pytest
from onnx import TensorProto, helper
from small_models import model, value

BUILD = Path(deepjit.__file__).resolve().parents[2]


def sequence_info(name: str, shape, dtype: int = TensorProto.FLOAT):
    return helper.make_tensor_sequence_value_info(name, dtype, shape)


def optional_info(name: str, kind):
    return helper.make_value_info(name, helper.make_optional_type_proto(kind))


def grow():
    """t = s with x behind it; n = its length."""
    nodes = [
        helper.make_node("SequenceInsert", ["s", "x"], ["t"]),
        helper.make_node("SequenceLength", ["t"], ["n"]),
    ]
    inputs = [sequence_info("s", None), value("x", ["N"])]
    return deepjit.build(model(nodes, inputs, [sequence_info("t", None), value("n", [], TensorProto.INT64)]))


def test_lists_go_in_and_come_out():
    engine = grow()
    x = np.arange(3, dtype=np.float32)
    for loaded in (engine, deepjit.load(engine.serialize())):
        got = loaded.run({"s": [x[:2], np.ones((2, 2), np.float32)], "x": x})
        assert got["n"] == 3 and [e.shape for e in got["t"]] == [(2,), (2, 2), (3,)]
        np.testing.assert_array_equal(got["t"][2], x)
        assert [e.tolist() for e in loaded.run({"s": (), "x": x})["t"]] == [[0, 1, 2]]


def test_results_belong_to_the_caller():
    engine = grow()
    first = np.zeros(4, np.float32)
    before = engine.run({"s": [first], "x": first})["t"]
    first[:] = 7
    engine.run({"s": [first, first], "x": first})
    assert [e.tolist() for e in before] == [[0] * 4, [0] * 4]


def test_description_says_what_a_sequence_holds():
    s, x = grow().inputs
    assert s.dtype == "sequence" and len(s.shape) == 1 and s.element.dtype == np.float32 and s.element.shape is None
    assert x.element is None and "sequence" in repr(s) and "float32" in repr(s)
    assert "sequence" in grow().inspect()


@pytest.mark.parametrize(
    ("feed", "code", "text"),
    [
        (np.zeros((2, 2), np.float32), 502, "expected a list"),
        ([np.zeros(2, np.float64)], 502, "element 0"),
        ([np.zeros(2, np.float32), None], 502, "element 1"),
        (["a"], 502, "element 0"),
        (None, 502, "expected a list"),
    ],
)
def test_wrong_elements_are_named(feed, code, text):
    with pytest.raises(deepjit.Error) as caught:
        grow().run({"s": feed, "x": np.zeros(1, np.float32)})
    assert caught.value.code == code and text in caught.value.message and '"s"' in caught.value.message


def test_many_runs_keep_memory():
    engine = grow()
    x = np.zeros(1000, np.float32)
    seen = set()
    for i in range(60):
        engine.run({"s": [x] * (i % 3), "x": x})
        if i % 3 == 2:
            seen.add(engine.context.memory_bytes)
    assert len(seen) == 1


def test_optionals_are_none_or_what_they_hold():
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.INT64, None))
    nodes = [helper.make_node("Identity", ["o"], ["p"]), helper.make_node("OptionalHasElement", ["o"], ["has"])]
    outputs = [optional_info("p", sequence), value("has", [], TensorProto.BOOL)]
    engine = deepjit.build(model(nodes, [optional_info("o", sequence)], outputs))
    got = engine.run({"o": None})
    assert got["p"] is None and not got["has"]
    got = engine.run({"o": [np.array([4]), np.array(5)]})
    assert got["has"] and [e.tolist() for e in got["p"]] == [[4], 5]
    assert engine.run({"o": []})["p"] == []
    with pytest.raises(deepjit.Error, match="INPUT_NAME"):
        engine.run({})


def test_strings_are_computed():
    nodes = [
        helper.make_node("StringConcat", ["a", "b"], ["c"]),
        helper.make_node("StringSplit", ["c"], ["words", "n"], delimiter=" "),
        helper.make_node("SplitToSequence", ["c"], ["parts"], axis=0),
    ]
    inputs = [value("a", ["N"], TensorProto.STRING), value("b", [1], TensorProto.STRING)]
    outputs = [value("words", None, TensorProto.STRING), value("n", None, TensorProto.INT64)]
    engine = deepjit.build(model(nodes, inputs, [*outputs, sequence_info("parts", None, TensorProto.STRING)]))
    got = engine.run({"a": np.array(["gr\u00fc\u00df", "", "a b"], dtype=object), "b": np.array([" !"])})
    assert got["words"].tolist() == [["gr\u00fc\u00df", "!", ""], ["", "!", ""], ["a", "b", "!"]]
    assert got["n"].tolist() == [2, 2, 3]
    assert [p.tolist() for p in got["parts"]] == [["gr\u00fc\u00df !"], [" !"], ["a b !"]]
    assert [p.tolist() for p in engine.run({"a": np.array([], dtype=object), "b": np.array(["x"])})["parts"]] == []


def test_ranges_are_for_tensors():
    nodes = [helper.make_node("SequenceLength", ["s"], ["n"])]
    made = model(nodes, [sequence_info("s", None)], [value("n", [], TensorProto.INT64)])
    with pytest.raises(deepjit.Error, match="only tensors have ranges"):
        deepjit.build(made, ranges={"s": (3,)})


class CTensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32)]
    _fields_ += [("shape", ctypes.POINTER(ctypes.c_int64)), ("data", ctypes.c_void_p)]


def c_tensor(name, dtype: int, shape, data) -> CTensor:
    return CTensor(name, dtype, len(shape), (ctypes.c_int64 * max(len(shape), 1))(*shape), ctypes.addressof(data))


@pytest.mark.skipif(not (BUILD / "libdeepjit.so").exists(), reason="not a build folder")
def test_c_abi_takes_and_gives_sequences():
    library = ctypes.CDLL(str(BUILD / "libdeepjit.so"))
    library.deepjit_last_error.restype = ctypes.c_char_p
    engine, context = ctypes.c_void_p(), ctypes.c_void_p()
    data = grow().serialize()
    assert library.deepjit_load_bytes(data, ctypes.c_size_t(len(data)), 0, ctypes.byref(engine)) == 0
    assert library.deepjit_context_create(engine, 0, ctypes.byref(context)) == 0
    numbers = (ctypes.c_float * 3)(1, 2, 3)
    elements = (CTensor * 2)(c_tensor(None, 1, [3], numbers), c_tensor(None, 1, [1, 2], numbers))
    inputs = (CTensor * 2)(c_tensor(b"s", 100, [2], elements), c_tensor(b"x", 1, [1], numbers))
    for _ in range(3):
        assert library.deepjit_context_run(context, inputs, ctypes.c_size_t(2)) == 0, library.deepjit_last_error()
        out = CTensor()
        assert library.deepjit_context_output(context, ctypes.c_size_t(0), ctypes.byref(out)) == 0
        assert (out.name, out.dtype, out.rank, out.shape[0]) == (b"t", 100, 1, 3)
        got = ctypes.cast(out.data, ctypes.POINTER(CTensor))
        assert [(got[i].rank, got[i].shape[got[i].rank - 1]) for i in range(3)] == [(1, 3), (2, 2), (1, 1)]
        assert ctypes.cast(got[1].data, ctypes.POINTER(ctypes.c_float))[:2] == [1, 2]
    inputs[0].data = None
    assert library.deepjit_context_run(context, inputs, ctypes.c_size_t(2)) == 804
    nested = (CTensor * 1)(c_tensor(None, 100, [1], elements))
    inputs[0] = c_tensor(b"s", 100, [1], nested)
    nested[0].data = ctypes.addressof(nested)  # a sequence that holds itself
    assert library.deepjit_context_run(context, inputs, ctypes.c_size_t(2)) in (502, 804)
    library.deepjit_context_free(context)
    library.deepjit_engine_free(engine)
