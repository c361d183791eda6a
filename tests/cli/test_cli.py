"""The command line: what each verb prints and writes, and its exit codes."""

import re

import numpy as np
import pytest
from cli_models import ROOT, mlp_expected, save
from onnx import TensorProto, helper

BENCH_KEYS = [
    "model", "device", "precision", "shapes", "threads", "device_us", "host_us", "throughput", "launches", "host_steps",
    "peak_bytes", "held_bytes", "build_s", "load_s", "max_rel_error",
]  # fmt: skip
VERBS = ["build", "run", "bench", "profile", "inspect", "compare", "doctor", "limits", "devices"]


def ok(result):
    assert result.code == 0, result.err
    return result


def failed(result, code: int, name: str, *words: str):
    assert result.code not in (0, 1), result.out
    lines = result.err.strip().split("\n")
    errors = [line for line in lines if line.startswith("error[")]
    assert len(errors) == 1, result.err
    assert errors[0].startswith(f"error[E{code} {name}]: "), result.err
    assert lines[-2] == errors[0] and re.match(r"hint: \S", lines[-1]), result.err
    for word in words:
        assert word in errors[0] + lines[-1]


def test_version_and_help(cli):
    assert re.fullmatch(r"deepjit \d+\.\d+\.\d+\n", ok(cli("--version")).out)
    text = ok(cli("--help")).out
    for verb in VERBS:
        assert re.search(rf"^  {verb} ", text, re.MULTILINE)
    assert "calibrate" not in text and "blame" not in text


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_each_verb_has_an_example(cli, verb):
    assert f"Example: deepjit {verb} " in ok(cli(verb, "--help")).out


# ---- limits


def test_limits_are_those_of_the_table(cli):
    rows = ok(cli("limits", "--json")).json["limits"]
    by_name = {row["name"]: row for row in rows}
    assert by_name["graph_depth"] == {
        "stage": "import", "name": "graph_depth", "value": 64, "unit": "levels", "error": 104,
        "why": "subgraphs and function calls are walked by recursion",
    }  # fmt: skip
    text = ok(cli("limits")).out.splitlines()
    assert [line.split()[1] for line in text[1:]] == [row["name"] for row in rows]


# ---- build


def test_build_then_run_gives_the_formula(cli, mlp, tmp_path):
    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    ok(cli("build", "mlp.onnx", "-o", "m.dje"))
    ok(cli("run", "m.dje", "-i", "x=x.npy", "-o", "out"))
    y = np.load(tmp_path / "out" / "y.npy")
    assert y.dtype == np.float32 and y.shape == (3, 4)
    np.testing.assert_allclose(y, mlp_expected(mlp, x), rtol=1e-5, atol=1e-5)


def test_build_json_describes_the_engine(cli, mlp, tmp_path):
    summary = ok(cli("build", "mlp.onnx", "--json", "--range", "x=1x8:4x8:16x8", "--threads", 1)).json
    assert summary["engine"] == "mlp.dje" and summary["threads"] == 1
    assert summary["engine_bytes"] == (tmp_path / "mlp.dje").stat().st_size
    assert set(summary["stages_s"]) == {"import", "passes", "lower", "tune", "plan"}
    assert sum(summary["tactics"].values()) == summary["steps"] > 0
    assert summary["arena_lower_bound"] <= summary["arena_bytes"]


def test_a_range_is_enforced(cli, mlp):
    ok(cli("build", "mlp.onnx", "-o", "m.dje", "--range", "x=1x8:2x8:4x8"))
    ok(cli("run", "m.dje", "-i", "x=random:1", "--shapes", "x=4x8"))
    failed(cli("run", "m.dje", "-i", "x=random:1", "--shapes", "x=5x8"), 504, "OUT_OF_RANGE", '"x"')


def test_a_lockfile_gives_the_same_engine_byte_for_byte(cli, mlp, tmp_path):
    first = ok(cli("build", "mlp.onnx", "-o", "1.dje", "--lock", "m.lock", "--json")).json
    lock = (tmp_path / "m.lock").read_bytes()
    second = ok(cli("build", "mlp.onnx", "-o", "2.dje", "--lock", "m.lock", "--json")).json
    assert first["measured"] > 0 and second["measured"] == 0 and second["reused"] == first["measured"]
    assert (tmp_path / "1.dje").read_bytes() == (tmp_path / "2.dje").read_bytes()
    assert (tmp_path / "m.lock").read_bytes() == lock


