"""What real models are made of, as one kernel: rotary embeddings, gates, masks, norms of any layout, box decoding."""

import numpy as np
from cases_views import END, ints
from fusion_case import (
    AXES,
    CUT_ROW,
    IMAGES,
    N_SIZES,
    OPEN_SIZES,
    PART,
    SHIFTED,
    Case,
    draw,
)

N_ONLY = ({"N": 0}, *N_SIZES)
HEADS = tuple({"N": n, "S": s} for n, s in ((0, 3), (2, 0), (1, 1), (2, 16), (1, 65), (3, 17)))
HALVES = ints(zero=[0], mid=[4], end=[END], last=[-1])
ATTENTION = [
    Case(
        "rotary embedding",
        "g (float[N,3,S,8] x, float[S,8] c, float[S,8] s) => (float[N,3,S,8] y)"
        "{ a = Slice (x, zero, mid, last) b = Slice (x, mid, end, last) n = Neg (b) r = Concat <axis = -1> (n, a)"
        " p = Mul (x, c) q = Mul (r, s) y = Add (p, q) }",
        HALVES,
        HEADS,
    ),
    Case(
        "rotary embedding of neighbours",
        "g (float[N,3,S,8] x, float[S,4] c, float[S,4] s) => (float[N,3,S,8] y)"
        "{ a = Slice (x, zero, end, last, two) b = Slice (x, one, end, last, two)"
        " ac = Mul (a, c) bs = Mul (b, s) p = Sub (ac, bs) sa = Mul (a, s) cb = Mul (b, c) q = Add (sa, cb)"
        " pu = Unsqueeze (p, last) qu = Unsqueeze (q, last) r = Concat <axis = -1> (pu, qu) y = Reshape (r, shape) }",
        ints(zero=[0], one=[1], two=[2], end=[END], last=[-1], shape=[0, 3, -1, 8]),
        HEADS[2:],
    ),
    Case(
        "rotary embedding after the heads are split",
        "g (float[N,S,24] x, float[S,8] c, float[S,8] s) => (float[N,3,S,8] y)"
        "{ h = Reshape (x, heads) t = Transpose <perm = [0, 2, 1, 3]> (h)"
        " a = Slice (t, zero, mid, last) b = Slice (t, mid, end, last) n = Neg (b) r = Concat <axis = -1> (n, a)"
        " p = Mul (t, c) q = Mul (r, s) y = Add (p, q) }",
        HALVES | ints(heads=[0, 0, 3, 8]),
        HEADS,
    ),
    Case(
        "rotary embedding in half",
        "g (float16[N,3,S,8] x, float16[S,8] c, float16[S,8] s) => (float16[N,3,S,8] y)"
        "{ a = Slice (x, zero, mid, last) b = Slice (x, mid, end, last) n = Neg (b) r = Concat <axis = -1> (n, a)"
        " p = Mul (x, c) q = Mul (r, s) y = Add (p, q) }",
        HALVES,
        HEADS,
    ),
    Case(
        "causal mask",
        "g (float[N,3,16,16] x) => (float[N,3,16,16] y) { a = Mul (x, k) w = Where (mask, a, low) y = Softmax (w) }",
        {"k": np.float32(0.25), "mask": np.tril(np.ones((1, 1, 16, 16), bool)), "low": np.float32(-1e9)},
        N_ONLY,
    ),
    Case(
        "causal mask of minus infinity",
        "g (float[N,3,16,16] x) => (float[N,3,16,16] y) { a = Mul (x, k) w = Add (a, mask) y = Softmax (w) }",
        {"k": np.float32(0.25), "mask": np.where(np.tril(np.ones((16, 16))) > 0, 0, -np.inf).astype(np.float32)},
        N_ONLY,
    ),
    Case(
        "softmax with a sink",
        "g (float[N,3,S,8] x) => (float[N,3,S,8] y)"
        "{ c = Concat <axis = -1> (x, x) s = Softmax (c) y = Slice (s, zero, end, last) }",
        ints(zero=[0], end=[8], last=[-1]),
        HEADS,
        faults={"fusion": CUT_ROW},
    ),
    Case(
        "heads joined",
        "g (float[N,3,S,8] x) => (float[N,S,24] y)"
        "{ t = Transpose <perm = [0, 2, 1, 3]> (x) r = Reshape (t, shape) y = Mul (r, k) }",
        ints(shape=[0, 0, 24]) | {"k": draw(24)},
        HEADS,
    ),
    Case(
        "causal mask cut by a computed size",
        "g (float[N,3,S,S] x) => (float[N,3,S,S] y)"
        "{ h = Shape (x) n = Gather (h, last2) m = Slice (mask, zero, n, last2) a = Mul (x, k) w = Where (m, a, low)"
        " y = Softmax (w) }",
        ints(last2=[2, 3], zero=[0, 0])
        | {"k": np.float32(0.25), "mask": np.tril(np.ones((1, 1, 70, 70), bool)), "low": np.float32(-1e9)},
        HEADS[2:],
    ),
    Case(
        "the class token of an open batch",
        "g (float[N,16,8] x) => (float[N,17,8] y)"
        "{ h = Shape (x) n = Gather (h, zero) s = Concat <axis = 0> (n, ones) e = Expand (token, s)"
        " c = Concat <axis = 1> (e, x) y = Add (c, p) }",
        ints(zero=[0], ones=[1, 1]) | {"token": draw(1, 1, 8), "p": draw(1, 17, 8)},
        N_ONLY,
    ),
    Case(
        "the first token and positions",
        "g (float[3,16,8] x) => (float[3,17,8] y)"
        "{ e = Expand (token, shape) c = Concat <axis = 1> (e, x) y = Add (c, p) }",
        {"token": draw(1, 1, 8), "p": draw(1, 17, 8)} | ints(shape=[3, 1, 1]),
        ({"N": 3},),
    ),
]

