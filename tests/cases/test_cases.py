"""Each construct of the table, as its whole kind: fed, all dims symbolic, and folded; by the reference and tuned; with
no pass and with all. Expected values are hand formulas in double precision."""

import sys
from pathlib import Path

import deepjit
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import rows  # noqa: E402, F401
from agree import faults, mostly_zero  # noqa: E402
from case import ROWS, all_cases, model_of  # noqa: E402
from error_rows import ERROR_ROWS, TABLE  # noqa: E402

BUDGET_S = 0.2
BUILDS = {
    "O0-reference": {"level": 0, "tune": False},
    "O3-reference": {"level": 3, "tune": False},
    "O0-tuned": {"level": 0, "budget": BUDGET_S},
    "O3-tuned": {"level": 3, "budget": BUDGET_S},
}
ERRORS = Path(__file__).parent.parent / "error"


def problems(case) -> list[str]:
    """What is wrong with a case, for each way and build."""
    found = []
    for way in case.ways:
        model, feeds = model_of(case, way)
        for name, options in BUILDS.items():
            try:
                got = deepjit.build(model, threads=1, **options).run(feeds)
                reason = faults(case, got)
            except deepjit.Error as error:
                reason = f"{error.name}: {error.message}"
            if reason:
                found.append(f"{case.title} {way} {name}: {reason}")
    return found


@pytest.mark.parametrize("name", sorted(ROWS))
def test_row(name):
    cases = list(ROWS[name]())
    found = [line for case in cases for line in problems(case)]
    assert not found, f"{len(found)} wrong\n" + "\n".join(found[:40])


def test_every_row_of_the_table_is_there():
    assert sorted(TABLE) == sorted([*ROWS, *ERROR_ROWS])
    for tests in ERROR_ROWS.values():
        for file, names in tests.items():
            text = (ERRORS / file).read_text()
            missing = [n for n in names if f"def {n}(" not in text and f'"{n}": (' not in text]
            assert not missing, f"{file}: {missing}"


def test_titles_are_unique_and_kinds_are_wide():
    titles = [c.title for c in all_cases()]
    assert len(titles) == len(set(titles))
    for name in ROWS:
        assert len(list(ROWS[name]())) >= 5, name


def test_rows_cannot_pass_by_zeros():
    """A kernel that returns zeros must fail nearly every case whose output has elements."""
    cases = [c for c in all_cases() if any(np.size(w) for w in c.wants.values())]
    empty = [c.title for c in cases if all(mostly_zero(w) for w in c.wants.values() if np.size(w))]
    assert len(empty) <= 0.12 * len(cases), f"{len(empty)} of {len(cases)}: {empty[:20]}"
