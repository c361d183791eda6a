"""What a profile says of each step, and that its parts are all of a run's time."""

import json

import onnx
import pytest
from profile_models import branches, chain, convolution, gathered, loop, mlp, node_names, same

from program import run_program

KEYS = [
    "format", "model", "device", "precision", "method", "note", "threads", "contexts", "runs", "launches", "wall",
    "unprofiled", "unprofiled_device", "clock_cost_us", "parts_of_unprofiled", "parts", "steps", "ops", "limits",
    "warm_up", "clocks_before", "clocks_after", "shapes",
]  # fmt: skip
STEP_KEYS = [
    "step", "op", "name", "provider", "variant", "calls", "launches", "p50_us", "p95_us", "typical_us", "share",
    "bytes", "flops", "gb_s", "gflop_s", "of_roofline", "bound", "time_at_build_us", "inputs", "outputs", "origins",
]  # fmt: skip
PARTS = ["steps", "copy in", "copy out", "gaps", "host", "profiling"]
MODELS = {model.__name__: model for model in (mlp, convolution, chain, gathered, loop, branches, same)}


def by_op(result: dict) -> dict:
    return {step["op"]: step for step in result["steps"] if step["calls"] > 0}


def part(result: dict, name: str) -> float:
    return next(one["typical_us"] for one in result["parts"] if one["part"] == name)


@pytest.mark.parametrize("name", MODELS)
def test_parts_are_the_wall_time(profile, name):
    """Within 2 percent, each compared inside the same runs, so that nothing else on the machine matters."""
    result = profile(MODELS[name]())
    wall = result["wall"]["typical_us"]
    assert [one["part"] for one in result["parts"]] == PARTS
    assert all(one["typical_us"] >= 0 for one in result["parts"])
    assert sum(one["typical_us"] for one in result["parts"]) == pytest.approx(wall, rel=0.02)
    shares = [one["share"] for one in result["parts"] if one["part"] != "profiling"]
    assert sum(shares) == pytest.approx(1, rel=0.02)
    steps = sum(step["typical_us"] for step in result["steps"] if step["step"] >= 0)
    assert steps == pytest.approx(part(result, "steps"), rel=0.02, abs=0.01)
    ops = sum(op["typical_us"] for op in result["ops"])
    assert ops == pytest.approx(steps + part(result, "copy out"), rel=0.02, abs=0.01)


@pytest.mark.parametrize("name", MODELS)
def test_every_node_is_in_one_step(profile, name):
    model = MODELS[name]()
    origins = [origin for step in profile(model, "-O0")["steps"] for origin in step["origins"]]
    assert sorted(origins) == sorted(node_names(model))


@pytest.mark.parametrize("name", MODELS)
def test_every_node_is_found_after_all_passes(profile, name):
    """Passes leave out an Identity, and put a Transpose beside the node that wants it."""
    model = MODELS[name]()
    steps = profile(model, tune=True)["steps"]
    assert {origin for step in steps for origin in step["origins"]} | {"body_going"} == {
        *node_names(model),
        "body_going",
    }
    origins = [origin for step in steps for origin in step["origins"] if step["op"] != "Transpose"]
    assert len(origins) == len(set(origins))


def test_json_has_exactly_the_keys(profile):
    result = profile(mlp(), "--shapes", "x=4x64")
    assert list(result) == KEYS
    assert (result["format"], result["device"], result["precision"], result["method"]) == (1, "cpu", "fp32", "clock")
    assert (result["threads"], result["contexts"], result["runs"], result["shapes"]) == (1, 1, 25, {"x": "4x64"})
    for times in (result["wall"], result["unprofiled"], *result["steps"]):
        assert 0 <= times["p50_us"] <= times["p95_us"] and times["typical_us"] >= 0
    assert all(list(step) == STEP_KEYS for step in result["steps"])
    assert result["unprofiled_device"] is None
    assert result["wall"]["p50_us"] > 0 and result["clock_cost_us"] > 0 and result["parts_of_unprofiled"] > 0
    assert result["warm_up"]["seconds"] >= 0.02 and result["warm_up"]["runs"] >= 1
    limits = result["limits"]
    assert limits["gflop_s"] > 0.5 and all(copy["gb_s"] > 0.1 for copy in limits["copies"])
    sizes = [copy["bytes"] for copy in limits["copies"]]
    assert len(sizes) >= 3 and sizes == sorted(sizes)