GATES = [
    Case(
        "GLU",
        "g (float[N,S,8] x) => (float[N,S,4] y)"
        "{ a = Slice (x, zero, mid, last) b = Slice (x, mid, end, last) s = Sigmoid (b) y = Mul (a, s) }",
        HALVES,
        HEADS,
        ort_hard=False,  # its sigmoid of -88 is 0
    ),
    Case(
        "GLU by Split",
        "g (float[N,8,W] x) => (float[N,4,W] y)"
        "{ a, b = Split <axis = 1, num_outputs = 2> (x) s = Sigmoid (b) y = Mul (a, s) }",
        dims=OPEN_SIZES,
    ),
    Case(
        "SwiGLU",
        "g (float[N,S,8] x) => (float[N,S,4] y)"
        "{ a = Slice (x, zero, mid, last) b = Slice (x, mid, end, last) s = Sigmoid (a) w = Mul (a, s)"
        " y = Mul (w, b) }",
        HALVES,
        HEADS,
    ),
    Case(
        "GeGLU",
        "g (float[N,S,8] x) => (float[N,S,4] y)"
        "{ a = Slice (x, zero, mid, last) b = Slice (x, mid, end, last) s = Gelu (b) y = Mul (a, s) }",
        HALVES,
        HEADS,
        ort_hard=False,
    ),
    Case(
        "squeeze and excite by means",
        "g (float[N,4,5,W] x) => (float[N,4,5,W] y)"
        "{ m = ReduceMean (x, hw) a = Mul (m, k) b = Sigmoid (a) y = Mul (x, b) }",
        {"hw": AXES["hw"], "k": draw(4, 1, 1)},
        OPEN_SIZES[1:],
        hard=False,
    ),
    Case(
        "squeeze and excite of NHWC",
        "g (float[N,5,W,4] x) => (float[N,5,W,4] y)"
        "{ m = ReduceMean (x, axes) a = Mul (m, k) b = HardSigmoid (a) y = Mul (x, b) }",
        {"axes": np.array([1, 2]), "k": draw(4)},
        OPEN_SIZES[1:],
        hard=False,
    ),
    Case(
        "mean and maximum of channels as two channels",
        "g (float[N,5,H,W] x) => (float[N,2,H,W] y)"
        "{ m = ReduceMean (x, one) b = ReduceMax (x, one) c = Concat <axis = 1> (m, b) y = Sigmoid (c) }",
        {"one": AXES["one"]},
        IMAGES,
        hard=False,
        faults={"fusion": PART},
    ),
]

