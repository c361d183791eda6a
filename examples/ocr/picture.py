"""Draws a picture with known text for the demo, and pictures with the boxes and the text that were read."""

from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIZE = (900, 640)


class Drawn(NamedTuple):
    text: str
    place: tuple[int, int]
    points: int
    colour: tuple[int, int, int]
    font: str = "DejaVuSans.ttf"
    turn: float = 0.0  # degrees, anticlockwise


TEXTS = [
    Drawn("Deep learning at full speed", (40, 30), 46, (20, 40, 110), "DejaVuSans-Bold.ttf"),
    Drawn("Every kernel is measured and verified", (44, 112), 32, (30, 30, 30)),
    Drawn("Invoice No. 20417", (44, 178), 28, (150, 30, 30), "DejaVuSansMono.ttf"),
    Drawn("Total: 1,284.50 EUR", (520, 178), 28, (20, 100, 50), "DejaVuSansMono.ttf"),
    Drawn("small print is readable too: 8 July 2025, page 3 of 12", (44, 246), 18, (70, 70, 70)),
    Drawn("Warning: hot surface", (44, 300), 36, (200, 60, 20), "DejaVuSerif-Bold.ttf"),
    Drawn("OPEN DAILY 9:00-17:30", (560, 306), 26, (90, 20, 120)),
    Drawn("this line climbs", (70, 390), 34, (10, 90, 130), "DejaVuSerif.ttf", 12.0),
    Drawn("and this one falls", (470, 390), 34, (130, 80, 10), "DejaVuSans.ttf", -9.0),
    Drawn("The quick brown fox jumps over the lazy dog", (44, 560), 30, (0, 0, 0), "DejaVuSerif.ttf"),
]


def font(name: str, points: int):
    """The named system font, or Pillow's own where the system has none."""
    try:
        return ImageFont.truetype(name, points)
    except OSError:
        return ImageFont.load_default(points)


def paper(size: tuple[int, int]) -> Image.Image:
    """A light sheet with a soft shade and grain, so that the background is not one flat colour."""
    width, height = size
    shade = 246 - 18 * np.linspace(0, 1, width)[None, :] * np.linspace(0.3, 1, height)[:, None]
    grain = np.random.default_rng(1).normal(0, 2.0, (height, width))
    grey = np.clip(shade + grain, 0, 255).astype(np.uint8)
    return Image.fromarray(np.stack([grey, grey, (grey * 0.97).astype(np.uint8)], -1))


def draw(texts: list[Drawn] = TEXTS, size: tuple[int, int] = SIZE) -> Image.Image:
    picture = paper(size)
    for item in texts:
        letters = font(item.font, item.points)
        left, top, right, bottom = letters.getbbox(item.text)
        mask = Image.new("L", (right + 8, bottom + 8))
        ImageDraw.Draw(mask).text((4, 4), item.text, fill=255, font=letters)
        if item.turn:
            mask = mask.rotate(item.turn, Image.Resampling.BICUBIC, expand=True)
        picture.paste(Image.new("RGB", mask.size, item.colour), item.place, mask)
    return picture


def annotate(picture: Image.Image, lines) -> Image.Image:
    """A copy with each box outlined and its text in small letters above it."""
    copy = picture.convert("RGB")
    pen = ImageDraw.Draw(copy)
    small = font("DejaVuSans.ttf", 13)
    for line in lines:
        corners = [tuple(map(float, c)) for c in line.corners]
        pen.polygon(corners, outline=(230, 30, 90), width=2)
        label = f"{line.text}  {line.confidence:.2f}"
        x, y = corners[0][0], max(0.0, min(y for _, y in corners) - 15)
        pen.rectangle(pen.textbbox((x, y), label, font=small), fill=(255, 255, 255))
        pen.text((x, y), label, fill=(200, 0, 60), font=small)
    return copy
