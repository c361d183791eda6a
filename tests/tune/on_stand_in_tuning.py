"""Tuning on the stand-in GPU, an sm_90; run by test_tune_stand_in.py."""

import hashlib
import os
import re
import time

import deepjit
import pytest
from stand_in_gpu import FOLDER
from tuned_models import MODELS, assert_agree, assert_file_agrees, feeds, killed_while_tuning, model, ranges

from program import run_program

ALL = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]
NO_GPU = {"DEEPJIT_CUDA_DRIVER": "/nonexistent/libcuda.so"}  # the compiler stays: it needs no GPU
SHAPES = ["--range", "x=1x3x16x16:4x3x16x16:9x3x16x16"]


def ok(folder, *arguments, environment=None):
    done = run_program(folder, *arguments, environment=environment)
    assert done.code == 0, done.err
    return done


def built_without_a_gpu(folder, name: str, *options):
    """The path of an engine from a machine that has no GPU."""
    (folder / "m.onnx").write_bytes(model(name).SerializeToString())
    low, opt, high = ("x".join(map(str, shape)) for shape in ranges(name)["x"])
    shapes = ["--range", f"x={low}:{opt}:{high}"]
    command = ["build", "m.onnx", "-o", "m.dje", "--device", "cuda", *shapes, *options]
    ok(folder, *command, environment=NO_GPU)
    return folder / "m.dje"


def targets_in(path) -> list[str]:
    """Of the code that an engine file carries."""
    found = re.findall(rb"// code of the stand-in GPU, sm_(\d+)a?\n", path.read_bytes())
    return [f"sm_{number}" for number in sorted({int(number) for number in found})]


@pytest.mark.parametrize("name", MODELS)
def test_an_engine_from_a_machine_without_a_gpu_runs_here_and_is_tuned_here(name, tmp_path):
    path = built_without_a_gpu(tmp_path, name)
    assert targets_in(path) == ALL
    on_cpu = deepjit.build(model(name), tune=False, ranges=ranges(name))
    plain = deepjit.load(path)
    assert plain.metadata["build.measured"].startswith("no: ") and plain.metadata["build.targets"] == ", ".join(ALL)
    assert_agree(plain, on_cpu, name)
    if name == "many small":
        assert any("&" in step["name"] for step in plain.steps), "there is no combo to take apart"
    tuned = deepjit.tune(path)
    assert tuned.metadata["build.measured"] == "on Stand-in" and tuned.metadata["build.targets"] == "sm_90"
    assert tuned.report["tuning"]["measured"] > 0
    generated = [step for step in tuned.steps if step["tactic"].startswith("nvrtc")]
    assert generated and any(step["time_us"] > 0 for step in generated)
    assert not any(step["time_us"] for step in plain.steps if step["tactic"].startswith("nvrtc"))
    assert tuned.metadata.get("build.host_steps") == plain.metadata.get("build.host_steps")
    assert_agree(tuned, on_cpu, name)
    tuned.save(path)
    assert targets_in(path) == ["sm_90"]
    assert_agree(deepjit.load(path), on_cpu, name)


def test_the_ledger_is_that_of_a_build_here(tmp_path):
    lock = tmp_path / "lock"
    built = deepjit.build(model("many small"), device="cuda", lock=lock, ranges=ranges("many small"))
    tuned = deepjit.tune(built_without_a_gpu(tmp_path, "many small"), lock=lock)
    assert tuned.report["tuning"]["measured"] == 0
    assert tuned.why() == built.why() and tuned.steps == built.steps
    assert tuned.serialize() == built.serialize()


