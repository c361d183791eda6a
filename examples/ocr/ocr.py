"""Reads the text in a picture with deepjit, then shows how the two models do against ONNX Runtime.

usage: ocr.py [IMAGE] [--out annotated.png] [--threads N] [--no-compare]
Without IMAGE it draws a picture with known text and checks what was read (exit code 1 when much is wrong).
"""

import argparse
import sys
import time
from difflib import SequenceMatcher
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "tools"), str(ROOT / "bench" / "models")]

import compare  # noqa: E402
import models  # noqa: E402
import picture  # noqa: E402
import pipeline  # noqa: E402
from PIL import Image  # noqa: E402

LEAST_ACCURACY = 0.95


def progress(text: str):
    print(text, file=sys.stderr, flush=True)


def squeeze(text: str) -> str:
    """Without spaces: the recogniser leaves many out, as it was trained on Chinese."""
    return "".join(text.split())


def accuracy(lines: list[pipeline.Line]) -> float:
    """Share of the drawn characters that were read in place, each drawn text against the read line most like it."""
    right = total = 0
    print("\ndrawn text and what was read (spaces do not count):")
    for item in picture.TEXTS:
        want = squeeze(item.text)
        matches = [(SequenceMatcher(None, want, squeeze(line.text), False), line.text) for line in lines]
        best, text = max(matches, key=lambda m: m[0].ratio(), default=(None, ""))
        same = sum(b.size for b in best.get_matching_blocks()) if best else 0
        same = max(0, same - max(0, len(squeeze(text)) - len(want)))  # what was read too much counts as wrong
        right, total = right + same, total + len(want)
        print(f"  {'ok ' if same == len(want) else 'BAD'} {item.text}" + ("" if same == len(want) else f"  ->  {text}"))
    print(f"accuracy: {right} of {total} characters, {right / total:.1%}")
    return right / total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("image", nargs="?", help="a picture file; without it one is drawn")
    parser.add_argument("--out", default="annotated.png", help="where the picture with boxes and text goes")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-compare", action="store_true", help="only read the text")
    args = parser.parse_args()

    det, rec = str(models.path("ppocr_det")), str(models.path("ppocr_rec"))
    source = Image.open(args.image).convert("RGB") if args.image else picture.draw()
    progress("building the detector and the recogniser")
    start = time.perf_counter()
    reader = pipeline.Reader(det, rec, threads=args.threads)
    progress(f"built in {time.perf_counter() - start:.1f} s; reading")
    start = time.perf_counter()
    lines = reader.read(source)
    seconds = time.perf_counter() - start
    for line in lines:
        corners = " ".join(f"({x:.0f},{y:.0f})" for x, y in line.corners)
        print(f"{line.confidence:.3f}  {line.text}   {corners}")
    print(f"{len(lines)} lines in {seconds * 1e3:.0f} ms")
    picture.annotate(source, lines).save(args.out)
    progress(f"written: {args.out}")

    good = args.image is not None or accuracy(lines) >= LEAST_ACCURACY
    if not args.no_compare:
        compare.print_table(reader, source, det, rec, args.threads, progress)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
