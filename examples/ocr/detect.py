"""Text detection: picture to text boxes, with the PP-OCR differentiable-binarization (DB) detector.

The network gives one probability a pixel. Pixels above a threshold form connected components; each gets its smallest
enclosing rectangle, grown by what the network was trained to shrink. Needs numpy and Pillow only.
"""

from typing import NamedTuple

import numpy as np
from PIL import Image

MEAN = np.array([0.406, 0.456, 0.485], dtype=np.float32)  # blue, green, red
STD = np.array([0.225, 0.224, 0.229], dtype=np.float32)

PIXEL_THRESHOLD = 0.3  # a pixel is text
BOX_THRESHOLD = 0.6  # mean probability of a box
GROW = 1.6  # how much the box grows: distance = area * GROW / perimeter
SMALLEST_SIDE = 3.0  # in pixels of the network's input


class Box(NamedTuple):
    corners: np.ndarray  # [4, 2] x, y in picture pixels: top left, top right, bottom right, bottom left of the text
    score: float


def preprocess(picture: Image.Image, limit: int = 960) -> np.ndarray:
    """Float32 [1, 3, H, W], blue first; sides are multiples of 32 and the longer is at most `limit`."""
    scale = min(1.0, limit / max(picture.size))
    width, height = (max(32, round(side * scale / 32) * 32) for side in picture.size)
    pixels = np.asarray(picture.convert("RGB").resize((width, height), Image.Resampling.BILINEAR))
    pixels = (pixels[:, :, ::-1].astype(np.float32) / 255.0 - MEAN) / STD
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def postprocess(probability: np.ndarray, picture_size: tuple[int, int]) -> list[Box]:
    """Boxes from the network's [H, W] output, scaled to the picture's (width, height)."""
    height, width = probability.shape
    scale = np.array([picture_size[0] / width, picture_size[1] / height])
    boxes = []
    for outline in components(probability > PIXEL_THRESHOLD):
        rectangle = smallest_rectangle(outline)
        if sides(rectangle).min() < SMALLEST_SIDE:
            continue
        score = mean_inside(probability, rectangle)
        if score >= BOX_THRESHOLD:
            # Pixel centres to pixel areas: half a pixel to the right and down.
            corners = (grow(rectangle) + 0.5) * scale
            boxes.append(Box(np.clip(corners, 0, picture_size), score))
    return boxes


def components(mask: np.ndarray) -> list[np.ndarray]:
    """Connected components (8 neighbours) of a bool mask, each as the [N, 2] x, y end pixels of its horizontal runs.

    The runs of all rows are found at once; runs that touch in neighbouring rows are merged with union-find.
    """
    padded = np.pad(mask, ((0, 0), (1, 1))).astype(np.int8)
    step = np.diff(padded, axis=1)
    rows, first = np.nonzero(step == 1)
    last = np.nonzero(step == -1)[1] - 1
    parent = np.arange(len(rows))

    def root(k: int) -> int:
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = parent[k]
        return k

    starts = np.searchsorted(rows, np.arange(mask.shape[0] + 1))
    for y in range(1, mask.shape[0]):
        above, end_above = starts[y - 1], starts[y]
        for run in range(starts[y], starts[y + 1]):
            while above < end_above and last[above] < first[run] - 1:
                above += 1
            other = above
            while other < end_above and first[other] <= last[run] + 1:
                parent[root(other)] = root(run)
                other += 1
    labels = np.array([root(k) for k in range(len(rows))], dtype=np.int64)
    order = np.argsort(labels, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1) if len(order) else []
    ends = [np.concatenate([np.stack([first[g], rows[g]], 1), np.stack([last[g], rows[g]], 1)]) for g in groups]
    return [e.astype(np.float64) for e in ends]


def convex_hull(points: np.ndarray) -> np.ndarray:
    """Corners of the convex hull in order (Andrew's monotone chain)."""
    points = np.unique(points, axis=0)  # sorted by x, then y
    if len(points) < 3:
        return points

    def chain(sequence) -> list:
        kept: list = []
        for p in sequence:
            while len(kept) > 1 and cross(kept[-2], kept[-1], p) <= 0:
                kept.pop()
            kept.append(p)
        return kept[:-1]

    def cross(o, a, b) -> float:
        return (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0])

    as_list = points.tolist()
    return np.array(chain(as_list) + chain(as_list[::-1]))


def smallest_rectangle(points: np.ndarray) -> np.ndarray:
    """The enclosing rectangle of least area, [4, 2], from top left clockwise; one of its sides lies on the hull."""
    hull = convex_hull(points)
    if len(hull) < 3:
        low, high = hull.min(0), hull.max(0)
        return np.array([low, [high[0], low[1]], high, [low[0], high[1]]])
    edges = np.roll(hull, -1, axis=0) - hull
    angles = np.unique(np.arctan2(edges[:, 1], edges[:, 0]) % (np.pi / 2))
    along = np.stack([np.cos(angles), np.sin(angles)], 1)
    across = np.stack([-np.sin(angles), np.cos(angles)], 1)
    u, v = hull @ along.T, hull @ across.T  # [points, angles]
    best = int(np.argmin(np.ptp(u, axis=0) * np.ptp(v, axis=0)))
    u0, u1, v0, v1 = u[:, best].min(), u[:, best].max(), v[:, best].min(), v[:, best].max()
    corners = np.array([[u0, v0], [u1, v0], [u1, v1], [u0, v1]]) @ np.stack([along[best], across[best]])
    return from_top_left(corners)


def from_top_left(corners: np.ndarray) -> np.ndarray:
    """The same clockwise corners, started at the one nearest the picture's top left for an upright rectangle."""
    by_x = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = by_x[:2], by_x[2:]
    left, right = left[np.argsort(left[:, 1])], right[np.argsort(right[:, 1])]
    return np.array([left[0], right[0], right[1], left[1]])


def sides(rectangle: np.ndarray) -> np.ndarray:
    """Width (top side) and height (left side)."""
    return np.array([np.hypot(*(rectangle[1] - rectangle[0])), np.hypot(*(rectangle[3] - rectangle[0]))])


def grow(rectangle: np.ndarray) -> np.ndarray:
    """Every side moved outwards by area * GROW / perimeter."""
    width, height = sides(rectangle)
    distance = width * height * GROW / (2 * (width + height))
    x_axis = (rectangle[1] - rectangle[0]) / width
    y_axis = (rectangle[3] - rectangle[0]) / height
    signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    return rectangle + distance * (signs[:, :1] * x_axis + signs[:, 1:] * y_axis)


def mean_inside(probability: np.ndarray, rectangle: np.ndarray) -> float:
    """Mean probability of the pixels whose centres are inside the rectangle."""
    x0, y0 = np.floor(rectangle.min(0)).astype(int).clip(0)
    x1, y1 = np.ceil(rectangle.max(0)).astype(int) + 1
    window = probability[y0:y1, x0:x1]
    ys, xs = np.mgrid[y0 : y0 + window.shape[0], x0 : x0 + window.shape[1]]
    inside = np.ones(window.shape, dtype=bool)
    for a, b in zip(rectangle, np.roll(rectangle, -1, axis=0), strict=True):
        inside &= (b[0] - a[0]) * (ys - a[1]) - (b[1] - a[1]) * (xs - a[0]) >= -1e-6 * np.hypot(*(b - a))
    return float(window[inside].mean()) if inside.any() else 0.0
