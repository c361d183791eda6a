"""Times two sides against each other in one process so that a change of the machine's mood hits both.

Blocks alternate B A A B; each block is warmed up by itself after a pause in which the other side's threads go to sleep.
The ratio is taken block pair by block pair: its median is the result, its extremes are the spread.
"""

import time
from typing import NamedTuple

import numpy as np

PAUSE_S = 0.05  # thread pools of both sides spin for a while after a run


class Timing(NamedTuple):
    p50_ms: float
    p95_ms: float
    cpu_ms: float  # process CPU time an inference, all threads
    runs: int


class Comparison(NamedTuple):
    ours: Timing
    theirs: Timing
    ratio: float  # their time over ours: above 1 is faster than they are
    ratio_low: float
    ratio_high: float


def block(side, feeds: dict, feedback: dict, iterations: int) -> tuple[list[float], float]:
    """Wall seconds of each run and mean CPU seconds a run."""
    feeds = dict(feeds)
    time.sleep(PAUSE_S)
    for _ in range(max(2, iterations // 10)):
        side.run(feeds)
    walls = []
    cpu = time.process_time()
    for _ in range(iterations):
        start = time.perf_counter()
        outputs = side.run(feeds)
        walls.append(time.perf_counter() - start)
        for source, target in feedback.items():
            feeds[target] = outputs[source]
    return walls, (time.process_time() - cpu) / iterations


def iterations_for(side, feeds: dict, block_s: float) -> int:
    """As many runs as fill one block, from 3 to 2000."""
    for _ in range(3):
        side.run(feeds)
    start = time.perf_counter()
    for _ in range(3):
        side.run(feeds)
    return int(np.clip(block_s / ((time.perf_counter() - start) / 3), 3, 2000))


def timing(blocks: list[tuple[list[float], float]]) -> Timing:
    walls = np.concatenate([walls for walls, _ in blocks]) * 1e3
    cpu = float(np.median([cpu for _, cpu in blocks])) * 1e3
    return Timing(float(np.percentile(walls, 50)), float(np.percentile(walls, 95)), cpu, len(walls))


def compare(ours, theirs, feeds: dict, feedback: dict, pairs: int = 6, block_s: float = 0.4) -> Comparison:
    """`pairs` blocks a side."""
    count = iterations_for(theirs, feeds, block_s)
    iterations_for(ours, feeds, block_s)  # warms it up as well
    our_blocks, their_blocks = [], []
    for k in range(pairs):
        order = ((theirs, their_blocks), (ours, our_blocks))
        for side, blocks in order if k % 2 == 0 else order[::-1]:
            blocks.append(block(side, feeds, feedback, count))
    ratios = [np.median(t[0]) / np.median(o[0]) for o, t in zip(our_blocks, their_blocks, strict=True)]
    return Comparison(
        timing(our_blocks), timing(their_blocks), float(np.median(ratios)), float(min(ratios)), float(max(ratios))
    )
