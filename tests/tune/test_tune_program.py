"""deepjit tune as a program: in place and all or nothing; what was measured before it was killed is not lost."""

import hashlib
import json
import os
import time

import pytest
from tuned_models import assert_file_agrees, killed_while_tuning, model

from program import run_program


def ok(folder, *arguments, environment=None):
    done = run_program(folder, *arguments, environment=environment)
    assert done.code == 0, done.err
    return done


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "m.onnx").write_bytes(model("image").SerializeToString())
    ok(tmp_path, "build", "m.onnx", "-o", "m.dje", "--no-tune")
    return tmp_path


def digest(path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_in_place(folder):
    before = digest(folder / "m.dje")
    done = ok(folder, "tune", "m.dje", "--json").json
    assert done["measured"] > 0 and done["measured_on"].startswith("on ") and done["device"] == "cpu"
    assert digest(folder / "m.dje") != before and (folder / "m.dje").stat().st_size == done["engine_bytes"]
    assert "build.measured = on " in ok(folder, "inspect", "m.dje").out
    assert_file_agrees(folder, "m.dje")
    assert sorted(p.name for p in folder.iterdir()) == ["m.dje", "m.onnx"]


def test_elsewhere_and_through_a_link(folder):
    before = digest(folder / "m.dje")
    (folder / "link.dje").symlink_to("m.dje")
    told = ok(folder, "tune", "link.dje", "-o", "t.dje", "--lock", "lock", "--verbose")
    assert "measured on " in told.out and "<- selected" in told.err
    assert digest(folder / "m.dje") == before and (folder / "t.dje").exists()
    ok(folder, "tune", "link.dje", "--lock", "lock")
    assert (folder / "link.dje").is_symlink() and digest(folder / "m.dje") == digest(folder / "t.dje")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["m.onnx"], "E401 ENGINE_MAGIC"),
        (["none.dje"], "E304 FILE_NOT_FOUND"),
        (["m.dje", "--device", "cuda"], "E404 ENGINE_INCOMPATIBLE"),
        (["m.dje", "--target", "sm_90"], "E804 ARGUMENT"),
        (["m.dje", "--range", "x=1x2"], "E804 ARGUMENT"),
        (["m.dje", "--lock", "m.onnx"], "E804 ARGUMENT"),
        (["m.dje", "-o", "no/such/folder/m.dje"], "E603 DISK_FULL"),
        (["m.dje", "--no-tune"], "E804 ARGUMENT"),
        ([], "E804 ARGUMENT"),
    ],
)
def test_nothing_is_lost_when_it_fails(folder, arguments, error):
    before = digest(folder / "m.dje")
    failed = run_program(folder, "tune", *arguments)
    assert failed.code == 2 and error in failed.err and "hint:" in failed.err
    assert digest(folder / "m.dje") == before
    assert sorted(p.name for p in folder.iterdir()) == ["m.dje", "m.onnx"]


def test_without_the_gpu_that_it_is_for(folder, tmp_path):
    nothing = {"DEEPJIT_CUDA_DRIVER": str(tmp_path / "none.so")}
    built = run_program(
        folder, "build", "m.onnx", "-o", "g.dje", "--device", "cuda", "--target", "sm_90", environment=nothing
    )
    if "LIBRARY_MISSING" in built.err:
        pytest.skip("NVRTC is not installed")
    assert built.code == 0, built.err
    before = digest(folder / "g.dje")
    failed = run_program(folder, "tune", "g.dje", environment=nothing)
    assert failed.code == 2 and ("E703 LIBRARY_MISSING" in failed.err or "E704 DEVICE_MISSING" in failed.err)
    assert digest(folder / "g.dje") == before
    ok(folder, "build", "m.onnx", "-o", "n.dje", "--device", "null")
    failed = run_program(folder, "tune", "n.dje")
    assert failed.code == 2 and "E804 ARGUMENT" in failed.err and "null device" in failed.err


@pytest.mark.parametrize("verb", ["build", "tune"])
def test_a_killed_one_goes_on_where_it_was(folder, verb):
    arguments = ["build", "m.onnx", "-o", "k.dje"] if verb == "build" else ["tune", "m.dje", "-o", "k.dje"]
    before = digest(folder / "m.dje")
    assert killed_while_tuning(folder, dict(os.environ), *arguments) == 3
    assert not (folder / "k.dje").exists() and digest(folder / "m.dje") == before
    again = ok(folder, *arguments, "--tune-cache", "cache", "--json").json
    # The last one that was told of may not have been written yet.
    assert again["reused"] >= 2 and again["measured"] >= 1
    last = ok(folder, *arguments, "--tune-cache", "cache", "--json").json
    assert last["measured"] == 0 and last["reused"] == again["reused"] + again["measured"]
    assert_file_agrees(folder, "k.dje")


def test_a_budget_ends_tuning(folder):
    start = time.monotonic()
    told = ok(folder, "tune", "m.dje", "--build-budget", "1ms", "--json").json
    assert told["out_of_budget"] > 0 and time.monotonic() - start < 60
    assert_file_agrees(folder, "m.dje")


def test_help_names_it(folder):
    assert "tune" in ok(folder, "--help").out
    text = ok(folder, "tune", "--help").out
    for flag in ("--tune-cache", "--lock", "--build-budget", "--target", "--output", "--json"):
        assert flag in text
    assert "--precision" not in text and json.loads(ok(folder, "tune", "m.dje", "--json").out)["engine"]