def test_a_damaged_lockfile_is_named(cli, mlp, tmp_path):
    (tmp_path / "m.lock").write_text("what is this\n")
    failed(cli("build", "mlp.onnx", "--lock", "m.lock"), 804, "ARGUMENT", "line 1")
    assert not (tmp_path / "mlp.dje").exists()


def test_kernels_come_from_the_cache_in_a_second_process(cli, mlp, tmp_path):
    build = [
        "build",
        "mlp.onnx",
        "--tune-cache",
        "cache",
        "--disable",
        "fuse_epilogue",
        "--force-tactic",
        "llvm",
        "--json",
    ]
    first, second = ok(cli(*build)).json, ok(cli(*build)).json
    assert first["kernels_compiled"] > 0 and first["kernels_loaded"] == 0
    assert second["kernels_compiled"] == 0 and second["kernels_loaded"] == first["kernels_compiled"]
    assert second["compile_s"] == 0
    kernels = list((tmp_path / "cache").rglob("*.kernel"))
    assert kernels and all("axes" in kernel.with_suffix(".ir").read_text() for kernel in kernels)
    kernels[0].write_bytes(kernels[0].read_bytes()[:-1])
    assert ok(cli(*build)).json["kernels_compiled"] == 1


def test_the_tune_cache_is_reused(cli, mlp):
    first = ok(cli("build", "mlp.onnx", "--tune-cache", "cache", "--json")).json
    second = ok(cli("build", "mlp.onnx", "--tune-cache", "cache", "--json")).json
    assert first["measured"] > 0 and second["measured"] == 0 and second["reused"] == first["measured"]


def test_no_tune_leaves_the_reference(cli, mlp):
    assert set(ok(cli("build", "mlp.onnx", "--no-tune", "--json")).json["tactics"]) == {"reference"}


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level_gives_the_same(cli, mlp, tmp_path, level):
    x = np.random.default_rng(2).standard_normal((2, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    ok(cli("run", "mlp.onnx", "-i", "x=x.npy", "-o", "out", f"-O{level}"))
    np.testing.assert_allclose(np.load(tmp_path / "out" / "y.npy"), mlp_expected(mlp, x), rtol=1e-5, atol=1e-5)


def test_stop_after_writes_no_engine(cli, mlp, tmp_path):
    result = ok(cli("build", "mlp.onnx", "--stop-after", "passes", env={"DEEPJIT_DUMP": "graph"}))
    assert "MatMul" in result.err and "stopped after passes" in result.out
    assert not (tmp_path / "mlp.dje").exists()


def test_dumps_go_to_files(cli, mlp, tmp_path):
    env = {"DEEPJIT_DUMP": "graph,program,tactics,plan", "DEEPJIT_DUMP_DIR": "dumps"}
    ok(cli("build", "mlp.onnx", env=env))
    assert {f.name for f in (tmp_path / "dumps").iterdir()} == {"graph.txt", "program.txt", "tactics.txt", "plan.txt"}
    assert all(f.stat().st_size > 20 for f in (tmp_path / "dumps").iterdir())


def test_verbose_tells_what_was_measured(cli, mlp):
    quiet = ok(cli("build", "mlp.onnx")).err
    verbose = ok(cli("build", "mlp.onnx", "--verbose")).err
    assert "MatMul" in verbose and "MatMul" not in quiet


def test_force_tactic_by_environment(cli, mlp):
    forced = ok(cli("build", "mlp.onnx", "--json", env={"DEEPJIT_FORCE_TACTIC": "reference"})).json
    assert set(forced["tactics"]) == {"reference"}


# ---- run


NPY_TYPES = [
    (TensorProto.FLOAT, "<f4"), (TensorProto.DOUBLE, "<f8"), (TensorProto.FLOAT16, "<f2"), (TensorProto.BOOL, "?"),
    (TensorProto.INT8, "i1"), (TensorProto.UINT8, "u1"), (TensorProto.INT16, "<i2"), (TensorProto.UINT16, "<u2"),
    (TensorProto.INT32, "<i4"), (TensorProto.UINT32, "<u4"), (TensorProto.INT64, "<i8"), (TensorProto.UINT64, "<u8"),
]  # fmt: skip


@pytest.mark.parametrize(("onnx_type", "numpy_type"), NPY_TYPES)
def test_npy_files_keep_every_type(cli, identity, tmp_path, onnx_type, numpy_type):
    identity(onnx_type)
    x = np.arange(1, 13).reshape(4, 3).astype(numpy_type)
    for name, stored in {"c": x, "f": np.asfortranarray(x), "big": x.astype(x.dtype.newbyteorder(">"))}.items():
        np.save(tmp_path / f"{name}.npy", stored)
        ok(cli("run", "identity.onnx", "-i", f"x={name}.npy", "-o", name, "--no-tune"))
        y = np.load(tmp_path / name / "y.npy")
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y, x)


def test_npy_strings(cli, identity, tmp_path):
    identity(TensorProto.STRING)
    x = np.array([["a", "Gr\u00fc\u00dfe"], ["", "\U0001f600 \u4f60"]])
    np.save(tmp_path / "x.npy", x)
    ok(cli("run", "identity.onnx", "-i", "x=x.npy", "-o", "out", "--no-tune"))
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "y.npy"), x)


