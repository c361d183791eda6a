"""Several shape ranges on the command line: --range again for the same input."""

import pytest

RANGES = ("--range", "x=1x8", "--range", "x=2x8:16x8:32x8")


def ok(result):
    assert result.code == 0, result.err
    return result


@pytest.fixture
def built(cli, mlp):
    told = ok(cli("build", "mlp.onnx", "-o", "m.dje", *RANGES, "--json")).json
    assert told["ranges"] == 2
    return cli


def test_runs_take_their_range(built):
    for n in (1, 2, 32):
        result = ok(built("run", "m.dje", "-i", "x=random:1", "--shapes", f"x={n}x8", "--json")).json
        assert result["outputs"][0]["shape"] == [n, 4]
    outside = built("run", "m.dje", "-i", "x=random:1", "--shapes", "x=33x8")
    assert outside.code == 2 and "E504 OUT_OF_RANGE" in outside.err
    assert "x [1,8] to [1,8]; or x [2,8] to [32,8]" in outside.err


def test_inspect_shows_all_ranges(built):
    text = ok(built("inspect", "m.dje")).out
    assert "range    1 of 2: x=1x8:1x8:1x8" in text and "range    2 of 2: x=2x8:16x8:32x8" in text
    assert "where it differs from the first" in text
    result = ok(built("inspect", "m.dje", "--json")).json
    assert [r["inputs"]["x"]["opt"] for r in result["ranges"]] == ["1x8", "16x8"]
    assert result["ranges"][0]["steps"] == result["steps"]
    second = ok(built("inspect", "m.dje", "--json", "--shapes", "x=20x8", "--time", "--iterations", "2")).json
    assert second["steps"] == result["ranges"][1]["steps"]
    assert {t["name"] for t in second["times"]} <= {s["name"] for s in second["steps"]}
    assert second["memory"]["outputs"] == 20 * 4 * 4


def test_inspect_of_one_range_has_no_list(cli, mlp):
    ok(cli("build", "mlp.onnx", "-o", "m.dje", "--range", "x=1x8:2x8:4x8"))
    assert ok(cli("inspect", "m.dje", "--json")).json["ranges"] is None
    assert " of 1:" not in ok(cli("inspect", "m.dje")).out


def test_bench_and_profile_say_which(built):
    options = ("--iterations", "3", "--shapes")
    assert "range       2 of 2: x=2x8:16x8:32x8" in ok(built("bench", "m.dje", *options, "x=3x8")).out
    assert "range       1 of 2: x=1x8:1x8:1x8" in ok(built("profile", "m.dje", *options, "x=1x8")).out
    steps = ok(built("profile", "m.dje", *options, "x=3x8", "--json")).json["steps"]
    told = ok(built("inspect", "m.dje", "--json")).json["ranges"][1]["steps"]
    by_number = {s["step"]: s for s in told}
    assert steps and all(by_number[s["step"]]["name"] == s["name"] for s in steps if s["step"] >= 0)


def test_numbers_of_ranges_must_agree(cli, mlp):
    result = cli("build", "mlp.onnx", "-o", "m.dje", *RANGES, "--range", "z=1")
    assert result.code == 2 and "E804" in result.err and '"z"' in result.err
