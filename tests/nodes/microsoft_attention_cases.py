"""The attention and LSTM operators of com.microsoft, for test_microsoft_ops.py."""

import numpy as np
from microsoft_cases import F16, F32, I8, I32, I64, U8, Case, Const, ints, quantized, real, scalar

B, S, N, H = 2, 4, 2, 16  # batch, length, heads, size of a head
HIDDEN = N * H


def mask_cases(keys: int):
    """Masks over `keys` keys, by name; no row is masked out as a whole."""
    ends = np.array([keys, keys - 2], I32)
    flat = (np.arange(keys) < ends[:, None]).astype(I32)
    square = np.maximum(flat[:, None] * np.ones((1, S, 1), I32), np.eye(S, keys, dtype=I32)[None])
    return {"lengths": ends, "flat": flat, "square": square}


# ---- Attention


def attention_cases():
    x, w, b = real(B, S, 12), Const(real(12, 3 * HIDDEN, scale=0.3)), Const(real(3 * HIDDEN, scale=0.3))
    op, heads = "Attention", {"num_heads": N}
    yield Case("attention", op, [x, w, b], heads)
    yield Case("attention_no_bias", op, [x, w], heads)
    yield Case("attention_causal_scale", op, [x, w, b], heads | {"unidirectional": 1, "scale": 0.5})
    for name, mask in mask_cases(S).items():
        yield Case(f"attention_{name}", op, [x, w, b, mask], heads)
        yield Case(f"attention_{name}_causal", op, [x, w, b, mask], heads | {"unidirectional": 1})
    ranges = np.array([4, 3, 1, 0], I32)  # ends, then beginnings
    yield Case("attention_ranges", op, [x, w, b, ranges], heads)
    yield Case("attention_filter", op, [x, w, b, mask_cases(S)["flat"]], heads | {"mask_filter_value": -3.0})
    for shape in [(B, N, S, S), (1, N, S, S), (1, 1, S, S)]:
        name = "x".join(map(str, shape))
        yield Case(f"attention_bias_{name}", op, [x, w, b, None, None, real(*shape)], heads)
    past = real(2, B, N, 3, H)
    two = (F32, F32)
    for name, mask in {"none": None, **mask_cases(S + 3)}.items():
        for causal in [0, 1]:
            attrs = heads | {"unidirectional": causal}
            yield Case(f"attention_past_{name}_{causal}", op, [x, w, b, mask, past], attrs, two)
    inputs = [x, w, b, mask_cases(S + 3)["flat"], past, real(B, N, S, S + 3)]
    yield Case("attention_past_bias", op, inputs, heads, reference=past_and_bias)
    yield Case("attention_present", op, [x, w, b], heads | {"unidirectional": 1}, two)
    wide = Const(real(12, HIDDEN * 2 + N * 5, scale=0.3))
    attrs = heads | {"qkv_hidden_sizes": [HIDDEN, HIDDEN, N * 5]}
    yield Case("attention_v_size", op, [x, wide, Const(real(HIDDEN * 2 + N * 5))], attrs)
    for dtype in [U8, I8]:
        qx, qw = quantized(B, S, 12), Const(quantized(12, 3 * HIDDEN, dtype=dtype))
        scales, zeros = [scalar(0.02), scalar(0.01)], [scalar(120, U8), scalar(2, dtype)]
        name = np.dtype(dtype).name
        mask = mask_cases(S)["lengths"]
        yield Case(f"qattention_{name}", "QAttention", [qx, qw, b, *scales, mask, *zeros], heads)
        inputs = [qx, qw, b, *scales, None, *zeros, past]
        yield Case(f"qattention_past_{name}", "QAttention", inputs, heads | {"unidirectional": 1}, two)


# ---- MultiHeadAttention


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def plain_attention(q, k, v, bias=0.0):
    """[batch, length, heads, size] each, in double precision."""
    q, k, v = (x.astype(np.float64).transpose(0, 2, 1, 3) for x in (q, k, v))
    weights = softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1]) + bias)
    y = (weights @ v).transpose(0, 2, 1, 3)
    return y.reshape(*y.shape[:2], -1)


def packed_query(inputs):
    return [plain_attention(*(inputs[0][:, :, :, i] for i in range(3)))]


def packed_key(inputs):
    query = inputs[0].reshape(B, S, N, H)
    return [plain_attention(query, inputs[1][:, :, :, 0], inputs[1][:, :, :, 1])]


def megatron(inputs):
    """A mask of rank 4 counts rows and keys from the first token of the past on."""
    mask, past = inputs[3:5]
    before = past.shape[3]
    keep = mask[:, :, before : before + S, : before + S]
    return with_past(inputs, np.where(keep > 0, 0.0, -10000.0))


