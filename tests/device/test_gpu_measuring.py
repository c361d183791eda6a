"""What a tuner writes down of a GPU, and when a choice made on one holds on another: on the stand-in GPU."""

import numpy as np
import pytest
import stand_in_gpu
from onnx import numpy_helper, parser

from program import run_program

OTHER_GPUS = {
    "the L2": "attribute38=40000000",
    "the processors": "attribute16=108",
    "shared memory": "attribute97=167936",
    "the clock": "attribute13=1410000",
    "the memory": "attribute36=1593000",
    "the driver": "driver=12080",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measuring")
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[32,64] x) => (float[32,64] y)'
        "{ a = Mul (x, w) b = Tanh (a) y = Add (b, x) }"
    )
    model.graph.initializer.append(numpy_helper.from_array(np.linspace(-1, 1, 64, dtype=np.float32), "w"))
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder


def build(folder, *arguments, gpu: str = "", cache="cache"):
    environment = {**stand_in_gpu.environment(), "DEEPJIT_FAKE_CUDA": gpu}
    done = run_program(
        folder, "build", "m.onnx", "-o", "m.dje", "--device", "cuda", "--tune-cache", cache, "--json", *arguments,
        environment=environment,
    )  # fmt: skip
    assert done.code == 0, done.err
    return done


def test_choices_hold_for_the_same_gpu_and_driver_only(folder):
    first = build(folder).json
    assert first["measured"] > 0 and first["reused"] == 0
    assert build(folder).json["measured"] == 0
    for what, gpu in OTHER_GPUS.items():
        assert build(folder, gpu=gpu).json["measured"] == first["measured"], what
        assert build(folder, gpu=gpu).json["measured"] == 0, what
    assert build(folder).json["measured"] == 0


def test_the_lab_book_tells_the_gpu_and_how_far_from_its_peaks(folder, tmp_path):
    done = build(folder, "--verbose", cache=tmp_path)
    assert "before tuning: Stand-in sm_90 processors=132" in done.err and "l2=52428800" in done.err
    assert "constants warm" in done.err and "after tuning: " in done.err
    selected = [line for line in done.err.splitlines() if "<- selected" in line]
    assert selected and all("of the memory's peak" in line for line in selected)
    told = done.json["tuning"]
    assert isinstance(told["flagged"], list) and isinstance(told["suspicious"], list)
    # The stand-in GPU is a CPU: every kernel that takes long enough is far from what the GPU could do.
    assert all("takes" in line and "% of the arithmetic's" in line for line in told["flagged"])
    assert any("flagged" in line for line in selected) == bool(told["flagged"])


def test_constants_of_a_program_larger_than_the_l2_are_measured_cold(folder, tmp_path):
    done = build(folder, "--verbose", cache=tmp_path, gpu="attribute38=400")
    assert "constants cold" in done.err
