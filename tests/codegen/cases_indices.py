"""Models that read by indices of a run: embeddings, indices from the end, indices that the kernel itself computes."""

import numpy as np
from cases_views import ints
from fusion_case import N_SIZES, ONE_ROW, OPEN_SIZES, Case, draw

TOKENS = tuple({"N": n, "S": s} for n, s in ((0, 3), (2, 0), (1, 1), (2, 16), (1, 65), (3, 17)))
TABLE = {"table": draw(11, 24), "p": draw(70, 24)}  # the indices that tests feed lie in [-9, 9]

EMBEDDED = [
    Case(
        "tokens and a scale",
        "g (int64[N,S] t) => (float[N,S,24] y) { e = Gather (table, t) y = Mul (e, k) }",
        TABLE | {"k": np.float32(5)},
        TOKENS,
        gpu=False,
    ),
    Case(
        "tokens of 32 bits, segments and a norm",
        "g (int32[N,S] t, int64[N,S] g) => (float[N,S,24] y)"
        "{ e = Gather (table, t) f = Gather (segments, g) a = Add (e, f) y = LayerNormalization (a, scale, bias) }",
        TABLE | {"segments": draw(12, 24), "scale": draw(24), "bias": draw(24)},
        TOKENS,
        gpu=False,
    ),
    Case(
        "a table that is fed",
        "g (float[V,6] table, int64[N,S] t, float[6] b) => (float[N,S,6] y)"
        "{ a = Abs (table) e = Gather (a, t) y = Add (e, b) }",
        dims=tuple({**d, "V": 13} for d in TOKENS),
        gpu=False,
    ),
    Case(
        "indices turned and unsqueezed",
        "g (int64[S,N] t) => (float[N,1,S,24] y)"
        "{ r = Transpose <perm = [1, 0]> (t) u = Unsqueeze (r, one) e = Gather (table, u) y = Neg (e) }",
        TABLE | ints(one=[1]),
        TOKENS,
        gpu=False,
    ),
    Case(
        "places of the last axis",
        "g (float[N,10,12] x, int64[S] i) => (float[N,10,S] y)"
        "{ a = Abs (x) g = Gather <axis = -1> (a, i) y = Neg (g) }",
        dims=TOKENS,
        gpu=False,
    ),
    Case(
        "places of a middle axis by a table",
        "g (int32[N,10,W] x, int32[2,3] i) => (int32[N,2,3,W] y)"
        "{ a = Neg (x) g = Gather <axis = 1> (a, i) y = Mul (g, g) }",
        dims=OPEN_SIZES,
        ort=False,
        gpu=False,
    ),
    Case(
        "elements of rows",
        "g (float[N,10] x, int64[N,7] i) => (float[N,7] y)"
        "{ a = Abs (x) e = GatherElements <axis = 1> (a, i) y = Neg (e) }",
        dims=({"N": 0}, *N_SIZES),
        gpu=False,
    ),
    Case(
        "elements of the first axis",
        "g (float[10,W] x, int32[N,W] i) => (float[N,W] y) { e = GatherElements (x, i) y = Neg (e) }",
        dims=OPEN_SIZES,
        gpu=False,
    ),
    Case(
        "one row of an open dim",
        "g (float[V,W] x, int64 i) => (float[W] y) { a = Abs (x) e = Gather (a, i) y = Neg (e) }",
        dims=({"V": 10, "W": 0}, {"V": 10, "W": 1}, {"V": 17, "W": 33}),
        gpu=False,
    ),
]

PROVED = [
    Case(
        "the embedding of the likeliest",
        "g (float[N,S,11] x) => (float[N,S,24] y)"
        "{ i = ArgMax <axis = 2, keepdims = 0> (x) e = Gather (table, i) y = Neg (e) }",
        TABLE,
        TOKENS,
        faults={"fusion": ONE_ROW},
    ),
    Case(
        "indices that are limited",
        "g (int64[N,S] t) => (float[N,S,24] y) { c = Clip (t, lo, hi) e = Gather (table, c) y = Neg (e) }",
        TABLE | {"lo": np.int64(-3), "hi": np.int64(10)},
        TOKENS,
        ort=False,
    ),
    Case(
        "table indices from both ends",
        "g (float[N,6,W] x) => (float[N,2,3,W] y) { a = Abs (x) c = Gather <axis = 1> (a, i) y = Neg (c) }",
        ints(i=[[5, -6, 1], [-1, 2, 4]]),
        OPEN_SIZES,
    ),
    Case(
        "bytes index",
        "g (uint8[N,S] t) => (float[N,S,2] y) { i = Cast <to = 6> (t) e = Gather (palette, i) y = Neg (e) }",
        {"palette": draw(256, 2)},
        TOKENS,
    ),
    Case(
        "the first and the last of an open dim",
        "g (float[N,S,8] x) => (float[N,2,8] y) { a = Abs (x) c = Gather <axis = 1> (a, i) y = Neg (c) }",
        ints(i=[0, -1]),
        tuple(d for d in TOKENS if d["S"] > 0),
        gpu=False,
    ),
]

BY_INDICES = EMBEDDED + PROVED
