"""Random graphs agree with the oracles at every level, with passes off, tuned, and loaded from a file. The full count
of 5,000 runs by hand (docs/testing.md)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import graph_coverage  # noqa: E402
import run_random  # noqa: E402

SECONDS = 60
FLOOR = 20  # graphs that must be reached in that time
WIDE = 200  # graphs after which every construct must have been seen


def test_random_graphs(deepjit_present, tmp_path, capsys):
    hunt = run_random.hunt(["--seed", "0", "--count", "600", "--seconds", str(SECONDS), "--folder", str(tmp_path)])
    assert hunt.findings == {}, capsys.readouterr().out
    assert hunt.graphs >= FLOOR
    assert hunt.splits <= 0.05 * hunt.graphs + 1  # oracles that differ prove nothing
    if hunt.graphs >= WIDE:
        missing = [each for each in graph_coverage.NEEDED if not hunt.reached[each]]
        assert not missing
        assert sum(name.startswith("op ") for name in hunt.reached) >= 100
