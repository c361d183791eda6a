"""Realistic inputs for the real models: which shapes, which value range, what is fed back from step to step.

`CASES` is the one table that tests/models and bench/models share. A case names its model, the shape range one engine
must serve, and a function that makes the feeds; never zeros, always from a seeded generator.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Feeds = dict[str, np.ndarray]


class Case(NamedTuple):
    name: str
    model: str  # a key of models.MODELS
    make: Callable[[np.random.Generator], Feeds]
    ranges: dict[str, tuple] | None = None  # input name -> (min, opt, max) shapes
    feedback: dict[str, str] = {}  # output name -> input name it becomes in the next step


def image(input_name: str, shape: tuple[int, ...], scale: float = 1.0) -> Callable[[np.random.Generator], Feeds]:
    def make(rng: np.random.Generator) -> Feeds:
        return {input_name: (rng.standard_normal(shape) * scale).astype(np.float32)}

    return make


def page(input_name: str, shape: tuple[int, int, int, int]) -> Callable[[np.random.Generator], Feeds]:
    """A light page with rows of dark strokes, much like text, as the text detector wants it: values in [-1, 1]."""

    def make(rng: np.random.Generator) -> Feeds:
        x = 0.9 + 0.05 * rng.standard_normal(shape)
        height, width = shape[2:]
        for top in range(16, height - 40, 56):
            left = 12 + int(rng.integers(0, 24))
            while left < width - 40:
                for _ in range(2):  # an upright and a level stroke in each letter's box
                    h, w = (22, 4) if rng.random() < 0.5 else (4, 12)
                    y, start = top + int(rng.integers(0, 26 - h)), left + int(rng.integers(0, 16 - w))
                    x[:, :, y : y + h, start : start + w] = -0.8
                left += 16 if rng.random() < 0.85 else 30
        return {input_name: x.astype(np.float32)}

    return make


def file_bytes(rng: np.random.Generator) -> Feeds:
    """Two files: one that fills magika's window and a short one padded with its padding token, 256."""
    data = rng.integers(0, 256, (2, 2048), dtype=np.int32)
    data[1, 300:1024] = 256
    data[1, 1024:1748] = 256
    return {"bytes": data}


def one_file(rng: np.random.Generator) -> Feeds:
    return {"bytes": file_bytes(rng)["bytes"][1:]}


def sound(rng: np.random.Generator, samples: int, rate: int) -> np.ndarray:
    """A voice-like tone with harmonics that swells and fades, in noise."""
    t = np.arange(samples) / rate
    pitch = 120 + 30 * np.sin(2 * np.pi * 1.5 * t)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    tone = sum(np.sin(k * phase + k) / k for k in range(1, 12)) * (0.5 + 0.5 * np.sin(2 * np.pi * 0.7 * t))
    return (0.2 * tone + 0.02 * rng.standard_normal(samples)).astype(np.float32)


def vad_frame(rate: int) -> int:
    """Samples a step of silero-vad takes: the frame and the tail of the frame before it."""
    return 576 if rate == 16000 else 288


def vad_step(rate: int) -> Callable[[np.random.Generator], Feeds]:
    def make(rng: np.random.Generator) -> Feeds:
        return {
            "input": sound(rng, vad_frame(rate), rate)[None],
            "state": (0.1 * rng.standard_normal((2, 1, 128))).astype(np.float32),
            "sr": np.array(rate, dtype=np.int64),
        }

    return make


def music(rng: np.random.Generator) -> Feeds:
    return {"serving_default_input_2:0": sound(rng, 43844, 22050).reshape(1, 43844, 1)}


DET_RANGE = {"x": ((1, 3, 32, 32), (1, 3, 320, 320), (1, 3, 640, 640))}
REC_RANGE = {"x": ((1, 3, 48, 32), (1, 3, 48, 320), (2, 3, 48, 640))}
CLS_RANGE = {"x": ((1, 3, 48, 192), (1, 3, 48, 192), (6, 3, 48, 192))}
NSFW_RANGE = {"input_0": ((1, 224, 224, 3), (1, 224, 224, 3), (2, 224, 224, 3))}
MAGIKA_RANGE = {"bytes": ((1, 2048), (1, 2048), (4, 2048))}
PITCH_RANGE = {"serving_default_input_2:0": ((1, 43844, 1), (1, 43844, 1), (2, 43844, 1))}


def vad_range(rate: int) -> dict[str, tuple]:
    shape, state = (1, vad_frame(rate)), (2, 1, 128)
    return {"input": (shape, shape, shape), "state": (state, state, state)}


VAD_FEEDBACK = {"stateN": "state"}

CASES = [
    Case("ppocr_det_320", "ppocr_det", page("x", (1, 3, 320, 320)), DET_RANGE),
    Case("ppocr_det_640", "ppocr_det", page("x", (1, 3, 640, 640)), DET_RANGE),
    Case("ppocr_rec_48x320", "ppocr_rec", image("x", (1, 3, 48, 320), 0.5), REC_RANGE),
    Case("ppocr_cls", "ppocr_cls", image("x", (1, 3, 48, 192), 0.5), CLS_RANGE),
    Case("open_nsfw", "open_nsfw", image("input_0", (1, 224, 224, 3), 60.0), NSFW_RANGE),
    Case("magika", "magika", one_file, MAGIKA_RANGE),
    Case("silero_vad_16k", "silero_vad", vad_step(16000), vad_range(16000), VAD_FEEDBACK),
    Case("basic_pitch", "basic_pitch", music, PITCH_RANGE),
]


def case(name: str) -> Case:
    return next(c for c in CASES if c.name == name)