def test_made_up_inputs(cli, identity, tmp_path):
    identity(TensorProto.FLOAT)

    def run(data):
        ok(cli("run", "identity.onnx", "-i", f"x={data}", "--shapes", "x=200x50", "-o", "out", "--no-tune"))
        return np.load(tmp_path / "out" / "y.npy")

    assert run("zeros").shape == (200, 50) and not run("zeros").any()
    assert (run("ones") == 1).all()
    assert (run("value:-2.5") == -2.5).all()
    one = run("random:1")
    assert abs(one.mean()) < 0.05 and abs(one.std() - 1) < 0.05
    np.testing.assert_array_equal(one, run("random:1"))
    assert (one != run("random:2")).mean() > 0.99


def test_unknown_dims_are_one_without_shapes(cli, identity):
    identity(TensorProto.FLOAT)
    output = ok(cli("run", "identity.onnx", "-i", "x=ones", "--json", "--no-tune")).json["outputs"][0]
    assert output["shape"] == [1, 1] and output["dtype"] == "float32"
    assert (output["min"], output["max"], output["mean"]) == (1, 1, 1)


def test_output_names_stay_inside_the_folder(cli, tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    names = ["../a b;$(c)", "..", "d/e", "d_e"]
    nodes = [helper.make_node("Relu", ["x"], [name]) for name in names]
    save(tmp_path / "names.onnx", nodes, [x], [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in names])
    outputs = ok(cli("run", "names.onnx", "-i", "x=ones", "-o", "out", "--json", "--no-tune")).json["outputs"]
    assert [o["name"] for o in outputs] == names
    assert len(list((tmp_path / "out").iterdir())) == 4
    assert not [f for f in tmp_path.iterdir() if f.suffix == ".npy"]


# ---- bench


@pytest.mark.parametrize("more", [[], ["--contexts", 2], ["--cold-l2"]])
def test_bench_json_has_exactly_the_keys(cli, mlp, more):
    ok(cli("build", "mlp.onnx", "-o", "m.dje"))
    result = ok(cli("bench", "m.dje", "--shapes", "x=4x8", "--iterations", 20, "--json", *more)).json
    assert list(result) == BENCH_KEYS
    assert result["shapes"] == {"x": "4x8"} and (result["device"], result["precision"]) == ("cpu", "fp32")
    for times in (result["device_us"], result["host_us"]):
        assert 0 < times["p50"] <= times["p90"] <= times["p95"] <= times["p99"]
    assert result["throughput"] > 0 and 1 <= result["launches"] <= 4 and result["peak_bytes"] > 800
    assert result["held_bytes"] > 800
    assert result["build_s"] is None and result["load_s"] > 0 and result["max_rel_error"] is None


def test_bench_of_a_model_builds_and_checks(cli, mlp):
    result = ok(cli("bench", "mlp.onnx", "--shapes", "x=4x8", "--seconds", 0.1, "--check", "--json")).json
    assert result["build_s"] > 0 and 0 <= result["max_rel_error"] < 1e-5


def test_bench_prints_a_table(cli, mlp):
    text = ok(cli("bench", "mlp.onnx", "--seconds", 0.1)).out
    for word in ("P50", "P99", "throughput", "launches", "memory"):
        assert word in text


def test_a_branch_that_the_given_shape_rules_out_does_no_harm(cli, tmp_path):
    """The else branch needs 3 columns, the then branch takes any: with 4 columns only the then branch can run."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "M"])
    way = helper.make_tensor_value_info("way", TensorProto.BOOL, [])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("t", "e")]
    then_branch = helper.make_graph([helper.make_node("Relu", ["x"], ["t"])], "then", [], outputs[:1])
    always = helper.make_node("Identity", ["e1"], ["e"])
    inner = [
        helper.make_node("If", ["true"], ["e1"], then_branch=helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["e2"])], "inner", [],
            [helper.make_tensor_value_info("e2", TensorProto.FLOAT, None)]),
            else_branch=helper.make_graph(
            [helper.make_node("Identity", ["x"], ["e3"])], "inner_else", [],
            [helper.make_tensor_value_info("e3", TensorProto.FLOAT, None)])),
        always,
    ]  # fmt: skip
    else_branch = helper.make_graph(inner, "else", [], outputs[1:])
    node = helper.make_node("If", ["way"], ["y"], then_branch=then_branch, else_branch=else_branch)
    weights = {"w": np.ones((3, 2), dtype=np.float32), "true": np.array(True)}
    save(tmp_path / "ways.onnx", [node], [x, way], [result], weights)
    result = ok(cli("run", "ways.onnx", "-i", "x=value:-1", "-i", "way=ones", "--shapes", "x=2x4", "--json")).json
    assert result["outputs"][0]["shape"] == [2, 4] and result["outputs"][0]["max"] == 0
    result = ok(cli("run", "ways.onnx", "-i", "x=ones", "-i", "way=zeros", "--shapes", "x=2x3", "--json")).json
    assert result["outputs"][0]["shape"] == [2, 2] and result["outputs"][0]["min"] == 3


# ---- inspect


def test_inspect_an_engine(cli, mlp):
    ok(cli("build", "mlp.onnx", "-o", "m.dje", "--range", "x=1x8:2x8:4x8"))
    text = ok(cli("inspect", "m.dje")).out
    assert "x: float32[N,8]" in text and "1x8:2x8:4x8" in text and "arena" in text and "MatMul" in text
    assert re.search(r"memory .*: constants .*, values .*, scratch .*, inputs .*, outputs 64 B", text)
    graph = ok(cli("inspect", "m.dje", "--graph")).out
    assert graph.index("before passes") < graph.index("after passes")
    assert "second" in ok(cli("inspect", "m.dje", "--steps")).out
    assert "lower bound" in ok(cli("inspect", "m.dje", "--plan")).out
    assert "total" in ok(cli("inspect", "m.dje", "--time", "--iterations", 3)).out


def test_inspect_json(cli, mlp):
    result = ok(cli("inspect", "mlp.onnx", "--json", "--plan", "--time", "--graph")).json
    assert [i["name"] for i in result["inputs"]] == ["x"] and result["outputs"][0]["type"] == "float32[N,4]"
    assert len(result["steps"]) == sum(result["tactics"].values())
    assert result["plan"]["lower_bound"] <= result["plan"]["arena_bytes"]
    memory = result["memory"]
    assert memory["values"] == result["plan"]["arena_bytes"] and memory["total"] > memory["constants"] > 0
    assert all(t["us"] > 0 for t in result["times"]) and "MatMul" in result["graph"]


# ---- compare


def test_compare_equal(cli, mlp):
    result = ok(cli("compare", "mlp.onnx", "-i", "x=random:3", "--shapes", "x=5x8", "--json")).json
    assert result["equal"] and result["first_divergence"] is None
    assert result["outputs"][0]["name"] == "y" and result["outputs"][0]["max_rel_error"] < 1e-5


def test_compare_names_the_first_divergence(cli, tmp_path):
    """Random values differ from run to run: everything after RandomNormal does too."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [64])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [64])
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="before"),
        helper.make_node("RandomNormalLike", ["r"], ["n"], name="culprit"),
        helper.make_node("Add", ["r", "n"], ["y"], name="after"),
    ]
    save(tmp_path / "random.onnx", nodes, [x], [y])
    result = cli("compare", "random.onnx", "--json")
    assert result.code == 1, result.err
    assert result.json["equal"] is False
    assert result.json["first_divergence"]["node"] == "culprit" and result.json["first_divergence"]["value"] == "n"
    text = cli("compare", "random.onnx")
    assert text.code == 1 and 'node "culprit"' in text.out