IMAGE = [
    Case(
        "pre-processing of bytes",
        "g (uint8[N,H,W,3] x) => (float[N,3,H,W] y)"
        "{ f = Cast <to = 1> (x) a = Sub (f, mean) b = Div (a, std) y = Transpose <perm = [0, 3, 1, 2]> (b) }",
        {"mean": np.float32([123.7, 116.3, 103.5]), "std": np.float32([58.4, 57.1, 57.4])},
        IMAGES,
    ),
    Case(
        "pre-processing in half, channels swapped",
        "g (uint8[N,H,W,3] x) => (float16[N,3,H,W] y)"
        "{ g = Gather <axis = 3> (x, bgr) f = Cast <to = 1> (g) a = Mul (f, k) t = Transpose <perm = [0, 3, 1, 2]> (a)"
        " y = Cast <to = 10> (t) }",
        {"k": np.float32(1 / 255)} | ints(bgr=[2, 1, 0]),
        IMAGES,
    ),
    Case(
        "channel shuffle",
        "g (float[N,8,5,W] x) => (float[N,8,5,W] y)"
        "{ a = Relu (x) r = Reshape (a, groups) t = Transpose <perm = [0, 2, 1, 3, 4]> (r) q = Reshape (t, whole)"
        " y = Mul (q, k) }",
        ints(groups=[0, 2, 4, 5, -1], whole=[0, 8, 5, -1]) | {"k": draw(8, 1, 1)},
        OPEN_SIZES[2:],
    ),
    Case(
        "space to depth by slices",
        "g (float[N,3,8,10] x) => (float[N,12,4,5] y)"
        "{ a = Slice (x, s00, end, hw, two) b = Slice (x, s10, end, hw, two) c = Slice (x, s01, end, hw, two)"
        " d = Slice (x, s11, end, hw, two) f = Concat <axis = 1> (a, b, c, d) y = Mul (f, k) }",
        ints(s00=[0, 0], s10=[1, 0], s01=[0, 1], s11=[1, 1], end=[END, END], hw=[2, 3], two=[2, 2])
        | {"k": np.float32(1 / 255)},
        N_ONLY,
    ),
    Case(
        "space to depth by slices of slices",
        "g (float[N,3,8,10] x) => (float[N,12,4,5] y)"
        "{ u = Slice (x, zero, end, h, two) l = Slice (x, one, end, h, two)"
        " a = Slice (u, zero, end, w, two) b = Slice (l, zero, end, w, two) c = Slice (u, one, end, w, two)"
        " d = Slice (l, one, end, w, two) f = Concat <axis = 1> (a, b, c, d) y = Neg (f) }",
        ints(zero=[0], one=[1], end=[END], two=[2], h=[2], w=[3]),
        N_ONLY,
    ),
    Case(
        "pixel shuffle by hand",
        "g (float[N,8,5,W] x) => (float[N,2,10,V] y)"
        "{ a = Relu (x) r = Reshape (a, parts) t = Transpose <perm = [0, 1, 4, 2, 5, 3]> (r) q = Reshape (t, whole)"
        " y = Neg (q) }",
        ints(parts=[0, 2, 2, 2, 5, -1], whole=[0, 2, 10, -1]),
        OPEN_SIZES[2:],
    ),
    Case(
        "patches of an image in a row",
        "g (float[N,3,8,8] x) => (float[N,16,12] y)"
        "{ a = Mul (x, k) r = Reshape (a, parts) t = Transpose <perm = [0, 2, 4, 3, 5, 1]> (r) q = Reshape (t, rows)"
        " y = Add (q, p) }",
        ints(parts=[0, 3, 4, 2, 4, 2], rows=[0, 16, 12]) | {"k": np.float32(0.5), "p": draw(16, 12)},
        N_ONLY,
    ),
    Case(
        "windows of Swin",
        "g (float[N,8,8,4] x) => (float[M,16,4] y)"
        "{ a = Mul (x, k) r = Reshape (a, parts) t = Transpose <perm = [0, 1, 3, 2, 4, 5]> (r) q = Reshape (t, rows)"
        " y = Add (q, p) }",
        ints(parts=[0, 2, 4, 2, 4, 4], rows=[-1, 16, 4]) | {"k": np.float32(0.5), "p": draw(16, 4)},
        N_SIZES,
    ),
    Case(
        "windows shifted",
        "g (float[N,8,8,4] x) => (float[N,8,8,4] y)"
        "{ a = Slice (x, s, e, h) b = Slice (x, z, s, h) c = Concat <axis = 1> (a, b)"
        " d = Slice (c, s, e, w) f = Slice (c, z, s, w) g = Concat <axis = 2> (d, f) y = Mul (g, k) }",
        ints(z=[0], s=[3], e=[END], h=[1], w=[2]) | {"k": draw(4)},
        N_ONLY,
    ),
    Case(
        "patches merged as in Swin",
        "g (float[N,8,6,4] x, float[16] s, float[16] b) => (float[N,12,16] y)"
        "{ x0 = Slice (x, s00, end, hw, two) x1 = Slice (x, s10, end, hw, two) x2 = Slice (x, s01, end, hw, two)"
        " x3 = Slice (x, s11, end, hw, two) c = Concat <axis = -1> (x0, x1, x2, x3) r = Reshape (c, rows)"
        " y = LayerNormalization (r, s, b) }",
        ints(s00=[0, 0], s10=[1, 0], s01=[0, 1], s11=[1, 1], end=[END, END], hw=[1, 2], two=[2, 2], rows=[0, 12, 16]),
        N_ONLY,
        hard=False,
    ),
]

