"""The scripts that go to a machine with a GPU (tests/gpu), as far as they run without one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import deepjit
import models
import native
import numpy as np
import pytest
import stand_in_gpu

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "gpu"), str(ROOT / "tests" / "api")]

import export_models  # noqa: E402
import parts_time  # noqa: E402
import parts_whole  # noqa: E402
from small_models import conv_relu, image  # noqa: E402


def run(*command, **environment) -> str:
    env = {**stand_in_gpu.environment(), "PYTHONPATH": str(ROOT / "tools"), **environment}
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_native_module_is_like_the_package():
    engine, model = native.build(conv_relu(), ranges={"x": ((1, 3, 8, 8), (2, 3, 8, 8), (4, 3, 8, 8))}), conv_relu()
    want = deepjit.build(model).run({"x": image()})["y"]
    np.testing.assert_allclose(engine.run({"x": image()})["y"], want, rtol=1e-6, atol=1e-6)
    context = engine.create_context()
    prepared = context.prepared({"x": image(3)})
    for _ in range(2):
        context.run_prepared(prepared)
    assert context.outputs()["y"].shape == (3, 4, 8, 8)
    for feeds, options in (({"x": image(5)}, {}), ({"x": image()}, {"device": "nowhere"})):
        with pytest.raises(native.Error) as ours:
            native.build(conv_relu(), ranges={"x": ((1, 3, 8, 8),) * 2 + ((4, 3, 8, 8),)}, **options).run(feeds)
        with pytest.raises(deepjit.Error) as theirs:
            deepjit.build(model, ranges={"x": ((1, 3, 8, 8),) * 2 + ((4, 3, 8, 8),)}, **options).run(feeds)
        assert (ours.value.code, ours.value.name) == (theirs.value.code, theirs.value.name)
        assert ours.value.message == theirs.value.message


@pytest.mark.parametrize("text", ["string", "sequence", "optional", "INT4", "BFLOAT16"])
def test_every_kind_of_value_goes_through_the_native_module(text):
    told = run(ROOT / "tests/nodes/run_nodes.py", "--native", "-k", text, "--report", os.devnull)
    passed = int(told.split()[1].rstrip(","))
    assert passed >= 6 and "failed 0" in told and "crashed 0" in told


def test_node_tests_run_on_a_gpu(tmp_path):
    report = tmp_path / "nodes.json"
    options = ["--native", "--device", "cuda", "--report", tmp_path / "r.txt", "--json", report, "-k", "_gelu"]
    assert "8 with kernels on the GPU" in run(ROOT / "tests/nodes/run_nodes.py", *options)
    outcomes = json.loads(report.read_text())
    assert len(outcomes) == 8 and all(o["status"] == "passed" for o in outcomes.values())


def test_node_tests_end_in_time(tmp_path):
    command = [sys.executable, ROOT / "tests/nodes/run_nodes.py", "--native", "--seconds", "0", "--report"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    done = subprocess.run([*command, tmp_path / "r.txt"], capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 1 and "no time for 1676 more" in done.stdout


def test_real_models_are_compared_on_a_gpu(tmp_path):
    report = tmp_path / "models.json"
    script, folder = ROOT / "tests/gpu/check_models.py", models.folder()
    told = run(script, folder, "tashkeel_rawi", "--json", report, "--workers", "1")
    (row,) = json.loads(report.read_text())
    assert row["ok"] and row["kernels"] > 3 and row["error"] <= row["allowed"] < 0.1 and " ok " in told


def test_models_travel_in_pieces(tmp_path, capsys):
    name = "ppocr_cls"
    export_models.pack(tmp_path / "packed", [name], 200_000)
    pieces = sorted((tmp_path / "packed").rglob("*.xz.*"))
    assert len(pieces) >= 3 and all(p.stat().st_size <= 200_000 for p in pieces)
    assert len({p.parent for p in pieces}) == len(pieces)
    export_models.unpack(tmp_path / "packed", tmp_path / "there")
    there = tmp_path / "there" / models.MODELS[name].member
    assert there.read_bytes() == models.path(name).read_bytes()
    there.unlink()
    pieces[1].unlink()
    export_models.unpack(tmp_path / "packed", tmp_path / "there")
    assert not there.exists() and f"{len(pieces) - 1} of {len(pieces)} pieces" in capsys.readouterr().out


def test_engines_are_run_for_whoever_watches(tmp_path):
    (tmp_path / "m.onnx").write_bytes(conv_relu().SerializeToString())
    engine = tmp_path / "m.dje"
    native.build(str(tmp_path / "m.onnx"), device="null", tune=False).save(engine)
    (tmp_path / "m.json").write_text(json.dumps({"shapes": {"x": [2, 3, 8, 8]}}))
    told = run(ROOT / "tests/gpu/run_engines.py", engine, DEEPJIT_LIBRARY=str(ROOT / "build/dev"))
    assert told.startswith("1 engines with ") and told.endswith(" generated kernels ran, 0 failed, no time for 0\n")


def test_reports_of_compute_sanitizer_are_counted():
    assert parts_whole.reports_of("========= ERROR SUMMARY: 3 errors\n") == 3
    assert parts_whole.reports_of("========= ERROR SUMMARY: 0 errors\n") == 0
    assert parts_whole.reports_of("RACECHECK SUMMARY: 12 hazards displayed (2 errors, 10 warnings)") == 12
    assert parts_whole.reports_of("Error: the device is not supported") is None


NCU = """==PROF== Connected to process 1
"ID","Kernel Name","Grid Size","Metric Name","Metric Unit","Metric Value"
"0","k_a(int)","(4, 1, 1)","gpu__time_duration.sum","ns","1,234.5"
"0","k_a(int)","(4, 1, 1)","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","12.5"
"1","k_b(int)","(9, 1, 1)","gpu__time_duration.sum","us","3.5"
"1","k_b(int)","(9, 1, 1)","launch__waves_per_multiprocessor","","n/a"
"""


def test_counters_of_ncu_are_read():
    first, second = parts_time.read_counters(NCU)
    assert first == {"kernel": "k_a(int)", "grid": "(4, 1, 1)", "us": 1.2345, "dram": 12.5}
    assert second == {"kernel": "k_b(int)", "grid": "(9, 1, 1)", "us": 3.5}
    assert parts_time.read_counters("nothing\n") == []
