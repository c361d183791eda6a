"""Random graphs agree with the oracles at every level, with passes off, tuned, and loaded from a file."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import run_random  # noqa: E402

SECONDS = 40
FLOOR = 20  # graphs that must be reached in that time


def test_random_graphs(deepjit_present, tmp_path, capsys):
    hunt = run_random.hunt(["--seed", "0", "--count", "400", "--seconds", str(SECONDS), "--folder", str(tmp_path)])
    assert hunt.findings == {}, capsys.readouterr().out
    assert hunt.graphs >= FLOOR
    assert hunt.splits <= 0.05 * hunt.graphs + 1  # oracles that differ prove nothing