def test_code_for_another_gpu_is_refused_and_tuning_makes_it(tmp_path):
    path = built_without_a_gpu(tmp_path, "many small", "--target", "sm_80,sm_120")
    assert targets_in(path) == ["sm_80", "sm_120"]
    refused = run_program(tmp_path, "run", "m.dje", "-i", "x=random:1")
    assert refused.code == 2 and "E404 ENGINE_INCOMPATIBLE" in refused.err
    assert "sm_80, sm_120" in refused.err and "is sm_90" in refused.err and "deepjit tune" in refused.err
    told = ok(tmp_path, "tune", "m.dje", "--json").json
    assert told["measured"] > 0 and targets_in(path) == ["sm_90"]
    assert_file_agrees(tmp_path, "m.dje", "many small")
    ok(tmp_path, "tune", "m.dje", "--target", "sm_80,sm_90")
    assert targets_in(path) == ["sm_80", "sm_90"]
    assert_file_agrees(tmp_path, "m.dje", "many small")


@pytest.mark.parametrize(
    ("major", "minor", "runs"),
    [
        (8, 0, True),
        (8, 6, True),
        (8, 7, True),
        (8, 9, True),
        (10, 3, True),
        (12, 1, True),
        (7, 5, False),
        (11, 0, False),
    ],
)
def test_a_gpu_takes_the_code_of_its_generation(major, minor, runs, tmp_path):
    """The stand-in refuses code of other generations and of newer chips, so that it ran says that the right one was
    loaded."""
    built_without_a_gpu(tmp_path, "many small")
    gpu = {"DEEPJIT_FAKE_CUDA": f"attribute75={major} attribute76={minor}"}
    if runs:
        assert_file_agrees(tmp_path, "m.dje", "many small", environment=gpu)
    else:
        done = run_program(tmp_path, "run", "m.dje", "-i", "x=random:1", environment=gpu)
        assert done.code == 2 and "E404" in done.err and f"is sm_{major}{minor}" in done.err


def test_errors(tmp_path):
    path = built_without_a_gpu(tmp_path, "many small", "--target", "sm_90")
    before = path.read_bytes()
    for arguments, words in [
        (["--device", "cpu"], "E404 ENGINE_INCOMPATIBLE"),
        (["--device", "cuda:7"], "E704 DEVICE_MISSING"),
        (["--target", "hopper"], "E804 ARGUMENT"),
    ]:
        failed = run_program(tmp_path, "tune", "m.dje", *arguments)
        assert failed.code == 2 and words in failed.err, failed.err
    lost = run_program(tmp_path, "tune", "m.dje", environment=NO_GPU)
    assert lost.code == 2 and "E703 LIBRARY_MISSING" in lost.err
    assert path.read_bytes() == before


def test_steps_that_may_not_run_on_the_cpu_may_not_after_tuning_either(tmp_path):
    path = built_without_a_gpu(tmp_path, "many small", "--device-only")
    assert deepjit.tune(path).metadata["build.device_only"] == "yes"
    with pytest.raises(deepjit.Error) as caught:
        deepjit.tune(path, force_tactic="llvm")
    assert caught.value.name == "NO_DEVICE_KERNEL"


def test_a_tactic_that_is_forced_to_the_cpu_comes_back(tmp_path):
    on_host = deepjit.build(model("image"), device="cuda", force_tactic="llvm", ranges=ranges("image"))
    assert "build.host_steps" in on_host.metadata
    assert any(entry["rule"] == "device-limit" for entry in on_host.why())
    tuned = deepjit.tune(on_host)
    assert "build.host_steps" not in tuned.metadata
    assert not any(entry["rule"] == "device-limit" for entry in tuned.why())
    assert_agree(tuned, on_host, "image")


def test_twenty_builds_with_one_lockfile_are_one_file(tmp_path):
    sums = set()
    for _ in range(20):
        engine = deepjit.build(model("image"), device="cuda", lock=tmp_path / "lock", ranges=ranges("image"))
        sums.add(hashlib.sha256(engine.serialize()).hexdigest())
    assert len(sums) == 1


