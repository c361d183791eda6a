"""Realistic inputs for the real models that the tests run on one engine without any range: WIDE lists them.

Each has feeds of several shapes, in the order they are given to the engine; never zeros, always from a seeded
generator. BOUND is the largest allowed error of a model in float, relative to the largest magnitude of each output.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from model_feeds import Feeds, image, page, sound, vad_frame, vad_step

Make = Callable[[np.random.Generator], Feeds]

BOUND = 1e-4


class Wide(NamedTuple):
    model: str  # a key of models.MODELS
    makes: list[Make]
    eight_bits: bool = False  # quantizes on the way


def nudged(path: str, seed: int) -> bytes:
    """The model with each float of its initializers changed by a millionth, up or down."""
    import onnx

    rng = np.random.default_rng(seed)
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            array = onnx.numpy_helper.to_array(tensor)
            moved = array * (1 + 1e-6 * rng.choice([-1, 1], array.shape))
            tensor.CopyFrom(onnx.numpy_helper.from_array(moved.astype(np.float32), tensor.name))
    return model.SerializeToString()


def normal(rng: np.random.Generator, *shape: int, mean: float = 0, scale: float = 1) -> np.ndarray:
    return (mean + scale * rng.standard_normal(shape)).astype(np.float32)


def pick(rng: np.random.Generator, low: int, high: int, *shape: int) -> np.ndarray:
    return rng.integers(low, high, shape).astype(np.int64)


def tokens(rng: np.random.Generator, vocabulary: int, *shape: int) -> np.ndarray:
    """Token numbers as text has them: few are frequent, many are rare."""
    ranks = np.minimum(rng.zipf(1.2, shape), vocabulary - 3)
    return (2 + (ranks * 7919) % (vocabulary - 2)).astype(np.int64)


# ---- voice activity


def vad_batch(batch: int, rate: int | None) -> Make:
    """rate None: the model has no such input."""

    def make(rng: np.random.Generator) -> Feeds:
        rows = [vad_step(rate or 16000)(rng) for _ in range(batch)]
        feeds = {
            "input": np.concatenate([r["input"] * (1 + i) for i, r in enumerate(rows)]),
            "state": np.concatenate([r["state"] for r in rows], axis=1),
        }
        return feeds if rate is None else feeds | {"sr": rows[0]["sr"]}

    return make


def vad_sequence(steps: int) -> Make:
    def make(rng: np.random.Generator) -> Feeds:
        frame = vad_frame(16000)
        audio = sound(rng, steps * frame, 16000).reshape(steps, frame)
        return {"input": audio, "h": normal(rng, 1, 1, 128, scale=0.1), "c": normal(rng, 1, 1, 128, scale=0.1)}

    return make


# ---- speech


def log_mel(rng: np.random.Generator, bands: int, frames: int) -> np.ndarray:
    """A log spectrogram of a voice-like sound, scaled as Whisper wants it."""
    audio = sound(rng, frames * 160 + 400, 16000)
    windows = np.lib.stride_tricks.sliding_window_view(audio, 400)[::160][:frames]
    power = np.abs(np.fft.rfft(windows * np.hanning(400))) ** 2
    edges = np.linspace(0, power.shape[1], bands + 1).astype(int)
    mel = np.add.reduceat(power, edges[:-1], axis=1).T
    logs = np.log10(np.maximum(mel, 1e-10))
    return ((np.maximum(logs, logs.max() - 8) + 4) / 4).astype(np.float32)


def turn(batch: int) -> Make:
    def make(rng: np.random.Generator) -> Feeds:
        return {"input_features": np.stack([log_mel(rng, 80, 800) for _ in range(batch)])}

    return make


def filter_net_enc(steps: int) -> Make:
    def make(rng: np.random.Generator) -> Feeds:
        return {"feat_erb": normal(rng, 1, 1, steps, 32, scale=0.5), "feat_spec": normal(rng, 1, 2, steps, 96)}

    return make


def rectified(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return np.maximum(normal(rng, *shape), 0)


def filter_net_erb(steps: int) -> Make:
    def make(rng: np.random.Generator) -> Feeds:
        maps = {name: rectified(rng, 1, 64, steps, n) for name, n in [("e3", 8), ("e2", 8), ("e1", 16), ("e0", 32)]}
        return {"emb": rectified(rng, 1, steps, 512), **maps}

    return make


def filter_net_df(steps: int) -> Make:
    def make(rng: np.random.Generator) -> Feeds:
        return {"emb": rectified(rng, 1, steps, 512), "c0": rectified(rng, 1, 64, steps, 96)}

    return make


def voice(batch: int) -> Make:
    def make(rng: np.random.Generator) -> Feeds:
        return {"mel_window": np.stack([4 * log_mel(rng, 40, 80).T - 6 for _ in range(batch)])}

    return make


def voice_filter(batch: int, steps: int) -> Make:
    def make(rng: np.random.Generator) -> Feeds:
        vector = normal(rng, batch, 256)
        return {
            "stacked_logmel": normal(rng, batch, steps, 512, mean=-4, scale=2),
            "dvec": vector / np.linalg.norm(vector, axis=1, keepdims=True),
            "h0": normal(rng, 3, batch, 512, scale=0.2),
            "c0": normal(rng, 3, batch, 512, scale=0.4),
        }

    return make


# ---- text


def text(name: str, vocabulary: int, *shape: int) -> Make:
    return lambda rng: {name: tokens(rng, vocabulary, *shape)}


def padded_mask(batch: int, length: int) -> np.ndarray:
    """Each row after the first is two tokens shorter than the one before."""
    return (np.arange(length) < length - 2 * np.arange(batch)[:, None]).astype(np.int64)


def title_source(batch: int, length: int) -> Make:
    def make(rng: np.random.Generator) -> Feeds:
        return {"input_ids": tokens(rng, 32128, batch, length), "attention_mask": padded_mask(batch, length)}

    return make


def title(batch: int, source: int, length: int) -> Make:
    def make(rng: np.random.Generator) -> Feeds:
        return {
            "input_ids": tokens(rng, 32128, batch, length),
            "encoder_hidden_states": normal(rng, batch, source, 512, scale=0.2),
            "encoder_attention_mask": padded_mask(batch, source),
        }

    return make


def reaction(atoms: int) -> Make:
    """Two molecules on either side; distances are symmetric, and great between molecules."""

    def make(rng: np.random.Generator) -> Feeds:
        half = pick(rng, 1, 13, 1, atoms, atoms)
        distances = np.minimum(half, half.transpose(0, 2, 1))
        roles = np.repeat(np.array([[1, 2]]), [atoms // 2, atoms - atoms // 2], axis=1)
        return {
            "atoms": pick(rng, 1, 40, 1, atoms),
            "neighbors": pick(rng, 1, 8, 1, atoms),
            "distances": distances,
            "roles": roles.astype(np.int64),
        }

    return make


WIDE = [
    Wide("ppocr6_det", [page("x", (1, 3, h, w)) for h, w in [(320, 320), (160, 256)]]),
    Wide("ppocr6_rec", [image("x", s, 0.5) for s in [(1, 3, 48, 320), (2, 3, 48, 160)]]),
    Wide("silero_vad", [vad_batch(1, 16000), vad_batch(3, 16000), vad_batch(1, 8000)]),
    Wide("silero_vad_op15", [vad_batch(1, 16000), vad_batch(3, 16000)]),
    Wide("silero_vad_half", [vad_batch(1, None), vad_batch(3, None)]),
    Wide("silero_vad_ifless", [vad_batch(1, 16000), vad_batch(3, 16000), vad_batch(2, 8000)]),
    Wide("silero_vad_openvino", [vad_batch(1, None)]),
    Wide("silero_vad_sequence", [vad_sequence(n) for n in (6, 1, 31)]),
    Wide("smart_turn", [turn(1), turn(2)], eight_bits=True),
    Wide("filter_net_enc", [filter_net_enc(n) for n in (20, 1, 57)]),
    Wide("filter_net_erb", [filter_net_erb(n) for n in (20, 1, 57)]),
    Wide("filter_net_df", [filter_net_df(n) for n in (20, 1, 57)]),
    Wide("voice_embedder", [voice(1), voice(3)], eight_bits=True),
    Wide("voice_filter", [voice_filter(1, 1), voice_filter(2, 5)], eight_bits=True),
    Wide("tashkeel_bilstm", [text("input_ids", 54, 1, 30), text("input_ids", 54, 2, 17)], eight_bits=True),
    Wide("tashkeel_rawi", [text("input", 302, 1, 30), text("input", 302, 2, 17)], eight_bits=True),
    *[
        Wide(f"tashkeel_rawi_{form}", [text("input", 236, 2, 17), text("input", 236, 1, 90)], eight_bits=True)
        for form in ("v2", "v3", "ensemble")
    ],
    Wide("t5_encoder", [title_source(1, 12), title_source(2, 33)], eight_bits=True),
    Wide("t5_decoder", [title(1, 12, 1), title(2, 33, 9)], eight_bits=True),
    Wide("rxnmap", [reaction(24), reaction(11)]),
]
