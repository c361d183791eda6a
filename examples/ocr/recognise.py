"""Text recognition: a cropped line of text to a string, with the PP-OCR recogniser and its CTC decoding.

Crops are scaled to height 48 and run in batches of similar width. The alphabet stands in the model's own metadata.
"""

import numpy as np
import onnx
from PIL import Image

HEIGHT = 48
WIDTH_STEP = 32  # widths are rounded up to a multiple of this, so that few distinct shapes occur
SMALLEST_WIDTH = 64
LARGEST_WIDTH = 1600
BATCH = 4


def read_alphabet(model_path: str) -> list[str]:
    """Class number to character: 0 is CTC's blank, then the model's characters, then the space."""
    model = onnx.load(model_path, load_external_data=False)
    metadata = {p.key: p.value for p in model.metadata_props}
    return ["", *metadata["character"].split("\n"), " "]


def crop(picture: Image.Image, corners: np.ndarray) -> Image.Image:
    """The text upright: the four corners become a rectangle; a box much taller than wide is turned by 90 degrees."""
    top_left, top_right, bottom_right, bottom_left = corners
    width = max(1, round(float(np.hypot(*(top_right - top_left)))))
    height = max(1, round(float(np.hypot(*(bottom_left - top_left)))))
    quad = [float(v) for corner in (top_left, bottom_left, bottom_right, top_right) for v in corner]
    line = picture.transform((width, height), Image.Transform.QUAD, quad, Image.Resampling.BICUBIC)
    return line.transpose(Image.Transpose.ROTATE_90) if height >= 1.5 * width else line


def line_width(line: Image.Image) -> int:
    exact = HEIGHT * line.width / line.height
    return min(LARGEST_WIDTH, max(SMALLEST_WIDTH, int(np.ceil(exact / WIDTH_STEP)) * WIDTH_STEP))


def batches(lines: list[Image.Image]) -> list[list[int]]:
    """Line numbers in groups of at most BATCH, of similar width."""
    order = sorted(range(len(lines)), key=lambda k: line_width(lines[k]))
    return [order[k : k + BATCH] for k in range(0, len(order), BATCH)]


def preprocess(lines: list[Image.Image]) -> np.ndarray:
    """Float32 [N, 3, 48, W], blue first, in -1..1; shorter lines are padded with 0 on the right."""
    width = max(line_width(line) for line in lines)
    batch = np.zeros((len(lines), 3, HEIGHT, width), dtype=np.float32)
    for slot, line in zip(batch, lines, strict=True):
        own = min(width, max(1, int(np.ceil(HEIGHT * line.width / line.height))))
        pixels = np.asarray(line.convert("RGB").resize((own, HEIGHT), Image.Resampling.BILINEAR))
        slot[:, :, :own] = pixels[:, :, ::-1].transpose(2, 0, 1).astype(np.float32) / 127.5 - 1.0
    return batch


def decode(scores: np.ndarray, alphabet: list[str]) -> list[tuple[str, float]]:
    """Text and confidence of each line of a [N, T, classes] output: the best class a step, repeats and blanks out."""
    best, confidence = scores.argmax(-1), scores.max(-1)
    kept = best != 0
    kept[:, 1:] &= best[:, 1:] != best[:, :-1]
    result = []
    for classes, values, keep in zip(best, confidence, kept, strict=True):
        text = "".join(alphabet[k] for k in classes[keep])
        result.append((text, float(values[keep].mean()) if keep.any() else 0.0))
    return result