def test_work_of_contractions(profile):
    result = profile(mlp(), "--shapes", "x=5x64", "-O0")
    first, second = [step for step in result["steps"] if step["op"] == "MatMul"]
    if first["outputs"] == ["float32[5,32]"]:
        first, second = second, first
    assert first["flops"] == 2 * 5 * 64 * 128 and second["flops"] == 2 * 5 * 128 * 32
    assert first["bytes"] == 4 * (5 * 64 + 64 * 128 + 5 * 128)
    assert first["inputs"] == ["float32[5,64]", "float32[64,128]"] and first["outputs"] == ["float32[5,128]"]
    steps = by_op(result)
    assert steps["Add"]["flops"] == steps["Relu"]["flops"] == 5 * 128 and steps["Softmax"]["flops"] == 5 * 5 * 32
    for step in (first, second, *steps.values()):
        assert step["gflop_s"] == pytest.approx(step["flops"] / step["typical_us"] / 1e3)
        assert step["gb_s"] == pytest.approx(step["bytes"] / step["typical_us"] / 1e3)
        assert step["of_roofline"] > 0 and step["bound"] in ("memory", "compute")


def test_work_of_windows(profile):
    steps = by_op(profile(convolution(), "--shapes", "x=2x3x32x32", "-O0"))
    assert steps["Conv"]["flops"] == 2 * (2 * 8 * 32 * 32) * (3 * 3 * 3)
    assert steps["MaxPool"]["flops"] == (2 * 8 * 16 * 16) * 4


def test_work_of_a_region_is_that_of_its_steps(profile):
    """Fused or not, the operations are the same; what stays inside is not touched in memory any more."""
    apart = profile(chain(), "--shapes", "x=16x256", "-O0")
    region = by_op(profile(chain(), "--shapes", "x=16x256", "--force-tactic", "llvm", tune=True))["deepjit.Region"]
    assert region["flops"] == sum(step["flops"] for step in apart["steps"]) == 4 * 16 * 256
    assert region["bytes"] < sum(step["bytes"] for step in apart["steps"])
    assert len(region["origins"]) == 4


def test_a_table_counts_as_far_as_it_is_read(profile):
    steps = by_op(profile(gathered(), "--shapes", "ids=8", "--shapes", "x=8", "-i", "ids=value:3"))
    assert steps["Gather"]["bytes"] == 2 * (8 * 16 * 4) + 8 * 8
    assert steps["NonZero"]["calls"] == 1 and steps["NonZero"]["flops"] == 0


def test_steps_in_a_loop_are_counted(profile):
    result = profile(loop(7), "--shapes", "x=3x64", "-O0")
    steps = by_op(result)
    assert steps["Loop"]["calls"] == 1 and steps["Loop"]["provider"] == "control" and steps["Loop"]["launches"] == 0
    assert steps["Tanh"]["calls"] == steps["Add"]["calls"] == 7
    assert steps["Tanh"]["flops"] == 7 * 3 * 64
    assert result["launches"] == sum(step["launches"] for step in result["steps"] if step["step"] >= 0)


@pytest.mark.parametrize("way, taken, other", [("1", "t_Exp", "e_Neg"), ("0", "e_Neg", "t_Exp")])
def test_only_the_branch_that_is_taken_takes_time(profile, way, taken, other):
    result = profile(branches(), "--shapes", "x=3x64", "-i", f"way=value:{way}", "-O0")
    steps = {step["origins"][0]: step for step in result["steps"] if step["origins"]}
    assert steps[taken]["calls"] == 1 and steps[taken]["typical_us"] > 0
    assert steps[other]["calls"] == 0 and steps[other]["typical_us"] == 0 == steps[other]["launches"]


def test_copies_of_outputs_are_a_part(profile):
    result = profile(same(), "--shapes", "x=256x4")
    copies = [step for step in result["steps"] if step["step"] < 0]
    assert len(copies) == 1 and copies[0]["op"] == "copy" and copies[0]["bytes"] == 2 * 256 * 4 * 4
    assert part(result, "copy out") == pytest.approx(copies[0]["typical_us"], rel=0.01)


def test_other_contexts_run_meanwhile(profile):
    result = profile(mlp(), "--shapes", "x=4x64", "--contexts", 2)
    assert result["contexts"] == 2 and result["runs"] == 25


def test_prints_tables(tmp_path):
    onnx.save(mlp(), tmp_path / "m.onnx")
    quick = ["--warm-up", 0, "--iterations", 5, "--no-tune", "--threads", 1, "-O0"]
    done = run_program(tmp_path, "profile", "m.onnx", *quick)
    assert done.code == 0, done.err
    for text in (
        "P50",
        "P95",
        "roof",
        "tactic",
        "mlp_MatMul_0",
        "by op",
        "host (dispatch)",
        "gaps",
        "without profiling",
    ):
        assert text in done.out, text
    whole = next(line.split() for line in done.out.splitlines() if line.startswith("all "))
    assert float(whole[-1][:-1]) == pytest.approx(100, abs=2)


