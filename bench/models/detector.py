"""Makes a detector as one ONNX file, from the frame to the boxes: pre-processing, net, decoding and NMS inside.

usage: detector.py [fixed|dynamic...] [--width 0.5] [--folder build/exports]

The net is a CSP backbone with a PAN neck and decoupled heads on strides 8, 16 and 32. Weights are random, from a seed.
Made-up scenes go through the net as it is made: each convolution keeps their size, the last ones spread positions and
scenes apart, and the objectness is set so that a few in a hundred positions count as found: NMS has work to do.

fixed: a frame [1, 720, 1280, 3] goes letterboxed into 640 x 640. dynamic: a frame of any size from 64 x 64 on is halved
and rounded down to multiples of 32, so all of the net has dynamic sizes. Both: uint8 BGR, channels last, in; boxes
[M, 4] in the frame's pixels (left, top, right, bottom), scores [M] and classes [M] out.
"""

import argparse
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from boxes import scene
from exports import FOLDER, Builder
from onnx import TensorProto, helper

CLASSES = 80
STRIDES = (8, 16, 32)
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of R, G and B
THRESHOLD, OVERLAP, MOST_BOXES = 0.25, 0.45, 300
FOUND = 0.06  # of the positions in the scenes
LARGEST = 4.0  # logarithm of a distance
SCENES = 6
CLASS_OFFSET = 4096.0  # between the boxes of two classes, so that one NMS keeps them apart


class Size(NamedTuple):
    """How wide and deep the net is, and the sides of frame and net where they are fixed."""

    width: float = 0.5
    depth: int = 1
    frame: tuple[int, int] = (720, 1280)
    net: int = 640


class Value(NamedTuple):
    """A tensor of the graph, and what it is for the scenes: [scenes, channels, rows, columns]."""

    name: str
    seen: np.ndarray


def windows(x: np.ndarray, size: int, stride: int, fill: float = 0.0) -> np.ndarray:
    """[scenes, channels, rows, columns, size, size], padded so that a stride of 1 keeps rows and columns."""
    pad = size // 2
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))[:, :, ::stride, ::stride]


class Spread(NamedTuple):
    mean: float
    deviation: float


