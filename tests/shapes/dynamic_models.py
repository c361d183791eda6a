"""Two networks as exporters write them: transformer blocks over tokens, a detector over images. All dims are open."""

import numpy as np
from exporter import Exporter

WIDTH, HEADS, VOCABULARY, LONGEST = 16, 4, 50, 40
CLASSES, STRIDES = 3, (4, 8)


def transformer(opset: int = 17):
    """ids, mask [batch, sequence] -> hidden [batch, sequence, 16], pooled [batch, 16]"""
    e = Exporter(opset, 1)
    batch, length = e.size("ids", 0), e.size("ids", 1)
    tokens = e.add("Gather", e.weight(VOCABULARY, WIDTH, scale=1.0), "ids")
    positions = e.expand(e.add("Unsqueeze", e.arange(length), [0]), batch, -1)
    places = e.add("Gather", e.weight(LONGEST, WIDTH, scale=1.0), positions)
    hidden = e.layer_norm(first_token(e, e.add("Add", tokens, places), batch), WIDTH)
    bias = e.add("Add", padding_bias(e, "mask"), causal_bias(e, length))
    for _ in range(2):
        hidden = e.layer_norm(e.add("Add", hidden, attention(e, hidden, bias)), WIDTH)
        inner = e.linear(e.gelu(e.linear(hidden, WIDTH, 4 * WIDTH)), 4 * WIDTH, WIDTH)
        hidden = e.layer_norm(e.add("Add", hidden, inner), WIDTH)
    return e.model(
        {"ids": (np.int64, ["batch", "sequence"]), "mask": (np.int64, ["batch", "sequence"])},
        {"hidden": (hidden, np.float32, 3), "pooled": (pooled(e, hidden, "mask"), np.float32, 2)},
    )


def first_token(e: Exporter, x: str, batch: str) -> str:
    """x[:, 0] = w, which becomes a ScatterND of computed indices."""
    rows = e.add("Unsqueeze", e.arange(batch), [1])
    zeros = e.add("Mul", rows, 0)
    indices = e.add("Concat", rows, zeros, axis=1)
    updates = e.expand(e.add("Unsqueeze", e.weight(WIDTH, scale=1.0), [0]), batch, -1)
    return e.add("ScatterND", x, indices, updates)


def padding_bias(e: Exporter, mask: str) -> str:
    wide = e.add("Cast", e.add("Unsqueeze", e.add("Unsqueeze", mask, [1]), [2]), to=1)
    return e.add("Mul", e.add("Sub", 1.0, wide), -1e4)


def causal_bias(e: Exporter, length: str) -> str:
    ids = e.arange(length)
    later = e.add("Less", e.add("Unsqueeze", ids, [1]), e.add("Unsqueeze", ids, [0]))
    square = e.add("ConstantOfShape", e.shape_of(length, length))
    return e.add("Where", later, -1e4, square)


