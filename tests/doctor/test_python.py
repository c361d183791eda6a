"""deepjit.doctor() says what the program says."""

import clean
import deepjit
import onnx
import pytest
from seeded import SEEDED

SETTINGS = {"tensorrt": {"int8": True, "maxShapes": {"image": [4, 3, 32, 32]}, "minShapes": {"image": [1, 3, 32, 32]}}}


def test_findings_of_a_model(tmp_path):
    made = SEEDED["transpose pair"].make().model()
    onnx.save(made, tmp_path / "m.onnx")
    for source in (made, made.SerializeToString(), tmp_path / "m.onnx", str(tmp_path / "m.onnx")):
        (found,) = deepjit.doctor(source)
        assert (found.rule, found.name, found.severity) == ("DJ201", "transpose-pair", "warning")
        assert found.op == "Transpose" and found.nodes == 2 and found.fixable and found.time_us == 0
        assert "DJ201" in repr(found) and found.node in repr(found)
    assert deepjit.doctor(made, ignore=["DJ201"]) == []
    assert deepjit.doctor(clean.transformer().model()) == []


def test_measured():
    (found,) = deepjit.doctor(SEEDED["cast chain"].make().model(), measure=True)
    assert found.time_us > 0


def test_settings_and_traffic():
    made = clean.cnn().model()
    traffic = [{"image": (1, 3, 32, 32)}, {"image": (8, 3, 32, 32)}]
    assert [f.rule for f in deepjit.doctor(made, settings=SETTINGS, traffic=traffic)] == ["DJ601", "DJ603"]
    command = "trtexec --best --minShapes=image:1x3x32x32 --maxShapes=image:8x3x32x32"
    assert [f.rule for f in deepjit.doctor(made, settings=[command], traffic="image=8x3x32x32")] == ["DJ601"]


@pytest.mark.parametrize(
    "options", [{"settings": 3}, {"settings": "{"}, {"traffic": {"image": "big"}}, {"ignore": ["DJ999"]}]
)
def test_bad_options(options):
    with pytest.raises(deepjit.Error) as caught:
        deepjit.doctor(clean.cnn().model(), **options)
    assert caught.value.name == "ARGUMENT"


def test_missing_file():
    with pytest.raises(deepjit.Error) as caught:
        deepjit.doctor("nothing.onnx")
    assert caught.value.name == "FILE_NOT_FOUND"