def test_long_tables_are_cut(tmp_path):
    nodes = [
        onnx.helper.make_node("Tanh" if i % 2 else "Neg", [f"v{i}"], [f"v{i + 1}"], name=f"n{i}") for i in range(40)
    ]
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(nodes, "long", [info("v0", 1, [4])], [info("v40", 1, [4])])
    opsets = [onnx.helper.make_opsetid("", 21)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "m.onnx")
    quick = ["--warm-up", 0, "--iterations", 5, "--no-tune", "--threads", 1, "-O0"]
    short = run_program(tmp_path, "profile", "m.onnx", *quick).out
    assert "10 more steps" in short and "--all" in short
    full = run_program(tmp_path, "profile", "m.onnx", *quick, "--all").out
    assert "more steps" not in full and len(full.splitlines()) >= len(short.splitlines()) + 9
    fused = ["--warm-up", 0, "--iterations", 5, "--threads", 1, "--force-tactic", "llvm"]
    assert "and 37 more" in run_program(tmp_path, "profile", "m.onnx", *fused).out
    assert "n39" in run_program(tmp_path, "profile", "m.onnx", *fused, "--all").out


@pytest.mark.parametrize(
    "arguments, word",
    [
        (["--iterations", "0"], "iterations"),
        (["--iterations", "1000000"], "iterations"),
        (["--seconds", "0"], "seconds"),
        (["--warm-up", "-1"], "warm-up"),
        (["--contexts", "0"], "contexts"),
        (["--frobnicate"], "frobnicate"),
        (["--shapes", "x"], "x"),
    ],
)
def test_bad_arguments(tmp_path, arguments, word):
    onnx.save(mlp(), tmp_path / "m.onnx")
    done = run_program(tmp_path, "profile", "m.onnx", "--no-tune", *arguments)
    assert done.code == 2 and done.err.startswith("error[E804 ARGUMENT]: ") and word in done.err


def test_bad_inputs_and_files(tmp_path):
    onnx.save(mlp(), tmp_path / "m.onnx")
    quick = ["--warm-up", 0, "--iterations", 1, "--no-tune"]
    assert "error[E501 INPUT_NAME]" in run_program(tmp_path, "profile", "m.onnx", *quick, "-i", "q=ones").err
    assert "error[E304 FILE_NOT_FOUND]" in run_program(tmp_path, "profile", "no.onnx", *quick).err
    done = run_program(tmp_path, "profile", "m.onnx", *quick, "--trace", "no/such/folder/t.json")
    assert done.code == 2 and "error[E603 DISK_FULL]" in done.err


def test_what_a_run_throws_is_told(tmp_path):
    """An index out of range in the data, from the middle of a run that is observed or not."""
    onnx.save(gathered(), tmp_path / "m.onnx")
    done = run_program(tmp_path, "profile", "m.onnx", "--warm-up", 0, "--no-tune", "-i", "ids=value:5000")
    assert done.code == 2 and "error[E505 INDEX_RANGE]" in done.err


def test_trace_is_valid_and_nested(tmp_path):
    onnx.save(loop(5), tmp_path / "m.onnx")
    quick = ["--warm-up", 0, "--iterations", 5, "--no-tune", "--threads", 1, "-O0", "--trace", "t.json"]
    assert run_program(tmp_path, "profile", "m.onnx", *quick).code == 0
    trace = json.loads((tmp_path / "t.json").read_text())
    check_trace(trace, {"host"})
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    steps = [span for span in spans if span["cat"] == "step"]
    assert len([span for span in steps if span["args"]["op"] == "Tanh"]) == 5
    assert spans[0]["name"] == "run" and sum(span["args"].get("op") == "Loop" for span in spans) == 1
    for span in steps:
        assert set(span["args"]) >= {"step", "op", "tactic", "inputs", "outputs", "bytes", "flops", "origins"}


def check_trace(trace: dict, threads: set):
    """Every event has what a viewer needs; those of a thread are sorted, inside the run, and nest."""
    assert set(trace) == {"traceEvents", "displayTimeUnit"} and trace["displayTimeUnit"] in ("ms", "ns")
    names = {}
    open_spans = {}
    before = -1
    for event in trace["traceEvents"]:
        assert event["ph"] in ("M", "X") and isinstance(event["name"], str) and event["name"] and event["pid"] == 1
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name") and event["args"]["name"]
            if event["name"] == "thread_name":
                names[event["tid"]] = event["args"]["name"]
            continue
        assert event["tid"] in names and event["cat"] in ("run", "step", "copy")
        start, end = round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)
        assert 0 <= start <= end and start >= before
        before = start
        stack = open_spans.setdefault(event["tid"], [])
        while stack and stack[-1] <= start:
            stack.pop()
        assert not stack or end <= stack[-1]
        stack.append(end)
    assert set(names.values()) == threads
