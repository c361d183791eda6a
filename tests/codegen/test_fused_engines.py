"""Engines with fused regions: saved and loaded, on threads, by several contexts, with fewer threads than asked for."""

import hashlib
import json
import os
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import deepjit
import numpy as np
import onnx
import pytest
from fused import CLI, REGION, Fused, assert_equal_bits, assert_same, feeds_of, launches, model, nodes

CHAIN = nodes("m{i} = Mul (s{p}, a) t{i} = Tanh (m{i}) s{i} = Add (t{i}, x)", 6)
POINTWISE = f"g (float[N,W] x, float[W] a) => (float[N,W] y) {{ s0 = Mul (x, a) {CHAIN} y = Neg (s6) }}"
ROWS = (
    "g (float[N,W] x, float[W] a) => (float[N,W] y, float[N,1] m)"
    "{ b = Mul (x, a) c = Exp (b) m = ReduceSum (c, last) y = Div (c, m) }"
)
LAST = {"last": np.array([-1])}
MODELS = {"pointwise": (POINTWISE, {}), "rows": (ROWS, LAST)}

RUN = """
import sys, numpy as np, deepjit
engine = deepjit.load(sys.argv[1], threads=int(sys.argv[3]))
with np.load(sys.argv[2]) as given:
    feeds = dict(given)
np.savez(sys.argv[4], **engine.run(feeds))
"""