def past_and_bias(inputs):
    keep = inputs[3][:, None, None]
    return with_past(inputs, np.where(keep > 0, 0.0, -10000.0) + inputs[5])


def with_past(inputs, bias):
    x, w, b, _, past = inputs[:5]
    q, k, v = (p.reshape(B, S, N, H) for p in np.split(x @ w + b, 3, axis=-1))
    k = np.concatenate([past[0].transpose(0, 2, 1, 3), k], 1)
    v = np.concatenate([past[1].transpose(0, 2, 1, 3), v], 1)
    return [plain_attention(q, k, v, bias)]


def multi_head_cases():
    op, heads = "MultiHeadAttention", {"num_heads": N}
    q, k, v = (real(B, S, HIDDEN) for _ in range(3))
    bias = Const(real(3 * HIDDEN))
    yield Case("mha", op, [q, k, v], heads)
    yield Case("mha_bias", op, [q, k, v, bias], heads | {"scale": 0.2})
    yield Case("mha_causal", op, [q, k, v, bias], heads | {"unidirectional": 1})
    for name, mask in mask_cases(S).items():
        yield Case(f"mha_{name}", op, [q, k, v, bias, mask], heads)
        yield Case(f"mha_{name}_causal", op, [q, k, v, None, mask], heads | {"unidirectional": 1})
    for shape in [(B, N, S, S), (1, N, S, S), (B, 1, S, S), (1, 1, S, S)]:
        name = "x".join(map(str, shape))
        yield Case(f"mha_add_{name}", op, [q, k, v, None, None, real(*shape)], heads)
    three = (F32, F32, F32)
    past = [real(B, N, 3, H), real(B, N, 3, H)]
    yield Case("mha_past", op, [q, k, v, bias, None, None, *past], heads, three)
    yield Case("mha_past_causal", op, [q, k, v, None, None, None, *past], heads | {"unidirectional": 1}, three)
    inputs = [q, k, v, bias, mask_cases(S + 3)["flat"], real(B, N, S, S + 3), *past]
    yield Case("mha_past_mask_bias", op, inputs, heads, three)
    yield Case("mha_present", op, [q, k, v, bias], heads, three)
    keys, values = real(B, 6, HIDDEN), real(B, 6, N * 5)
    yield Case("mha_cross", op, [q, keys, values], heads)
    yield Case("mha_cross_bias", op, [q, keys, values, Const(real(2 * HIDDEN + N * 5))], heads)
    yield Case("mha_cross_flat", op, [q, keys, values, None, mask_cases(6)["flat"]], heads)
    yield Case("mha_placed", op, [q, real(B, N, 6, H), real(B, N, 6, H)], heads)
    yield Case("mha_placed_bias", op, [q, real(B, N, 6, H), real(B, N, 6, H), bias], heads)
    yield Case("mha_packed_query", op, [real(B, S, N, 3, H)], heads, reference=packed_query)
    yield Case("mha_packed_key", op, [q, real(B, 6, N, 2, H)], heads, reference=packed_key)
    x, w, b = real(B, S, 12), Const(real(12, 3 * HIDDEN, scale=0.3)), Const(real(3 * HIDDEN, scale=0.3))
    mask = np.tril(np.ones((B, 1, 9, 9), I32))
    inputs = [x, w, b, mask, real(2, B, N, 3, H)]
    yield Case("attention_megatron", "Attention", inputs, heads, reference=megatron)


# ---- GroupQueryAttention


def defined_cache(lengths):
    """Output 0, and each row of the caches as far as it has tokens."""

    def cut(outputs):
        caches = [y[b, :, :length] for y in outputs[1:] for b, length in enumerate(lengths)]
        return [outputs[0], *caches]

    return cut


def rotary_caches(positions: int, half: int):
    angles = np.arange(positions)[:, None] / 100.0 ** (np.arange(half) / half)
    return [Const(np.cos(angles).astype(F32)), Const(np.sin(angles).astype(F32))]


def group_query(name, length, past, cache, lengths, packed=False, more=(), q_heads=4, **attrs):
    """`past` tokens in a cache of `cache` rows, `length` new ones; row b has lengths[b] tokens in all."""
    batch = len(lengths)
    total = max(lengths)
    hidden, kv = q_heads * H, N * H
    if packed:
        inputs = [real(batch, length, hidden + 2 * kv), None, None]
    else:
        inputs = [real(batch, length, hidden), real(batch, length, kv), real(batch, length, kv)]
    inputs += [real(batch, N, cache, H), real(batch, N, cache, H)]
    inputs += [np.array(lengths, I32) - 1, np.array(total, I32), *more]
    attrs = {"num_heads": q_heads, "kv_num_heads": N} | attrs
    valid = defined_cache(lengths)
    return Case(f"gqa_{name}", "GroupQueryAttention", inputs, attrs, (F32, F32, F32), valid=valid)


