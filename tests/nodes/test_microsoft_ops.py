"""Operators of ONNX Runtime's own domain, com.microsoft, give what it gives: at -O0 and -O3, sizes known and not.

Where ONNX Runtime has no CPU kernel a formula in numpy takes its place.
"""

import sys
from pathlib import Path

import deepjit
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import microsoft_attention_cases  # noqa: E402
import microsoft_cases  # noqa: E402
import microsoft_quantized_cases  # noqa: E402
from microsoft_cases import Case, Const, feeds_of, make_model, run_onnxruntime  # noqa: E402

FAMILIES = [microsoft_cases, microsoft_quantized_cases, microsoft_attention_cases]
CASES = [case for family in FAMILIES for case in family.cases()]


def expected(case: Case) -> list[np.ndarray]:
    if case.reference is not None:
        return case.reference([x.array if isinstance(x, Const) else x for x in case.inputs])
    return run_onnxruntime(case)


def assert_equal(case: Case, got: list[np.ndarray], want: list[np.ndarray], what: str):
    assert len(got) == len(want)
    for i, (actual, right) in enumerate(zip(case.valid(got), case.valid(want), strict=True)):
        assert actual.shape == right.shape, f"{what}: output {i}"
        if right.dtype.kind == "f":
            scale = np.abs(right).max()
            assert scale > 0, f"{what}: output {i} is all zeros, the test says nothing"
            error = np.abs(actual.astype(np.float64) - right).max()
            assert error <= case.tolerance * scale, f"{what}: output {i} is off by {error:.2e} of {scale:.2g}"
        else:
            steps = np.abs(actual.astype(np.int64) - right.astype(np.int64))
            assert steps.max() <= case.tolerance, f"{what}: output {i} is off by {steps.max()} steps"
            assert (steps > 0).mean() <= 0.05, f"{what}: output {i} differs in too many places"


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_gives_what_onnx_runtime_gives(case):
    want = expected(case)
    feeds = feeds_of(case)
    for level, dynamic in [(0, True), (3, True), (3, False)]:
        engine = deepjit.build(make_model(case, dynamic), level=level, tune=False, threads=1)
        got = list(engine.run(feeds).values())
        assert_equal(case, got, want, f"-O{level}, {'symbols' if dynamic else 'numbers'}")
