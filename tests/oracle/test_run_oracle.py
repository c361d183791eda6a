"""The oracle runner: a sample of the cases has no unexplained difference, and a wrong answer does not pass."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import oracle_faults  # noqa: E402
import run_oracle  # noqa: E402

STEP = 9


def test_a_sample_of_the_cases(deepjit_present, capsys):
    wrong = run_oracle.main(["--quiet", "--step", str(STEP)])
    assert not wrong, capsys.readouterr().out


@pytest.mark.parametrize("way", ["run", "folded"])
def test_a_wrong_formula_is_noticed(deepjit_present, way):
    job = next(iter(run_oracle.case_jobs("gelu_forms/tanh_float32_[7]", way, 1)))
    assert not run_oracle.is_wrong(run_oracle.examine(job))
    bad = {n: w + np.where(np.arange(w.size) == 3, 1e-4, 0).reshape(w.shape) for n, w in job.formula.items()}
    line = run_oracle.examine(job._replace(formula=bad))
    assert line.marks["deepjit"] == line.marks["reference"] == line.marks["ort-off"] == "x"
    assert any("[3]" in reason for _, reason in line.notes)


def test_mostly_zeros_are_mistrusted():
    job = next(iter(run_oracle.case_jobs("zero_sized_dims/MatMul_float32", "run", 1)))
    assert run_oracle.examine(job).zeros


def test_each_known_fault_still_shows(deepjit_present):
    """An entry nobody needs hides the next fault."""
    titles = {c.title: c for c in run_oracle.all_cases()}
    for fault in oracle_faults.FAULTS:
        if fault.pattern.startswith("node/"):
            continue
        matching = [t for t in titles if oracle_faults.fnmatch(t, fault.pattern)]
        assert matching, fault
        marks = set()
        for title in matching[:12]:
            line = run_oracle.examine(next(j for j in run_oracle.case_jobs(title, "run", 1) if j.title == title))
            marks |= {o for o in fault.oracles if line.marks[o] == "k"}
        assert marks, fault