HEADS_OF_MODELS = [
    Case(
        "box decoding with anchors",
        "g (float[N,3,W,9] x, float[W,2] grid) => (float[N,V,9] y)"
        "{ s = Sigmoid (x) c = Slice (s, i0, i2, last) w = Slice (s, i2, i4, last) o = Slice (s, i4, end, last)"
        " c2 = Mul (c, two) cg = Add (c2, grid) cs = Mul (cg, stride) w2 = Mul (w, two) ww = Mul (w2, w2)"
        " wa = Mul (ww, anchors) k = Concat <axis = -1> (cs, wa, o) y = Reshape (k, rows) }",
        ints(i0=[0], i2=[2], i4=[4], end=[END], last=[-1], rows=[0, -1, 9])
        | {"two": np.float32(2), "stride": np.float32(8), "anchors": draw(3, 1, 2)},
        OPEN_SIZES[2:],
        hard=False,
    ),
    Case(
        "box decoding without anchors",
        "g (float[N,4,W] x, float[N,5,W] c, float[2,W] a) => (float[N,9,W] y)"
        "{ lt = Slice (x, i0, i2, one) rb = Slice (x, i2, i4, one) p = Sub (a, lt) q = Add (a, rb) s = Add (p, q)"
        " m = Mul (s, half) d = Sub (q, p) k = Concat <axis = 1> (m, d) b = Mul (k, stride) f = Sigmoid (c)"
        " y = Concat <axis = 1> (b, f) }",
        ints(i0=[0], i2=[2], i4=[4], one=[1]) | {"half": np.float32(0.5), "stride": np.float32(8)},
        OPEN_SIZES,
        hard=False,
    ),
    Case(
        "the likeliest letter",
        "g (float[N,S,11] x) => (int64[N,S] y) { s = Softmax (x) y = ArgMax <axis = -1, keepdims = 0> (s) }",
        dims=HEADS,
        hard=False,
    ),
    Case(
        "the likeliest letter with its score",
        "g (float[N,S,11] x) => (int64[N,S] y, float[N,S] p)"
        "{ s = Softmax (x) y = ArgMax <axis = -1, keepdims = 0> (s) p = ReduceMax <keepdims = 0> (s, last) }",
        ints(last=[-1]),
        dims=HEADS,
        hard=False,
    ),
    Case(
        "the class of each pixel",
        "g (float[N,5,H,W] x) => (int64[N,H,W] y) { a = Mul (x, k) y = ArgMax <axis = 1, keepdims = 0> (a) }",
        {"k": draw(5, 1, 1)},
        IMAGES,
    ),
    Case(
        "relative positions by Pad and Reshape",
        "g (float[N,3,8,15] x, float[N,3,8,8] c) => (float[N,3,8,8] y)"
        "{ p = Pad (x, pads) r = Reshape (p, turned) s = Slice (r, one, end, two) q = Reshape (s, back)"
        " k = Slice (q, zero, eight, last) y = Add (c, k) }",
        ints(pads=[0, 0, 0, 1, 0, 0, 0, 0], turned=[0, 3, 16, 8], one=[1], end=[END], two=[2], back=[0, 3, 8, 15])
        | ints(zero=[0], eight=[8], last=[-1]),
        N_ONLY,
        faults={"fusion": SHIFTED},
    ),
    Case(
        "cosine similarity of rows",
        "g (float[N,W] x, float[N,W] z) => (float[N] y)"
        "{ p = Mul (x, z) d = ReduceSum <keepdims = 0> (p, last) a = ReduceL2 <keepdims = 0> (x, last)"
        " b = ReduceL2 <keepdims = 0> (z, last) n = Mul (a, b) m = Max (n, eps) y = Div (d, m) }",
        ints(last=[-1]) | {"eps": np.float32(1e-5)},
        OPEN_SIZES[1:],
        hard=False,
    ),
    Case(
        "differences of neighbours",
        "g (float[N,16,W] x) => (float[N,15,W] y)"
        "{ a = Slice (x, one, end, axis) b = Slice (x, zero, less, axis) d = Sub (a, b) y = Abs (d) }",
        ints(zero=[0], one=[1], end=[END], less=[-1], axis=[1]),
        OPEN_SIZES,
    ),
]

PATTERNS = ATTENTION + GATES + IMAGE + HEADS_OF_MODELS
