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
    cases = run_oracle.all_cases()
    for fault in oracle_faults.FAULTS:
        matching = [c for c in cases if oracle_faults.fnmatch(c.title, fault.pattern)]
        if fault.pattern.startswith("node/"):
            continue
        lines = (run_oracle.examine(run_oracle.job_of(case, "run")) for case in matching)
        assert any(line.marks[o] == "k" for line in lines for o in fault.oracles), fault
