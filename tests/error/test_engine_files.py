"""Damaged engine files are refused with an error of the 4xx family, whatever was done to them."""

import deepjit
import numpy as np
import pytest
from bad_models import good
from expect import error_of, expect

ENGINE_CODES = {401, 402, 403, 404, 405}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The bytes of a good engine, and its answer."""
    path = tmp_path_factory.mktemp("engine") / "m.dje"
    engine = deepjit.build(good().SerializeToString())
    engine.save(str(path))
    x = np.ones((2, 3), dtype=np.float32)
    return path.read_bytes(), x, engine.run({"x": x})["y"]


def load(folder, data: bytes):
    path = folder / "broken.dje"
    path.write_bytes(data)
    return deepjit.load(str(path))


def test_unchanged_is_good(saved, tmp_path):
    data, x, want = saved
    np.testing.assert_array_equal(load(tmp_path, data).run({"x": x})["y"], want)


NOT_ENGINES = {"empty": b"", "one_byte": b"D", "text": b"hello, world\n" * 100, "zeros": b"\0" * 8192}


@pytest.mark.parametrize("name", NOT_ENGINES)
def test_not_an_engine(name, tmp_path):
    expect(401, lambda: load(tmp_path, NOT_ENGINES[name]))


def test_an_onnx_model_is_not_an_engine(tmp_path):
    expect(401, lambda: load(tmp_path, good().SerializeToString()))


def test_magic_changed(saved, tmp_path):
    data = saved[0]
    expect(401, lambda: load(tmp_path, b"XXXX" + data[4:]))


def test_truncated(saved, tmp_path):
    """At every sixteenth of the file and by one byte."""
    data = saved[0]
    for length in [len(data) * k // 16 for k in range(1, 16)] + [len(data) - 1]:
        error = error_of(lambda n=length: load(tmp_path, data[:n]))
        assert error.code in ENGINE_CODES, f"cut at {length} of {len(data)}: {error}"


def test_flipped_byte_is_refused_or_harmless(saved, tmp_path):
    """Padding may change without harm; anything else must be seen, before it can do any."""
    data, x, want = saved
    rng = np.random.default_rng(23)
    refused = 0
    positions = np.concatenate([np.arange(min(256, len(data))), rng.integers(0, len(data), 250)])
    for at in positions:
        broken = bytearray(data)
        broken[at] ^= 0xFF
        try:
            got = load(tmp_path, bytes(broken)).run({"x": x})["y"]
        except deepjit.Error as error:
            assert error.code in ENGINE_CODES, f"byte {at}: {error}"
            refused += 1
        else:
            np.testing.assert_array_equal(got, want, err_msg=f"byte {at} of {len(data)}")
    assert refused >= 100


def test_flipped_weight_is_a_checksum_error(saved, tmp_path):
    """The weights 1.0 to 11.0 stand in the file as they are; the first that is found is changed."""
    data = saved[0]
    at = data.find(np.float32([1.0, 2.0, 3.0]).tobytes())
    if at < 0:
        at = len(data) // 2
    broken = bytearray(data)
    broken[at] ^= 1
    expect(403, lambda: load(tmp_path, bytes(broken)))


def test_garbage_behind_the_header(saved, tmp_path):
    data = saved[0]
    noise = np.random.default_rng(5).integers(0, 256, len(data), dtype=np.uint8).tobytes()
    for keep in (8, 16, 64, 256):
        error = error_of(lambda n=keep: load(tmp_path, data[:n] + noise[n:]))
        assert error.code in ENGINE_CODES, str(error)