def attention(e: Exporter, x: str, bias: str) -> str:
    def heads(value: str, perm: list) -> str:
        split = e.reshape(value, e.size(x, 0), e.size(x, 1), HEADS, WIDTH // HEADS)
        return e.add("Transpose", split, perm=perm)

    query = heads(e.linear(x, WIDTH, WIDTH), [0, 2, 1, 3])
    key = heads(e.linear(x, WIDTH, WIDTH), [0, 2, 3, 1])
    value = heads(e.linear(x, WIDTH, WIDTH), [0, 2, 1, 3])
    depth = e.add("Cast", e.add("Slice", e.add("Shape", query), [-1], [np.iinfo(np.int64).max]), to=1)
    scores = e.add("Div", e.add("MatMul", query, key), e.add("Sqrt", depth))
    weights = e.add("Softmax", e.add("Add", scores, bias), axis=-1)
    mixed = e.add("Transpose", e.add("MatMul", weights, value), perm=[0, 2, 1, 3])
    width = e.add("Mul", e.size(mixed, 2), e.size(mixed, 3))
    return e.linear(e.reshape(mixed, e.size(mixed, 0), e.size(mixed, 1), width), WIDTH, WIDTH)


def pooled(e: Exporter, hidden: str, mask: str) -> str:
    weights = e.add("Cast", e.add("Expand", e.add("Unsqueeze", mask, [2]), e.add("Shape", hidden)), to=1)
    total = e.add("ReduceSum", e.add("Mul", hidden, weights), [1], keepdims=0)
    return e.add("Div", total, e.add("Clip", e.add("ReduceSum", weights, [1], keepdims=0), np.float32(1e-9)))


# ---- detector


def detector(opset: int = 17):
    """image [n, 3, h, w] -> boxes [k, 4], scores [k], labels [k], images [k]: what survives NMS."""
    e = Exporter(opset, 2)
    stem = e.conv("image", 3, 8, stride=2)
    fine = e.conv(stem, 8, 8, stride=2)
    coarse = e.conv(fine, 8, 8, stride=2)
    fine = e.add("Add", fine, upsampled(e, e.conv(coarse, 8, 8, kernel=1, relu=False), fine))
    boxes, scores = [], []
    for level, stride in zip((fine, coarse), STRIDES, strict=True):
        scores.append(rows(e, e.conv(level, 8, CLASSES, relu=False), CLASSES))
        boxes.append(decoded(e, rows(e, e.conv(level, 8, 4, relu=False), 4), centres(e, level, stride), stride))
    all_boxes = e.add("Concat", *boxes, axis=1)
    all_scores = e.add("Sigmoid", e.add("Concat", *scores, axis=1))
    best_boxes, best_scores = strongest(e, all_boxes, all_scores, 40)
    return e.model(
        {"image": (np.float32, ["n", 3, "h", "w"])},
        survivors(e, best_boxes, best_scores),
    )


def upsampled(e: Exporter, x: str, like: str) -> str:
    head = e.add("Slice", e.add("Shape", x), [0], [2], [0])
    tail = e.add("Slice", e.add("Shape", like), [2], [4], [0])
    sizes = e.add("Concat", head, tail, axis=0)
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return e.add("Resize", x, None, None, sizes, **how)


def rows(e: Exporter, x: str, channels: int) -> str:
    """[n, c, h, w] -> [n, h*w, c]"""
    count = e.add("Mul", e.size(x, 2), e.size(x, 3))
    return e.reshape(e.add("Transpose", x, perm=[0, 2, 3, 1]), e.size(x, 0), count, channels)


def centres(e: Exporter, level: str, stride: int) -> str:
    """[1, h*w, 2] of (x, y), by two Ranges and a mesh."""
    high, wide = e.size(level, 2), e.size(level, 3)
    ys = e.expand(e.add("Unsqueeze", e.arange(high), [1]), high, wide)
    xs = e.expand(e.add("Unsqueeze", e.arange(wide), [0]), high, wide)
    both = [e.add("Reshape", e.add("Cast", v, to=1), [-1, 1]) for v in (xs, ys)]
    grid = e.add("Mul", e.add("Add", e.add("Concat", *both, axis=1), 0.5), float(stride))
    return e.add("Unsqueeze", grid, [0])


def decoded(e: Exporter, deltas: str, middle: str, stride: int) -> str:
    """Distances to the four sides, made boxes."""
    sides = e.add("Mul", e.add("Softplus", deltas), float(stride))
    first = e.add("Slice", sides, [0], [2], [2])
    second = e.add("Slice", sides, [2], [np.iinfo(np.int64).max], [2])
    return e.add("Concat", e.add("Sub", middle, first), e.add("Add", middle, second), axis=2)


def strongest(e: Exporter, boxes: str, scores: str, most: int):
    """The top k places of each image, k = min(most, places), known at run time only."""
    inputs, attributes = ([scores], {"axes": [2]}) if e.opset < 18 else ([scores, [2]], {})
    peak = e.add("ReduceMax", *inputs, keepdims=0, **attributes)
    limit = e.add("Concat", [most], e.add("Unsqueeze", e.size(scores, 1), [0]), axis=0)
    k = e.add("ReduceMin", limit, keepdims=1)
    _, places = e.add("TopK", peak, k, outputs=2, axis=1)
    n, taken = e.size(places, 0), e.size(places, 1)
    column = e.add("Unsqueeze", places, [2])
    return (
        e.add("GatherElements", boxes, e.expand(column, n, taken, 4), axis=1),
        e.add("GatherElements", scores, e.expand(column, n, taken, CLASSES), axis=1),
    )


def survivors(e: Exporter, boxes: str, scores: str) -> dict:
    by_class = e.add("Transpose", scores, perm=[0, 2, 1])
    limits = [np.array([v], t) for v, t in ((6, np.int64), (0.5, np.float32), (0.4, np.float32))]
    chosen = e.add("NonMaxSuppression", boxes, by_class, *limits)
    image, label, place = (e.add("Gather", chosen, column, axis=1) for column in range(3))
    where = e.add("Concat", *[e.add("Unsqueeze", v, [1]) for v in (image, place)], axis=1)
    return {
        "boxes": (e.add("GatherND", boxes, where), np.float32, 2),
        "scores": (e.add("GatherND", by_class, chosen), np.float32, 1),
        "labels": (label, np.int64, 1),
        "images": (image, np.int64, 1),
    }
