"""Bad models, bad files and bad options each give their own error, at once, and leak nothing."""

import os

import deepjit
import numpy as np
import onnx
import pytest
from bad_models import good
from bad_nodes import BAD_MODELS
from expect import expect, expect_no_leak
from onnx import TensorProto


def test_the_good_model_is_good():
    """The bad ones are this one with one fault, so it must work."""
    x = np.array([[1, -2, 3]], dtype=np.float32)
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    got = deepjit.build(good().SerializeToString()).run({"x": x})
    np.testing.assert_array_equal(got["y"], np.maximum(x @ w, 0))


@pytest.mark.parametrize("case", BAD_MODELS, ids=[c.name for c in BAD_MODELS])
def test_bad_model(case):
    data = case.make()
    expect(case.code, lambda: deepjit.build(data), *case.words)


def test_every_prefix_of_a_model_is_refused():
    """Cut anywhere it is an error; which one depends on where the cut falls."""
    data = good().SerializeToString()
    for length in range(len(data)):
        with pytest.raises(deepjit.Error) as caught:
            deepjit.build(data[:length])
        assert caught.value.code != 900, f"{length}: {caught.value}"


def test_flipped_bits_never_crash():
    """Any outcome but a crash, a foreign exception or an internal error."""
    data = good().SerializeToString()
    rng = np.random.default_rng(17)
    for _ in range(300):
        broken = bytearray(data)
        broken[rng.integers(len(data))] ^= 1 << rng.integers(8)
        try:
            deepjit.build(bytes(broken))
        except deepjit.Error as error:
            assert error.code != 900, str(error)


def test_missing_file():
    expect(304, lambda: deepjit.build("/no/such/folder/m.onnx"), "m.onnx")


def test_engine_that_is_missing():
    expect(304, lambda: deepjit.load("/no/such/folder/m.dje"), "m.dje")


def test_engine_that_cannot_be_written(tmp_path):
    engine = deepjit.build(good().SerializeToString())
    expect(603, lambda: engine.save(str(tmp_path / "no" / "such" / "folder" / "m.dje")))


SHAPES = ((1, 3), (2, 3), (4, 3))
BAD_OPTIONS = {
    "unknown_device": {"device": "abacus"},
    "unknown_precision": {"precision": "fp3"},
    "negative_threads": {"threads": -1},
    "range_of_unknown_input": {"ranges": {"ghost": SHAPES}},
    "range_upside_down": {"ranges": {"x": SHAPES[::-1]}},
    "range_of_other_rank": {"ranges": {"x": ((1,), (2,), (4,))}},
    "range_moves_a_fixed_dim": {"ranges": {"x": ((1, 2), (2, 3), (4, 5))}},
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_option(name):
    data = good().SerializeToString()
    expect(804, lambda: deepjit.build(data, **BAD_OPTIONS[name]))


# External data


def external(folder, location: str, offset: str | None = None, length: str | None = None, dims=(3, 4)) -> str:
    """The good model with its weights in another file; the path of the model."""
    made = good()
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.dims[:] = dims
    tensor.data_location = TensorProto.EXTERNAL
    entries = {"location": location, "offset": offset, "length": length}
    for key, text in entries.items():
        if text is not None:
            tensor.external_data.add(key=key, value=text)
    path = folder / "model" / "m.onnx"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(made.SerializeToString())
    return str(path)


@pytest.fixture
def folder(tmp_path):
    """model/w.bin holds the 48 bytes of weights; secret lies outside the model's folder."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "w.bin").write_bytes(np.arange(12, dtype=np.float32).tobytes())
    (tmp_path / "secret").write_bytes(b"\0" * 48)
    return tmp_path


def test_external_data_that_is_right(folder):
    x = np.ones((1, 3), dtype=np.float32)
    want = deepjit.build(good().SerializeToString()).run({"x": x})["y"]
    got = deepjit.build(external(folder, "w.bin", "0", "48")).run({"x": x})["y"]
    np.testing.assert_array_equal(got, want)


EXTERNAL = {
    "parent_folder": (301, {"location": "../secret"}),
    "parent_folder_in_the_middle": (301, {"location": "sub/../../secret"}),
    "absolute": (301, {"location": "/etc/hostname"}),
    "no_location": (301, {"location": ""}),
    "missing": (304, {"location": "nothing.bin"}),
    "offset_past_the_end": (302, {"location": "w.bin", "offset": "4096"}),
    "offset_and_length_past_the_end": (302, {"location": "w.bin", "offset": "16", "length": "48"}),
    "length_too_short": (302, {"location": "w.bin", "length": "20"}),
    "length_longer_than_the_file": (302, {"location": "w.bin", "length": "4096"}),
    "offset_negative": (302, {"location": "w.bin", "offset": "-8"}),
    "offset_overflows": (302, {"location": "w.bin", "offset": "99999999999999999999999"}),
    "offset_not_a_number": (302, {"location": "w.bin", "offset": "many"}),
    "file_far_too_small": (302, {"location": "w.bin", "dims": (3, 1 << 36)}),
    "dims_overflow": (207, {"location": "w.bin", "dims": (3, 1 << 62)}),
}


@pytest.mark.parametrize("name", EXTERNAL)
def test_external_data(name, folder):
    code, arguments = EXTERNAL[name]
    path = external(folder, **arguments)
    expect(code, lambda: deepjit.build(path))


def test_external_data_behind_a_symbolic_link(folder):
    (folder / "model" / "link.bin").symlink_to(folder / "secret")
    path = external(folder, "link.bin")
    expect(303, lambda: deepjit.build(path), "link.bin")


def test_external_data_in_a_linked_folder(folder):
    (folder / "model" / "sub").symlink_to(folder)
    path = external(folder, "sub/secret")
    expect(301, lambda: deepjit.build(path))


def test_external_data_behind_a_hard_link(folder):
    os.link(folder / "secret", folder / "model" / "link.bin")
    path = external(folder, "link.bin")
    expect(303, lambda: deepjit.build(path), "link.bin")


def test_external_data_in_a_pipe(folder):
    """Opening a pipe that nobody writes to must not wait."""
    os.mkfifo(folder / "model" / "pipe")
    path = external(folder, "pipe")
    expect(303, lambda: deepjit.build(path), "pipe")


def test_external_data_that_is_a_folder(folder):
    (folder / "model" / "sub").mkdir()
    path = external(folder, "sub")
    expect(303, lambda: deepjit.build(path), "sub")


def test_external_data_of_bytes(folder):
    with open(external(folder, "w.bin"), "rb") as file:
        data = file.read()
    expect(301, lambda: deepjit.build(data))


# Memory


def test_200_failures_of_each_kind_leak_nothing():
    kinds = {c.name: c.make() for c in BAD_MODELS if c.code in (101, 102, 104, 201, 202, 203, 208, 209, 210)}

    def fail_all():
        for data in kinds.values():
            with pytest.raises(deepjit.Error):
                deepjit.build(data)

    expect_no_leak(fail_all)


def test_the_checker_of_onnx_agrees_that_they_are_bad():
    """Guards the table: most entries must be refused by ONNX's own checker too."""
    refused = 0
    for case in BAD_MODELS:
        try:
            loaded = onnx.ModelProto.FromString(case.make())
            onnx.checker.check_model(loaded, full_check=True)
        except Exception:  # it raises a dozen types
            refused += 1
    assert refused >= 0.8 * len(BAD_MODELS)