def test_a_killed_build_goes_on_where_it_was(tmp_path):
    (tmp_path / "m.onnx").write_bytes(model("image").SerializeToString())
    command = ["build", "m.onnx", "-o", "m.dje", "--device", "cuda", *SHAPES]
    cached = [*command, "--tune-cache", "cache"]
    told = killed_while_tuning(tmp_path, dict(os.environ), *command)
    assert told == 3 and not (tmp_path / "m.dje").exists()
    again = ok(tmp_path, *cached, "--json").json
    assert again["reused"] >= 2 and again["measured"] >= 1 and again["kernels_loaded"] > 0
    last = ok(tmp_path, *cached, "--json").json
    assert last["measured"] == 0 and last["kernels_compiled"] == 0
    assert last["reused"] == again["reused"] + again["measured"]
    assert_file_agrees(tmp_path, "m.dje")


@pytest.mark.parametrize("budget", ["1ms", "1s"])
def test_a_budget_ends_tuning_with_an_engine_that_runs_on_the_gpu(budget, tmp_path):
    (tmp_path / "m.onnx").write_bytes(model("image").SerializeToString())
    start = time.monotonic()
    command = ["build", "m.onnx", "-o", "m.dje", "--device", "cuda", *SHAPES, "--device-only", "--build-budget", budget]
    told = ok(tmp_path, *command, "--json").json
    assert time.monotonic() - start < 60
    if budget == "1ms":
        assert told["measured"] == 0 and told["out_of_budget"] > 0
    assert_file_agrees(tmp_path, "m.dje")


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("name", MODELS)
def test_low_levels_measure_nothing_on_a_gpu(name, level):
    engine = deepjit.build(model(name), device="cuda", level=level, ranges=ranges(name))
    assert engine.metadata["build.targets"] == "sm_90"
    assert f"-O{level} measures nothing" in engine.metadata["build.measured"]
    assert any("deepjit tune" in warning for warning in engine.report["warnings"])
    assert not any(step["time_us"] for step in engine.steps if step["tactic"].startswith("nvrtc"))
    on_cpu = deepjit.build(model(name), tune=False, ranges=ranges(name))
    assert_agree(engine, on_cpu, name)
    tuned = deepjit.tune(engine)
    assert tuned.metadata["build.measured"] == "on Stand-in" and tuned.metadata["build.level"] == str(level)
    assert_agree(tuned, on_cpu, name)


def test_steps_of_a_library_take_what_it_proposes_until_it_is_measured(tmp_path):
    """On the stand-in cuDNN: level 1 compiles nothing for convolutions, and tuning takes engines that were timed."""
    (tmp_path / "m.onnx").write_bytes(model("image").SerializeToString())
    with_cudnn = {"DEEPJIT_CUDA_PATH": f"{FOLDER}:{FOLDER.parent / 'fake_cudnn'}"}
    convolutions = lambda: [s for s in deepjit.load(tmp_path / "m.dje").steps if "Conv" in s["op"]]  # noqa: E731
    ok(tmp_path, "build", "m.onnx", "-o", "m.dje", "--device", "cuda", "-O1", *SHAPES, environment=with_cudnn)
    assert len(convolutions()) == 3 and all(s["tactic"].startswith("cudnn:eng") for s in convolutions())
    assert not any(s["time_us"] for s in convolutions())
    assert_file_agrees(tmp_path, "m.dje", environment=with_cudnn)
    ok(tmp_path, "tune", "m.dje", environment=with_cudnn)
    assert all(s["time_us"] > 0 for s in convolutions())
    assert_file_agrees(tmp_path, "m.dje", environment=with_cudnn)


def test_an_open_engine_is_not_changed_by_tuning(tmp_path):
    engine = deepjit.load(built_without_a_gpu(tmp_path, "image"))
    context = engine.create_context()
    before = context.run(feeds("image", 4))["y"].copy()
    ok(tmp_path, "tune", "m.dje")
    tuned = deepjit.tune(engine)
    assert engine.metadata["build.measured"].startswith("no: ")
    assert (context.run(feeds("image", 4))["y"] == before).all()
    assert_agree(tuned, engine, "image")