def run_elsewhere(folder: Path, engine, feeds: dict, threads: int = 1, **environment) -> dict:
    """What the saved engine gives in another process."""
    engine.save(folder / "m.dje")
    np.savez(folder / "in.npz", **feeds)
    paths = os.pathsep.join([str(Path(deepjit.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", RUN, folder / "m.dje", folder / "in.npz", threads, folder / "out.npz"]
    done = subprocess.run(
        [str(c) for c in command],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )
    assert done.returncode == 0, done.stderr
    with np.load(folder / "out.npz") as out:
        return dict(out)


def fused_of(name: str, **options) -> Fused:
    fused = Fused(model(*MODELS[name]), **options)
    fused.assert_generated()
    return fused


def chain_model() -> onnx.ModelProto:
    """The chain of the benchmarks: twelve gated blocks and a LayerNormalization."""
    rng = np.random.default_rng(0)
    constants = {"lo": np.float32(-3), "hi": np.float32(3), "g": np.ones(256, np.float32), "be": np.zeros(256, "f")}
    for i in range(1, 13):
        constants[f"s{i}"], constants[f"b{i}"] = rng.random((2, 256), dtype=np.float32)
    block = (
        "m{i} = Mul (y{p}, s{i}) a{i} = Add (m{i}, b{i}) z{i} = Clip (a{i}, lo, hi) g{i} = Gelu (z{i})"
        " q{i} = Sigmoid (z{i}) r{i} = Mul (x, q{i}) y{i} = Add (g{i}, r{i})"
    )
    text = nodes(block, 12).replace("y0", "x")
    return model(
        f"chain (float[n,400,256] x) => (float[n,400,256] out) {{ {text} out = LayerNormalization (y12, g, be) }}",
        constants,
        opset=20,
    )


def test_chain_is_one_launch():
    fused = Fused(chain_model())
    fused.assert_generated()
    feeds = feeds_of(fused.made, {"n": 1})
    assert fused.launches(feeds) == 1
    assert [len(region["origins"]) for region in fused.regions] == [85]
    fused.compare(feeds)


def test_regions_can_be_switched_off():
    made = model(POINTWISE)
    for options in ({"disable": ["regions"]}, {"level": 1}):
        engine = deepjit.build(made, tune=False, **options)
        assert "deepjit.Region" not in [step["op"] for step in engine.steps]
        assert launches(engine, {"x": (2, 5), "a": (5,)}) == 20


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dims", [(1, 30011), (3001, 17), (5, 4099), (2, 64), (1, 1), (257, 257)], ids=str)
def test_two_threads(name, dims):
    """Rows or columns are shared out; no element is left over, and none depends on who computes it."""
    one, two = fused_of(name), fused_of(name, threads=2)
    feeds = feeds_of(one.made, dict(zip("NW", dims, strict=True)))
    assert_equal_bits(two.engine.run(feeds), one.compare(feeds))


@pytest.mark.parametrize("name", MODELS)
def test_saved_engine_in_another_process(name, tmp_path):
    fused = fused_of(name)
    feeds = feeds_of(fused.made, {"N": 7, "W": 63}, hard=True)
    assert_equal_bits(run_elsewhere(tmp_path, fused.engine, feeds), fused.engine.run(feeds))


def test_loaded_from_bytes():
    fused = fused_of("rows")
    feeds = feeds_of(fused.made, {"N": 4, "W": 33})
    again = deepjit.load(fused.engine.serialize())
    assert_equal_bits(again.run(feeds), fused.engine.run(feeds))


@pytest.mark.parametrize("name", MODELS)
def test_fewer_threads_than_asked_for(name, tmp_path):
    """OpenMP gives fewer threads at a limit, inside other parallel regions, and with OMP_DYNAMIC on a busy machine."""
    fused = fused_of(name, threads=2)
    feeds = feeds_of(fused.made, {"N": 501, "W": 401})
    got = run_elsewhere(tmp_path, fused.engine, feeds, threads=2, OMP_THREAD_LIMIT="1")
    assert_equal_bits(got, fused.engine.run(feeds))


@pytest.mark.parametrize("name", MODELS)
def test_contexts_on_threads(name):
    """Contexts of one engine share the code and nothing else."""
    fused = fused_of(name)
    feeds = [feeds_of(fused.made, {"N": 3 + k, "W": 40 + k}, seed=k) for k in range(8)]
    wanted = [fused.engine.run(f) for f in feeds]

    def work(k: int) -> list[dict]:
        context = fused.engine.create_context()
        return [context.run(feeds[(k + turn) % 8]) for turn in range(8)]

    with ThreadPoolExecutor(4) as pool:
        for k, results in enumerate(pool.map(work, range(4))):
            for turn, result in enumerate(results):
                assert_equal_bits(result, wanted[(k + turn) % 8])


@pytest.mark.parametrize("name", MODELS)
def test_many_shapes_in_one_context(name):
    fused = fused_of(name)
    for n in (1, 2, 3, 5):
        for w in (1, 2, 13, 31, 97):
            fused.compare(feeds_of(fused.made, {"N": n, "W": w}, seed=n * w))


@pytest.mark.parametrize("dims", [(0, 5), (5, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_zero_sized(name, dims):
    fused = fused_of(name)
    feeds = feeds_of(fused.made, dict(zip("NW", dims, strict=True)))
    got = fused.engine.run(feeds)
    assert_same(got, fused.level_0.run(feeds), "level 0")
    assert got["y"].shape == dims
    if name == "rows":
        assert got["m"].shape == (dims[0], 1) and not got["m"].any()


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)], ids=str)
def test_zero_sized_at_build(shape):
    text = ROWS.replace("N,W", f"{shape[0]},{shape[1]}").replace("N,1", f"{shape[0]},1").replace("[W]", f"[{shape[1]}]")
    fused = Fused(model(text, LAST), ort=False)
    fused.compare(feeds_of(fused.made))


def test_range_with_zero():
    made = model(POINTWISE)
    ranges = {"x": ((0, 5), (4, 5), (9, 5)), "a": (5,)}
    engine = deepjit.build(made, threads=1, ranges=ranges, force_tactic="llvm")
    level_0 = deepjit.build(made, threads=1, level=0, tune=False)
    for n in (0, 1, 9):
        feeds = feeds_of(made, {"N": n, "W": 5})
        assert_same(engine.run(feeds), level_0.run(feeds), "level 0")


def test_same_build_twice():
    """Equal models give equal code; a lockfile gives equal engines."""
    made = model(ROWS, LAST)
    first, second = Fused(made), Fused(made)
    feeds = feeds_of(made, {"N": 4, "W": 33})
    assert_equal_bits(first.engine.run(feeds), second.engine.run(feeds))


def test_lockfile(tmp_path):
    """The choice of a region is locked as that of any step, and gives the same engine."""
    made = model(ROWS, LAST)
    first = deepjit.build(made, threads=1, force_tactic="llvm", lock=tmp_path / "m.lock")
    again = deepjit.build(made, threads=1, lock=tmp_path / "m.lock")
    assert again.report["tuning"]["measured"] == 0
    assert again.steps == first.steps and again.serialize() == first.serialize()


def test_without_tuning_steps_run_one_by_one():
    made = model(POINTWISE)
    engine = deepjit.build(made, threads=1, tune=False)
    assert REGION in [step["op"] for step in engine.steps]
    assert launches(engine, {"x": (2, 5), "a": (5,)}) == 20


def test_inspect_tells_the_tactic_of_a_region(tmp_path):
    fused = fused_of("rows")
    fused.engine.save(tmp_path / "m.dje")
    done = subprocess.run([CLI, "inspect", tmp_path / "m.dje", "--json"], capture_output=True, text=True, timeout=60)
    regions = [step for step in json.loads(done.stdout)["steps"] if step["op"] == REGION]
    assert [step["tactic"] for step in regions] == [region["tactic"] for region in fused.regions]


def rehashed(file: bytes) -> bytes:
    """An edited engine file with the hashes of its sections and header made right (engine/format.h)."""
    data = bytearray(file)
    sections = struct.unpack_from("<I", data, 12)[0]
    end = 32 + 64 * sections
    for entry in range(32, end, 64):
        offset, size = struct.unpack_from("<QQ", data, entry + 8)
        section = bytes(data[offset : offset + size])
        chunks = [hashlib.sha256(section[at : at + 2**20]).digest() for at in range(0, size, 2**20)]
        data[entry + 32 : entry + 64] = hashlib.sha256(b"".join(chunks)).digest()
    data[end : end + 32] = hashlib.sha256(bytes(data[:end])).digest()
    return bytes(data)


def test_foreign_code_falls_back():
    """Code for another CPU is not run: its steps run one by one."""
    fused = fused_of("rows")
    variant = fused.regions[0]["tactic"].split(":")[1].encode()
    foreign = b"sse9999"[: len(variant)]
    file = fused.engine.serialize()
    assert variant in file and deepjit.load(rehashed(file)).steps == fused.engine.steps
    engine = deepjit.load(rehashed(file.replace(variant, foreign)))
    assert [s["tactic"] for s in engine.steps if s["op"] == REGION] == [f"llvm:{foreign.decode()}"]
    feeds = feeds_of(fused.made, {"N": 4, "W": 33})
    assert_same(engine.run(feeds), fused.level_0.run(feeds), "level 0")