def group_query_cases():
    yield group_query("prompt", 5, 0, 0, [5, 5])
    yield group_query("step", 1, 6, 6, [7])
    yield group_query("step_batch", 1, 6, 6, [7, 7])
    yield group_query("packed", 1, 6, 6, [7, 7], packed=True)
    yield group_query("same_heads", 1, 6, 6, [7, 7], q_heads=N)
    yield group_query("ragged", 1, 6, 6, [7, 4])
    yield group_query("buffer", 1, 6, 12, [7, 5])
    yield group_query("buffer_prompt", 5, 0, 12, [5, 5])
    yield group_query("chunk", 3, 6, 6, [9])
    yield group_query("scale", 1, 6, 6, [7], scale=0.3)
    yield group_query("softcap", 5, 0, 0, [5, 5], softcap=2.0)
    yield group_query("softcap_step", 1, 6, 6, [7], softcap=0.7)
    for window in [1, 3, 6, 20]:
        yield group_query(f"window_{window}", 8, 0, 0, [8], local_window_size=window)
        yield group_query(f"window_step_{window}", 1, 6, 6, [7, 5], local_window_size=window)
    caches = rotary_caches(16, H // 2)
    for interleaved in [0, 1]:
        attrs = {"do_rotary": 1, "rotary_interleaved": interleaved}
        yield group_query(f"rotary_prompt_{interleaved}", 5, 0, 0, [5, 5], more=caches, **attrs)
        yield group_query(f"rotary_step_{interleaved}", 1, 6, 6, [7, 4], more=caches, **attrs)
        yield group_query(f"rotary_packed_{interleaved}", 1, 6, 6, [7, 4], packed=True, more=caches, **attrs)
        yield group_query(f"rotary_buffer_{interleaved}", 1, 6, 12, [7, 4], more=caches, **attrs)
    positions = np.array([[6], [3]], I64)
    attrs = {"do_rotary": 1}
    yield group_query("rotary_positions", 1, 6, 6, [7, 4], more=[*caches, positions], **attrs)
    bias = [None, None, None, real(2, 4, 1, 7)]
    yield group_query("bias", 1, 6, 6, [7, 7], more=bias)
    yield group_query("bias_shared", 5, 0, 0, [5], more=[None, None, None, real(1, 1, 5, 5)])
    yield group_query("bias_buffer", 1, 6, 12, [7, 7], more=bias)
    yield group_query("smooth", 1, 6, 6, [7, 5], smooth_softmax=1)
    yield group_query("sink", 5, 0, 0, [5], more=[None, None, None, None, Const(real(4))])
    yield group_query("sink_window", 1, 6, 6, [7], more=[None, None, None, None, Const(real(4))], local_window_size=3)
    first = [real(1, 5, 4 * H), real(1, 5, N * H), real(1, 5, N * H), None, None]
    first += [np.array([4], I32), np.array(5, I32)]
    attrs = {"num_heads": 4, "kv_num_heads": N}
    yield Case("gqa_no_past", "GroupQueryAttention", first, attrs, (F32, F32, F32))


# ---- RotaryEmbedding


def rotary_cases():
    op = "RotaryEmbedding"
    caches = rotary_caches(16, H // 2)
    for interleaved in [0, 1]:
        attrs = {"interleaved": interleaved}
        start, each = np.array([3], I64), ints(0, 16, B, S, dtype=I64)
        yield Case(f"rotary_start_{interleaved}", op, [real(B, S, HIDDEN), start, *caches], attrs)
        yield Case(f"rotary_each_{interleaved}", op, [real(B, S, HIDDEN), each, *caches], attrs)
        yield Case(f"rotary_placed_{interleaved}", op, [real(B, N, S, H), each, *caches], attrs)
        part = rotary_caches(16, 2)
        attrs = attrs | {"rotary_embedding_dim": 4, "num_heads": N}
        yield Case(f"rotary_part_{interleaved}", op, [real(B, S, HIDDEN), each, *part], attrs)
    half = [Const(c.array.astype(F16)) for c in caches]
    yield Case("rotary_f16", op, [real(B, S, HIDDEN, dtype=F16), start, *half], {}, (F16,), 2e-3)


# ---- DynamicQuantizeLSTM


def stepped(x):
    """x as DynamicQuantizeLinear leaves it: 256 steps over its range and zero."""
    low, high = min(F32(0), x.min()), max(F32(0), x.max())
    scale = F32((high - low) / F32(255))
    zero = np.rint(-low / scale)
    return (np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * np.float64(scale)


def clipped_lstm(clip):
    """The operator by its formula, for what ONNX Runtime does not do: a threshold bounds h's input, the cell, too."""

    def formula(inputs):
        x, w, r, b, _, h0, c0, p, w_scale, w_zero, r_scale, r_zero = inputs
        sigmoid, bound = (lambda v: 1 / (1 + np.exp(-np.clip(v, -clip, clip)))), (lambda v: np.clip(v, -clip, clip))
        ys, hs, cs = [], [], []
        for d in range(w.shape[0]):
            matrices = [
                (m[d].astype(np.float64) - zero[d]) * scale[d]
                for m, scale, zero in [(w, w_scale, w_zero), (r, r_scale, r_zero)]
            ]
            products = stepped(x) @ matrices[0] + b[d].reshape(2, -1).sum(0)
            peep = np.zeros((3, h0.shape[2])) if p is None else p[d].reshape(3, -1)
            h, c, y = h0[d], c0[d], np.zeros((*x.shape[:2], h0.shape[2]))
            for t in range(len(x)) if d == 0 else reversed(range(len(x))):
                i, o, f, g = np.split(products[t] + stepped(h.astype(F32)) @ matrices[1], 4, axis=1)
                c_next = sigmoid(f + peep[2] * c) * c + sigmoid(i + peep[0] * c) * np.tanh(bound(g))
                h = y[t] = sigmoid(o + peep[1] * c_next) * np.tanh(bound(c_next))
                c = c_next
            ys, hs, cs = [*ys, y], [*hs, h], [*cs, c]
        return [np.stack(ys, 1), np.stack(hs), np.stack(cs)]

    return formula


def lstm(name, dtype=I8, directions=1, columns=False, state=True, peephole=False, length=5, lens=None, **attrs):
    hidden, size, batch = 6, 4, 3
    shape = (directions, 4 * hidden) if columns else (directions,)
    zeros = np.zeros(shape, dtype) + (3 if dtype == U8 or not columns else 0)
    weights = [Const(quantized(directions, n, 4 * hidden, dtype=dtype)) for n in (size, hidden)]
    scales = [Const((np.abs(real(*shape)) * 0.002 + 0.002).astype(F32)) for _ in range(2)]
    inputs = [real(length, batch, size), *weights, Const(real(directions, 8 * hidden, scale=0.3))]
    inputs.append(None if lens is None else np.array(lens, I32))
    inputs += [real(directions, batch, hidden, scale=0.5) for _ in range(2)] if state else [None, None]
    inputs.append(Const(real(directions, 3 * hidden, scale=0.3)) if peephole else None)
    inputs += [scales[0], Const(zeros.astype(dtype)), scales[1], Const(zeros.astype(dtype))]
    reference = clipped_lstm(attrs["clip"]) if "clip" in attrs else None
    attrs = {"hidden_size": hidden} | attrs
    return Case(f"lstm_{name}", "DynamicQuantizeLSTM", inputs, attrs, (F32, F32, F32), 1e-4, reference)


def lstm_cases():
    yield lstm("int8")
    yield lstm("uint8", U8)
    yield lstm("reverse", direction="reverse")
    yield lstm("both", directions=2, direction="bidirectional")
    yield lstm("columns", columns=True)
    yield lstm("columns_both", columns=True, directions=2, direction="bidirectional")
    yield lstm("no_state", state=False)
    yield lstm("peephole", peephole=True)
    yield lstm("one_step", length=1)
    yield lstm("activations", activations=["Sigmoid", "Tanh", "Relu"])
    for clip in (0.2, 0.6, 50.0):
        yield lstm(f"clip_{clip}", clip=clip)
    yield lstm("clip_peephole", clip=0.5, peephole=True)
    yield lstm("clip_both", clip=0.5, directions=2, direction="bidirectional")
    for lens in ([5, 2, 4], [3, 1, 2], [1, 4, 4]):
        name = "_".join(map(str, lens))
        yield lstm(f"lens_{name}", lens=lens)
        yield lstm(f"lens_{name}_reverse", lens=lens, direction="reverse")
        yield lstm(f"lens_{name}_both", U8, lens=lens, directions=2, direction="bidirectional")
    yield lstm("lens_columns", columns=True, lens=[2, 5, 3], peephole=True)
    yield lstm("lens_no_state", state=False, lens=[2, 5, 3])


def cases():
    for family in [attention_cases, multi_head_cases, group_query_cases, rotary_cases, lstm_cases]:
        yield from family()
