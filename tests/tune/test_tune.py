"""deepjit.tune on the CPU: a saved engine takes kernels that are measured here, and computes what it did."""

import hashlib

import deepjit
import pytest
from tuned_models import MODELS, assert_agree, feeds, model, ranges


@pytest.mark.parametrize("name", MODELS)
def test_an_engine_that_nobody_measured_takes_measured_kernels(name, tmp_path):
    plain = deepjit.build(model(name), tune=False, ranges=ranges(name))
    assert plain.metadata["build.measured"].startswith("no: ")
    plain.save(tmp_path / "m.dje")
    tuned = deepjit.tune(tmp_path / "m.dje")
    assert tuned.report["tuning"]["measured"] > 0
    assert tuned.metadata["build.measured"].startswith("on ")
    assert any(step["time_us"] > 0 for step in tuned.steps) and not any(step["time_us"] for step in plain.steps)
    assert {stage["stage"] for stage in tuned.report["stages"]} == {"restore", "tune", "plan"}
    assert_agree(tuned, plain, name)
    tuned.save(tmp_path / "tuned.dje")
    assert_agree(deepjit.load(tmp_path / "tuned.dje"), plain, name)


@pytest.mark.parametrize("again", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_with_one_lockfile_tuning_gives_the_bytes_of_the_build(name, again, tmp_path):
    """So weights that were kept in packed form only, combos and the ledger come back whole."""
    built = deepjit.build(model(name), lock=tmp_path / "lock", ranges=ranges(name))
    if name == "many small":
        assert any("&" in step["name"] for step in built.steps), "there is no combo to take apart"
    engine = built
    for _ in range(again):
        engine = deepjit.tune(engine.serialize(), lock=tmp_path / "lock")
    assert engine.report["tuning"]["measured"] == 0 and engine.report["tuning"]["reused"] > 0
    assert engine.why() == built.why() and engine.steps == built.steps
    assert engine.serialize() == built.serialize()


def test_an_engine_with_several_ranges_is_tuned_for_each(tmp_path):
    two = {"x": [((1, 3, 16, 16),) * 3, ((2, 3, 16, 16), (4, 3, 16, 16), (9, 3, 16, 16))]}
    plain = deepjit.build(model("image"), tune=False, ranges=two)
    tuned = deepjit.tune(plain)
    assert tuned.ranges == plain.ranges and len(tuned.ranges) == 2
    for k in range(2):
        assert any(step["time_us"] > 0 for step in tuned.steps_of(k)) and not any(
            step["time_us"] for step in plain.steps_of(k)
        )
    assert_agree(tuned, plain, "image")
    built = deepjit.build(model("image"), lock=tmp_path / "lock", ranges=two)
    assert deepjit.tune(built, lock=tmp_path / "lock").serialize() == built.serialize()
    for wrong in ({"x": (2, 3, 16, 16)}, two):
        with pytest.raises(deepjit.Error) as caught:
            deepjit.tune(plain, ranges=wrong)
        assert caught.value.name == "ARGUMENT"


def test_twenty_builds_with_one_lockfile_are_one_file(tmp_path):
    sums = set()
    for _ in range(20):
        engine = deepjit.build(model("image"), lock=tmp_path / "lock", ranges=ranges("image"))
        sums.add(hashlib.sha256(engine.serialize()).hexdigest())
    assert len(sums) == 1


def test_what_the_build_left_out_stays_out():
    built = deepjit.build(model("many small"), disable=["combos"])
    tuned = deepjit.tune(built)
    assert tuned.metadata["build.disabled"] == "combos"
    assert not any("&" in step["name"] for step in tuned.steps)
    assert_agree(tuned, built, "many small")


def test_options_do_what_they_do_in_a_build(tmp_path):
    plain = deepjit.build(model("image"), tune=False, threads=2)
    lines, stages = [], []
    forced = deepjit.tune(
        plain, force_tactic="reference", threads=1, log=lines.append, progress=lambda stage, *_: stages.append(stage)
    )
    assert forced.threads == 1 and deepjit.tune(plain).threads <= 2
    assert all(step["tactic"].startswith("reference") for step in forced.steps)
    assert any("<- selected" in line for line in lines) and {"restore", "tune", "plan"} <= set(stages)
    first = deepjit.tune(plain, tune_cache=tmp_path)
    second = deepjit.tune(plain, tune_cache=tmp_path)
    assert first.report["tuning"]["measured"] > 0 and second.report["tuning"]["measured"] == 0
    assert second.report["tuning"]["reused"] == first.report["tuning"]["measured"]
    short = deepjit.tune(plain, budget=1e-6)
    assert short.report["tuning"]["out_of_budget"] > 0 and short.report["tuning"]["measured"] == 0
    assert_agree(short, plain, "image")


def test_a_range_can_be_narrowed_for_tuning():
    built = deepjit.build(model("image"), tune=False, ranges=ranges("image"))
    tuned = deepjit.tune(built, ranges={"x": ((2, 3, 16, 16), (2, 3, 16, 16), (4, 3, 16, 16))})
    assert tuned.inputs[0].range == ((2, 3, 16, 16), (2, 3, 16, 16), (4, 3, 16, 16))
    assert_agree(tuned, built, "image", rows=(2, 4))
    with pytest.raises(deepjit.Error) as caught:
        tuned.run(feeds("image", 9))
    assert caught.value.name == "OUT_OF_RANGE"
    anything = deepjit.build(model("image"), tune=False)
    assert "guessed" in " ".join(deepjit.tune(anything).report["warnings"])
    assert "guessed" not in " ".join(deepjit.tune(anything, ranges=ranges("image")).report["warnings"])


@pytest.mark.parametrize(
    ("options", "name", "words"),
    [
        ({"device": "cuda"}, "ENGINE_INCOMPATIBLE", "built for cpu"),
        ({"device": "gpu"}, "ARGUMENT", "gpu"),
        ({"targets": "sm_90"}, "ARGUMENT", "--target"),
        ({"ranges": {"x": (12, 3, 16, 16)}}, "ARGUMENT", "built for 1 to 9"),
        ({"ranges": {"x": (1, 3, 16)}}, "ARGUMENT", "rank"),
        ({"ranges": {"x": (1, 5, 16, 16)}}, "ARGUMENT", "fixed"),
        ({"ranges": {"v": (1, 3, 16, 16)}}, "ARGUMENT", '"v"'),
        ({"threads": -1}, "ARGUMENT", "threads"),
        ({"lock": __file__}, "ARGUMENT", "lockfile line"),
    ],
)
def test_what_cannot_be_done_is_said(options, name, words):
    engine = deepjit.build(model("image"), tune=False, ranges=ranges("image"))
    with pytest.raises(deepjit.Error) as caught:
        deepjit.tune(engine, **options)
    assert caught.value.name == name and words in str(caught.value)


def test_an_error_of_a_callback_ends_it():
    def stop(stage, *_):
        if stage == "tune":
            raise KeyError("enough")

    with pytest.raises(KeyError):
        deepjit.tune(deepjit.build(model("image"), tune=False), progress=stop)