class Net(Builder):
    """A graph whose nodes and weights are named by where they stand, with the values for the scenes beside it."""

    def __init__(self, name: str, seed: int = 0):
        super().__init__(name)
        self.rng = np.random.default_rng(seed)
        self.places: list[str] = []
        self.multiplications = 0  # for the scenes

    @contextmanager
    def at(self, place: str):
        self.places.append(place)
        yield
        self.places.pop()

    def label(self, kind: str) -> str:
        self.count += 1
        return "/" + "/".join([*self.places, f"{kind}_{self.count}"])

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes):
        label = self.label(kind)
        results = [f"{label}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), results, label, **attributes))
        return results[0] if outputs == 1 else results

    def floats(self, *values: float) -> str:
        return self.constant(np.array(values, dtype=np.float32))

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))

    # ---- layers of the net

    def convolve(self, x: Value, out: int, size: int = 1, stride: int = 1, spread: Spread | None = None) -> Value:
        """A convolution whose results have a mean square of 1 over the scenes, or whose channels are spread so."""
        taken = windows(x.seen, size, stride).transpose(0, 2, 3, 1, 4, 5)
        scenes, rows, columns, into = taken.shape[:4]
        w = self.rng.standard_normal((out, into * size * size), dtype=np.float32)
        y = taken.reshape(scenes * rows * columns, -1) @ w.T
        self.multiplications += y.size * w.shape[1]
        if spread:
            gain = spread.deviation / y.std(0)
            bias = spread.mean - y.mean(0) * gain
        else:
            gain = np.full(out, 1 / np.sqrt(np.square(y).mean()))
            bias = 0.1 * self.rng.standard_normal(out)
        shaped = (w * gain[:, None]).reshape(out, -1, size, size).astype(np.float32)
        name = self.op(
            "Conv",
            x.name,
            self.constant(shaped),
            self.constant(bias.astype(np.float32)),
            dilations=[1, 1],
            group=1,
            kernel_shape=[size, size],
            pads=[size // 2] * 4,
            strides=[stride, stride],
        )
        seen = (y * gain + bias).astype(np.float32).reshape(scenes, rows, columns, out)
        return Value(name, seen.transpose(0, 3, 1, 2))

    def layer(self, x: Value, out: int, size: int = 1, stride: int = 1) -> Value:
        """A convolution and its SiLU."""
        y = self.convolve(x, out, size, stride)
        name = self.op("Mul", y.name, self.op("Sigmoid", y.name))
        return Value(name, y.seen / (1 + np.exp(-y.seen)))

    def add(self, x: Value, y: Value) -> Value:
        return Value(self.op("Add", x.name, y.name), x.seen + y.seen)

    def concat(self, *parts: Value) -> Value:
        return Value(self.op("Concat", *[p.name for p in parts], axis=1), np.concatenate([p.seen for p in parts], 1))

    def pool(self, x: Value) -> Value:
        name = self.op("MaxPool", x.name, ceil_mode=0, kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1])
        return Value(name, windows(x.seen, 5, 1, -np.inf).max((4, 5)))

    def twice(self, x: Value) -> Value:
        scales = self.floats(1, 1, 2, 2)
        how = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
        return Value(self.op("Resize", x.name, "", scales, **how), x.seen.repeat(2, 2).repeat(2, 3))

    def csp(self, x: Value, out: int, blocks: int, residual: bool = True) -> Value:
        """Half of the channels go through the blocks, half go by."""
        half = out // 2
        y, by = self.layer(x, half), self.layer(x, half)
        for block in range(blocks):
            with self.at(f"block{block}"):
                z = self.layer(self.layer(y, half), half, 3)
                y = self.add(y, z) if residual else z
        return self.layer(self.concat(y, by), out)

    def pyramid(self, x: Value) -> Value:
        half = self.layer(x, x.seen.shape[1] // 2)
        parts = [half]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.layer(self.concat(*parts), x.seen.shape[1])


# ---- the net


def channels(size: Size, full: int) -> int:
    return max(16, int(full * size.width) // 8 * 8)


def backbone(b: Net, x: Value, size: Size) -> list[Value]:
    """What strides 8, 16 and 32 see."""
    levels = []
    with b.at("backbone"):
        with b.at("stem"):
            x = b.layer(x, channels(size, 64), 3, 2)
        for stage, (full, blocks) in enumerate([(128, 1), (256, 3), (512, 3), (1024, 1)]):
            with b.at(f"stage{stage + 1}"):
                x = b.layer(x, channels(size, full), 3, 2)
                if stage == 3:
                    x = b.pyramid(x)
                x = b.csp(x, channels(size, full), blocks * size.depth)
            levels.append(x)
    return levels[1:]


def neck(b: Net, levels: list[Value], size: Size) -> list[Value]:
    low, mid, high = levels
    narrow, wide = channels(size, 256), channels(size, 512)
    with b.at("neck"):
        with b.at("top_down"):
            high = b.layer(high, wide)
            mid = b.layer(b.csp(b.concat(b.twice(high), mid), wide, size.depth, residual=False), narrow)
            low = b.csp(b.concat(b.twice(mid), low), narrow, size.depth, residual=False)
        with b.at("bottom_up"):
            mid = b.csp(b.concat(b.layer(low, narrow, 3, 2), mid), wide, size.depth, residual=False)
            high = b.concat(b.layer(mid, wide, 3, 2), high)
            high = b.csp(high, channels(size, 1024), size.depth, residual=False)
    return [low, mid, high]


class Head(NamedTuple):
    """One level's results: logarithms of the distances to the four sides in strides, and logits."""

    distances: Value
    objectness: Value
    classes: Value


def head(b: Net, x: Value, size: Size) -> Head:
    x = b.layer(x, channels(size, 256))
    width = x.seen.shape[1]
    with b.at("box"):
        y = b.layer(b.layer(x, width, 3), width, 3)
        distances = b.convolve(y, 4, spread=Spread(0.8, 0.4))
        objectness = b.convolve(y, 1, spread=Spread(0, 1.5))
    with b.at("class"):
        y = b.layer(b.layer(x, width, 3), width, 3)
        classes = b.convolve(y, CLASSES, spread=Spread(0, 1.5))
    return Head(distances, objectness, classes)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def objectness_bias(heads: list[Head]) -> float:
    """With it the wanted part of the scenes' positions is above the threshold."""
    margins = []
    for h in heads:
        needed = np.minimum(THRESHOLD / sigmoid(h.classes.seen).max(1), 1 - 1e-6)
        margins.append((h.objectness.seen[:, 0] - np.log(needed / (1 - needed))).ravel())
    return float(-np.quantile(np.concatenate(margins), 1 - FOUND))


# ---- before and after it


def prepare(b: Net, size: Size | None) -> tuple[str, str, str]:
    """From the frame to the net's input; then frame pixels to one of the net's, and where the frame begins in it (both
    left, top, right, bottom)."""
    with b.at("prepare"):
        x = b.op("Cast", "frame", to=TensorProto.FLOAT)
        x = b.op("Transpose", x, perm=[0, 3, 1, 2])
        if size:
            height, width = size.frame
            ratio = size.net / max(height, width)
            sides = [round(height * ratio), round(width * ratio)]
            wanted = b.ints(1, 3, *sides)
        else:
            rounded = [b.op("Mul", b.op("Div", b.dim("frame", axis), b.ints(64)), b.ints(32)) for axis in (1, 2)]
            wanted = b.op("Concat", b.ints(1, 3), *rounded, axis=0)
        x = b.op("Resize", x, "", "", wanted, mode="linear", coordinate_transformation_mode="half_pixel")
        begins = b.floats(0, 0, 0, 0)
        if size:
            rest = [size.net - side for side in sides]
            first = [side // 2 for side in rest]
            pads = b.ints(0, 0, *first, 0, 0, *[r - f for r, f in zip(rest, first, strict=True)])
            x = b.op("Pad", x, pads, b.number(114), mode="constant")
            begins = b.floats(first[1], first[0], first[1], first[0])
            scales = b.floats(width / sides[1], height / sides[0], width / sides[1], height / sides[0])
        else:
            over = [
                b.op("Div", *[b.op("Cast", d, to=TensorProto.FLOAT) for d in (b.dim("frame", axis), net)])
                for axis, net in ((2, rounded[1]), (1, rounded[0]))
            ]
            scales = b.op("Concat", *over, *over, axis=0)
        x = b.op("Gather", x, b.ints(2, 1, 0), axis=1)
        x = b.op("Mul", x, b.number(1 / 255))
        shaped = [np.array(v, dtype=np.float32).reshape(1, 3, 1, 1) for v in (MEAN, DEVIATION)]
        x = b.op("Div", b.op("Sub", x, b.constant(shaped[0])), b.constant(shaped[1]))
    return x, scales, begins


def grid(b: Net, x: str, axis: int, count: int | None) -> str:
    """Middles of the columns (axis 3) or rows (axis 2) of a level, to be broadcast over it."""
    shape = b.ints(1, 1, 1, -1) if axis == 3 else b.ints(1, 1, -1, 1)
    if count:
        middles = np.arange(count, dtype=np.float32) + 0.5
        return b.constant(middles.reshape([1, 1, 1, -1] if axis == 3 else [1, 1, -1, 1]))
    length = b.op("Gather", b.op("Shape", x), b.constant(np.int64(axis)), axis=0)
    numbers = b.op("Range", b.constant(np.int64(0)), length, b.constant(np.int64(1)))
    return b.op("Reshape", b.op("Add", b.op("Cast", numbers, to=TensorProto.FLOAT), b.number(0.5)), shape)


def decode_level(b: Net, h: Head, stride: int, bias: float, net: int | None) -> tuple[str, str]:
    """Boxes [1, 4, positions] in pixels of the net's input, and scores [1, classes, positions]."""
    count = net // stride if net else None
    far = b.op("Exp", b.op("Clip", h.distances.name, "", b.number(LARGEST)))
    left, top, right, bottom = b.op("Split", far, b.ints(1, 1, 1, 1), outputs=4, axis=1)
    x, y = grid(b, far, 3, count), grid(b, far, 2, count)
    sides = [b.op("Sub", x, left), b.op("Sub", y, top), b.op("Add", x, right), b.op("Add", y, bottom)]
    boxes = b.op("Mul", b.op("Concat", *sides, axis=1), b.number(stride))
    sure = b.op("Sigmoid", b.op("Add", h.objectness.name, b.number(bias)))
    scores = b.op("Mul", b.op("Sigmoid", h.classes.name), sure)
    return b.op("Reshape", boxes, b.ints(1, 4, -1)), b.op("Reshape", scores, b.ints(1, CLASSES, -1))


def decode(b: Net, heads: list[Head], scales: str, begins: str, net: int | None) -> tuple[str, str, str]:
    """Boxes [1, N, 4] in the frame's pixels, best scores [1, 1, N] and their classes [1, N]."""
    bias = objectness_bias(heads)
    with b.at("decode"):
        parts = []
        for h, stride in zip(heads, STRIDES, strict=True):
            with b.at(f"stride{stride}"):
                parts.append(decode_level(b, h, stride, bias, net))
        boxes = b.op("Transpose", b.op("Concat", *[p[0] for p in parts], axis=2), perm=[0, 2, 1])
        boxes = b.op("Mul", b.op("Sub", boxes, begins), scales)
        scores = b.op("Concat", *[p[1] for p in parts], axis=2)
        best = b.op("ReduceMax", scores, axes=[1], keepdims=1)
        return boxes, best, b.op("ArgMax", scores, axis=1, keepdims=0)


def suppress(b: Net, boxes: str, best: str, classes: str) -> None:
    """The outputs: what is left of the boxes, of each class by itself."""
    with b.at("nms"):
        apart = b.op("Mul", b.op("Cast", classes, to=TensorProto.FLOAT), b.number(CLASS_OFFSET))
        moved = b.op("Add", boxes, b.op("Unsqueeze", apart, b.ints(2)))
        limits = [b.constant(np.array([MOST_BOXES])), b.floats(OVERLAP), b.floats(THRESHOLD)]
        kept = b.op("NonMaxSuppression", moved, best, *limits, center_point_box=0)
        index = b.op("Squeeze", b.op("Slice", kept, b.ints(2), b.ints(3), b.ints(1)), b.ints(1))
        for name, values, shape in (("boxes", boxes, (-1, 4)), ("scores", best, (-1,)), ("classes", classes, (-1,))):
            b.op("Gather", b.op("Reshape", values, b.ints(*shape)), index, axis=0)
            b.nodes[-1].output[0] = name


def normalized(frame: np.ndarray) -> np.ndarray:
    """What the graph makes of a frame that needs no other size."""
    x = frame[0, :, :, ::-1].astype(np.float32) / 255
    return ((x - np.float32(MEAN)) / np.float32(DEVIATION)).transpose(2, 0, 1)


def detector(kind: str = "fixed", size: Size | None = None, suppressed: bool = True) -> onnx.ModelProto:
    """Without suppression the outputs are all boxes [1, N, 4], best scores [1, 1, N] and classes [1, N]."""
    size = size or Size()
    fixed = size if kind == "fixed" else None
    b = Net(f"detector_{kind}")
    side = max(128, min(256, size.net))
    x, scales, begins = prepare(b, fixed)
    seen = np.stack([normalized(scene(side, side, seed)) for seed in range(SCENES)])
    levels = backbone(b, Value(x, seen), size)
    heads = []
    for x, stride in zip(neck(b, levels, size), STRIDES, strict=True):
        with b.at("head"), b.at(f"stride{stride}"):
            heads.append(head(b, x, size))
    results = decode(b, heads, scales, begins, size.net if fixed else None)
    names = ("boxes", "scores", "classes")
    shapes = (["M", 4], ["M"], ["M"]) if suppressed else ([1, "P", 4], [1, 1, "P"], [1, "P"])
    if suppressed:
        suppress(b, *results)
    else:
        for name, result in zip(names, results, strict=True):
            b.nodes.append(helper.make_node("Identity", [result], [name], f"/{name}"))
    types = (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64)
    frame = [1, *fixed.frame, 3] if fixed else [1, "H", "W", 3]
    made = b.model(
        [helper.make_tensor_value_info("frame", TensorProto.UINT8, frame)],
        [helper.make_tensor_value_info(n, t, s) for n, t, s in zip(names, types, shapes, strict=True)],
    )
    gflop = 2e-9 * b.multiplications * size.net**2 / (SCENES * side**2)
    helper.set_model_props(made, {"gflop": f"{gflop:.2f}"})
    return made


def gflop(made: onnx.ModelProto) -> float:
    """Of the convolutions, at the fixed size."""
    return float(next(p.value for p in made.metadata_props if p.key == "gflop"))


def path(kind: str, folder: Path = FOLDER, size: Size | None = None) -> Path:
    """The file, made when it is not there."""
    size = size or Size()
    sides = "x".join(map(str, (*size.frame, size.net)))
    file = folder / f"detector_{kind}_{size.width}_{size.depth}_{sides}.onnx"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(detector(kind, size), str(file))
    return file


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", choices=[[], "fixed", "dynamic"], metavar="KIND")
    parser.add_argument("--width", type=float, default=Size().width)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    args = parser.parse_args(arguments)
    for kind in args.kinds or ["fixed", "dynamic"]:
        file = path(kind, args.folder, Size(width=args.width))
        made = onnx.load(file)
        print(f"{file}: {file.stat().st_size / 2**20:.1f} MiB, {len(made.graph.node)} nodes, {gflop(made):.1f} GFLOP")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