# ---- errors


def test_missing_files(cli, mlp, tmp_path):
    for verb in VERBS[:-2]:  # limits and devices take no file
        failed(cli(verb, "none.onnx"), 304, "FILE_NOT_FOUND", "none.onnx")
    failed(cli("run", "none.dje"), 304, "FILE_NOT_FOUND", "none.dje")
    failed(cli("run", "mlp.onnx", "-i", "x=none.npy"), 304, "FILE_NOT_FOUND", "none.npy")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["build"],
        ["frobnicate"],
        ["build", "mlp.onnx", "--frobnicate"],
        ["build", "mlp.onnx", "--threads", "many"],
        ["build", "mlp.onnx", "--threads", "-1"],
        ["build", "mlp.onnx", "-O4"],
        ["build", "mlp.onnx", "--range", "x"],
        ["build", "mlp.onnx", "--range", "x=1x8:2x8"],
        ["build", "mlp.onnx", "--range", "x=1xN"],
        ["build", "mlp.onnx", "--range", "q=1x8"],
        ["build", "mlp.onnx", "--disable", "nothing"],
        ["build", "mlp.onnx", "--build-budget", "soon"],
        ["build", "mlp.onnx", "--stop-after", "lunch"],
        ["build", "mlp.onnx", "--device", "tpu"],
        ["build", "mlp.onnx", "--precision", "fp12"],
        ["run", "mlp.onnx", "-i", "x"],
        ["run", "mlp.onnx", "-i", "x=random:abc"],
        ["run", "mlp.onnx", "-i", "x=value:abc"],
        ["run", "mlp.onnx", "-i", "x=ones", "-i", "x=zeros"],
        ["run", "mlp.onnx", "-i", "x=ones", "--shapes", "x=1x8:2x8:3x8"],
        ["bench", "mlp.onnx", "--contexts", "0"],
        *[[verb, "mlp.onnx"] for verb in ("report", "blame", "calibrate")],
    ],
    ids=" ".join,
)
def test_bad_arguments(cli, mlp, arguments):
    failed(cli(*arguments), 804, "ARGUMENT")


