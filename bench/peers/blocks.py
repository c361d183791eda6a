"""Fair timing of two sides in one run: blocks of peer, ours, ours, peer, and what they say.

A block's ratio is the peer's mean over ours. A win, or a loss, counts only beyond what a side differs from itself
within a block (A-A).
"""

import math
import statistics
from collections.abc import Callable, Sequence


def interleave(ours: Callable[[], float] | None, peers: dict[str, Callable[[], float]], blocks: int) -> tuple:
    """Our figures and those of each peer, two a block; several peers stand around ours in mirrored order."""
    mine: list[float] = []
    theirs: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(blocks):
        for name, time_it in peers.items():
            theirs[name].append(time_it())
        if ours:
            mine += [ours(), ours()]
        for name, time_it in reversed(peers.items()):
            theirs[name].append(time_it())
    return mine, theirs


def pairs(values: Sequence[float]) -> list[tuple[float, float]]:
    return list(zip(values[::2], values[1::2], strict=True))


def noise_of(values: Sequence[float]) -> float:
    """The largest factor between two figures of one side in one block, less 1."""
    return max(max(a, b) / min(a, b) for a, b in pairs(values)) - 1


def compare(ours: Sequence[float], theirs: Sequence[float]) -> dict:
    """ratio: the median of the blocks' ratios, above 1 where ours is faster; low and high: of all blocks."""
    ratios = [sum(b) / sum(a) for a, b in zip(pairs(ours), pairs(theirs), strict=True)]
    noise = max(noise_of(ours), noise_of(theirs))
    low, high = min(ratios), max(ratios)
    verdict = "faster" if low > 1 + noise else "slower" if high < 1 / (1 + noise) else "even"
    return {"ratio": statistics.median(ratios), "low": low, "high": high, "noise": noise, "verdict": verdict}


def percentiles(values: Sequence[float]) -> dict:
    ordered = sorted(values)
    return {f"p{p}": ordered[min(len(ordered) - 1, math.ceil(len(ordered) * p / 100) - 1)] for p in (50, 95, 99)}


def geometric_mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))
