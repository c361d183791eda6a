"""The whole reader: detect, crop, recognise, put in reading order.

reader = Reader("det.onnx", "rec.onnx", threads=2)
for line in reader.read(Image.open("page.png")):
    print(line.text, line.confidence, line.corners)
"""

from typing import NamedTuple

import deepjit
import detect
import numpy as np
import recognise
from PIL import Image

LIMIT = 960  # longer side of what the detector sees
# One engine serves every shape between the first and the last; the middle one is tuned for.
DET_RANGES = {"x": ((1, 3, 32, 32), (1, 3, 640, 640), (1, 3, LIMIT, LIMIT))}
REC_RANGES = {
    "x": (
        (1, 3, recognise.HEIGHT, recognise.SMALLEST_WIDTH),
        (1, 3, recognise.HEIGHT, 320),
        (recognise.BATCH, 3, recognise.HEIGHT, recognise.LARGEST_WIDTH),
    )
}


class Line(NamedTuple):
    text: str
    confidence: float
    corners: np.ndarray  # [4, 2] x, y from the text's top left clockwise


class Reader:
    def __init__(self, det_path: str, rec_path: str, threads: int | None = None):
        self.detector = deepjit.build(det_path, threads=threads, ranges=DET_RANGES)
        self.recogniser = deepjit.build(rec_path, threads=threads, ranges=REC_RANGES)
        self.alphabet = recognise.read_alphabet(rec_path)
        self.det_input, self.det_output = self.detector.inputs[0].name, self.detector.outputs[0].name
        self.rec_input, self.rec_output = self.recogniser.inputs[0].name, self.recogniser.outputs[0].name

    def read(self, picture: Image.Image, least_confidence: float = 0.5) -> list[Line]:
        picture = picture.convert("RGB")
        boxes = self.find_boxes(picture)
        texts = self.read_boxes(picture, boxes)
        lines = [Line(text, score, box.corners) for box, (text, score) in zip(boxes, texts, strict=True)]
        return [line for line in lines if line.text.strip() and line.confidence >= least_confidence]

    def find_boxes(self, picture: Image.Image) -> list[detect.Box]:
        """Text boxes in reading order."""
        outputs = self.detector.run({self.det_input: detect.preprocess(picture, LIMIT)})
        boxes = detect.postprocess(outputs[self.det_output][0, 0], picture.size)
        return [boxes[k] for row in rows([b.corners for b in boxes]) for k in row]

    def read_boxes(self, picture: Image.Image, boxes: list[detect.Box]) -> list[tuple[str, float]]:
        crops = [recognise.crop(picture, box.corners) for box in boxes]
        texts: list[tuple[str, float]] = [("", 0.0)] * len(crops)
        for group in recognise.batches(crops):
            outputs = self.recogniser.run({self.rec_input: recognise.preprocess([crops[k] for k in group])})
            for k, text in zip(group, recognise.decode(outputs[self.rec_output], self.alphabet), strict=True):
                texts[k] = text
        return texts


def rows(corners: list[np.ndarray]) -> list[list[int]]:
    """Box numbers as rows from top to bottom, each from left to right.

    A box joins a row when its middle lies between the row's top and bottom at the row's last box.
    """
    found: list[list[int]] = []
    for k in sorted(range(len(corners)), key=lambda k: corners[k][:, 1].mean()):
        middle = corners[k][:, 1].mean()
        for row in reversed(found):
            last = corners[row[-1]]
            top, bottom = last[:2, 1].mean(), last[2:, 1].mean()
            if top < middle < bottom:
                row.append(k)
                break
        else:
            found.append([k])
    return [sorted(row, key=lambda k: corners[k][:, 0].mean()) for row in found]