def test_later_verbs_say_so(cli):
    failed(cli("blame", "m.onnx"), 804, "ARGUMENT", '"blame"', "later")


def test_wrong_inputs(cli, mlp, tmp_path):
    failed(cli("run", "mlp.onnx"), 501, "INPUT_NAME", '"x"')
    failed(cli("run", "mlp.onnx", "-i", "q=ones"), 501, "INPUT_NAME", '"q"')
    np.save(tmp_path / "x.npy", np.ones((2, 8)))
    failed(cli("run", "mlp.onnx", "-i", "x=x.npy"), 502, "INPUT_DTYPE", "float64")
    np.save(tmp_path / "x.npy", np.ones((2, 9), dtype=np.float32))
    failed(cli("run", "mlp.onnx", "-i", "x=x.npy"), 503, "INPUT_SHAPE", "9")


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff{", b"x" * 200])
def test_bad_npy_files(cli, mlp, tmp_path, content):
    (tmp_path / "x.npy").write_bytes(content)
    failed(cli("run", "mlp.onnx", "-i", "x=x.npy"), 804, "ARGUMENT", "x.npy")


def test_cut_off_npy_file(cli, mlp, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2, 8), dtype=np.float32))
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-1])
    failed(cli("run", "mlp.onnx", "-i", "x=x.npy"), 804, "ARGUMENT", "cut off")


def test_bad_models_and_engines(cli, mlp, tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"this is no model")
    assert cli("build", "bad.onnx").err.startswith("error[E1") or "error[E1" in cli("build", "bad.onnx").err
    (tmp_path / "bad.dje").write_bytes(b"this is no engine" * 10)
    failed(cli("run", "bad.dje"), 401, "ENGINE_MAGIC")
    ok(cli("build", "mlp.onnx", "-o", "m.dje"))
    damaged = bytearray((tmp_path / "m.dje").read_bytes())
    damaged[5000] ^= 1
    (tmp_path / "m.dje").write_bytes(damaged)
    failed(cli("run", "m.dje", "-i", "x=ones"), 403, "ENGINE_CHECKSUM")


def test_json_errors_are_objects_too(cli, mlp):
    result = cli("run", "mlp.onnx", "--json")
    error = result.json["error"]
    assert set(error) == {"code", "name", "message", "hint"}
    assert (error["code"], error["name"]) == (501, "INPUT_NAME")
    assert f"error[E501 INPUT_NAME]: {error['message']}\nhint: {error['hint']}" in result.err
    assert cli("bench", "--json", "--what").json["error"]["code"] == 804


def test_an_engine_that_cannot_be_written(cli, mlp):
    failed(cli("build", "mlp.onnx", "-o", "no/such/folder/m.dje"), 603, "DISK_FULL", "no/such/folder")


def test_the_help_shows_every_documented_option(cli):
    documented = re.findall(r"^\| `(-\S+?)[ `]", (ROOT / "docs" / "options.md").read_text(), re.MULTILINE)
    text = ok(cli("build", "--help")).out
    assert len(documented) >= 13
    for flag in documented:
        assert re.search(rf"^  {flag}\b", text, re.MULTILINE), flag
