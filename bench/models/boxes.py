"""Frames for the detector of detector.py, and how two answers of it compare."""

import numpy as np


def scene(height: int, width: int, seed: int = 0) -> np.ndarray:
    """A frame with things in it, uint8 [1, height, width, 3]."""
    rng = np.random.default_rng(seed)
    down, across = np.linspace(0, 1, height)[:, None, None], np.linspace(0, 1, width)[None, :, None]
    frame = rng.uniform(10, 130, 3) + 80 * down * rng.random(3) + 80 * across * rng.random(3)
    for _ in range(60):
        h, w = (max(2, int(side * rng.uniform(0.02, 0.25))) for side in (height, width))
        y, x = int(rng.integers(0, height - h + 1)), int(rng.integers(0, width - w + 1))
        frame[y : y + h, x : x + w] = 0.3 * frame[y : y + h, x : x + w] + 0.7 * rng.uniform(0, 255, 3)
    return np.clip(frame + 6 * rng.standard_normal(frame.shape), 0, 255).astype(np.uint8)[None]


def overlap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Intersection over union of each box of a with each of b."""
    begin, end = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = np.clip(end - begin, 0, None).prod(2)
    areas = [(x[:, 2:] - x[:, :2]).prod(1) for x in (a, b)]
    return shared / (areas[0][:, None] + areas[1][None] - shared)


def agreement(want: dict, got: dict, least: float = 0.9, score: float = 0.02) -> float:
    """The part of the boxes of both answers that have a partner in the other one: of the same class, as good as in the
    same place, with the same score. 1 when neither has any."""
    if not len(want["boxes"]) or not len(got["boxes"]):
        return float(len(want["boxes"]) == len(got["boxes"]))
    same = overlap(want["boxes"].astype(np.float64), got["boxes"].astype(np.float64)) >= least
    same &= want["classes"][:, None] == got["classes"][None]
    same &= np.abs(want["scores"][:, None] - got["scores"][None]) <= score
    return float((same.any(1).sum() + same.any(0).sum()) / sum(same.shape))
