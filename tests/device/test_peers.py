"""The comparisons on a GPU (bench/peers): their statistics, and the detector's story on the stand-in GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import stand_in_gpu

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "bench" / "peers"
sys.path.insert(0, str(PEERS))

import blocks  # noqa: E402
import mixed_sizes  # noqa: E402


def test_blocks_are_mirrored():
    order = []

    def side(name, us):
        return lambda: order.append(name) or us

    mine, theirs = blocks.interleave(side("ours", 5.0), {"a": side("a", 10.0), "b": side("b", 20.0)}, 2)
    assert order == ["a", "b", "ours", "ours", "b", "a"] * 2
    assert mine == [5.0] * 4 and theirs == {"a": [10.0] * 4, "b": [20.0] * 4}
    assert blocks.interleave(None, {"a": side("a", 1.0)}, 1) == ([], {"a": [1.0, 1.0]})


def test_a_win_counts_beyond_the_noise():
    told = blocks.compare([10, 10, 10, 10.5], [20, 21, 20, 20])
    assert told["verdict"] == "faster" and told["noise"] == pytest.approx(0.05)
    assert told["low"] == pytest.approx(40 / 20.5) and told["high"] == pytest.approx(2.05)
    assert told["ratio"] == pytest.approx((told["low"] + told["high"]) / 2)
    assert blocks.compare([10, 12], [11.5, 11.5])["verdict"] == "even"  # ours differs from itself by 20%
    assert blocks.compare([10, 10], [5, 5])["verdict"] == "slower"


def test_percentiles_and_means():
    assert blocks.percentiles(range(1, 201)) == {"p50": 100, "p95": 190, "p99": 198}
    assert blocks.percentiles([7]) == {"p50": 7, "p95": 7, "p99": 7}
    assert blocks.geometric_mean([2, 8]) == pytest.approx(4)


def test_the_trace_is_that_of_its_seed_and_has_every_size():
    order = mixed_sizes.requests(200)
    assert order == mixed_sizes.requests(200) and order != mixed_sizes.requests(200, seed=1)
    assert set(order) == set(mixed_sizes.frames_of(8)) and len(set(order)) == 12
    ran = []
    calls = {name: (lambda name=name: ran.append(name)) for name in set(order)}
    told = mixed_sizes.measure(calls, order[:30], steady_runs=4)
    assert ran[3:63] == order[:30] * 2 and ran[:3] == order[:1] * 3 and len(ran) == 63 + 12 * 9
    assert told["requests"] == 30 and set(told["steady_p50_ms"]) == set(order)
    assert all(told[what]["of_steady"].keys() == {"p50", "p95", "p99"} for what in ("first", "again"))


def test_a_compiler_in_the_process_is_seen():
    lines = "7f00-7f01 r-xp 00000000 08:01 1   /usr/lib/libnvrtc-builtins.so.13.0\n"
    assert mixed_sizes.COMPILERS.search(lines.strip())[0] == "libnvrtc-builtins.so.13.0"
    assert not mixed_sizes.COMPILERS.search("7f00-7f01 r-xp 0 08:01 1 /usr/lib/libcuda.so.1")
    # Other tests load compilers: a process of its own has none.
    alone = [sys.executable, "-c", "import mixed_sizes; assert mixed_sizes.compilers() == []"]
    assert subprocess.run(alone, cwd=PEERS, check=False).returncode == 0


def story(folder: Path, parts: str, *options: str, env: dict | None = None) -> dict:
    """With a narrow net and small frames."""
    command = [sys.executable, PEERS / "gpu_detector.py", "--tool", ROOT / "build/dev/cli/deepjit", "--parts", parts]
    command += ["--out", folder, "--folder", folder / "nets", "--width", "0.125", "--scale", "7", *options]
    command += ["--bench-seconds", "0.05", "--steady", "1"]
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, env=env, timeout=560)
    told = json.loads((folder / "gpu_detector.json").read_text())
    assert told["skipped"] == [], done.stdout + done.stderr
    return told


def test_a_trace_compiles_nothing(tmp_path):
    """In a process of its own, on a device that computes nothing."""
    told = story(tmp_path, "trace", "--device", "null", "--build-args=--no-tune", "--requests", "20")["trace"]
    assert told["compilers_loaded"] == [] and len(told["boxes"]) == 12 and told["requests"] == 20
    assert (tmp_path / "nets" / "detector_dynamic_fused_whole.json").exists()


@pytest.mark.large
def test_the_story_of_a_detector(tmp_path):
    """Fused and not, with numbers, then the trace; minutes on the stand-in GPU."""
    build = "--build-args=--no-tune --target sm_90"
    told = story(tmp_path, "fixed,trace", build, "--requests", "2", env=stand_in_gpu.environment())
    launches = {row["form"]: row["sizes"]["720x1280"]["launches"] for row in told["rows"]}
    assert launches["fused"] < 0.5 * launches["unfused"]
    assert all("NonMaxSuppression (1)" in row["sizes"]["720x1280"]["host_steps"] for row in told["rows"])
    assert told["trace"]["compilers_loaded"] == [] and len(told["trace"]["boxes"]) == 12
