"""Models that become one kernel by coordinates: views, places computed at run time, values wanted at several places."""

import numpy as np
from fusion_case import N_SIZES, OPEN_SIZES, SUMS, W_SIZES, Case, draw

END = 2**63 - 1
BACK = -END  # the end of a Slice that walks back to the first element


def ints(**lists) -> dict:
    return {name: np.array(values, np.int64) for name, values in lists.items()}


REVERSED = ints(s=[-1], e=[BACK], last=[-1], back=[-1])

TRANSPOSED = [
    Case(
        "inner dims turned",
        "g (float[N,W,4] x, float[N,4,W] b) => (float[N,4,W] y)"
        "{ a = Abs (x) t = Transpose <perm = [0, 2, 1]> (a) y = Mul (t, b) }",
        dims=OPEN_SIZES,
    ),
    Case(
        "a Transpose without perm",
        "g (float[N,5,W] x) => (float[W,5,N] y) { t = Transpose (x) y = Neg (t) }",
        dims=OPEN_SIZES,
    ),
    Case(
        "turned twice",
        "g (float[N,5,W] x, float[5,W] b) => (float[N,5,W] y)"
        "{ t = Transpose <perm = [0, 2, 1]> (x) r = Relu (t) u = Transpose <perm = [0, 2, 1]> (r) y = Add (u, b) }",
        dims=OPEN_SIZES,
    ),
    Case(
        "a square beside its transpose",
        "g (float[W,W] x) => (float[W,W] y) { a = Neg (x) t = Transpose <perm = [1, 0]> (a) y = Sub (a, t) }",
        dims=({"W": 0}, {"W": 1}, {"W": 17}),
    ),
]

RESHAPED = [
    Case(
        "dims merged",
        "g (float[N,4,W] x) => (float[N,V] y) { a = Abs (x) r = Reshape (a, shape) y = Neg (r) }",
        ints(shape=[0, -1]),
        OPEN_SIZES[2:],
    ),
    Case(
        "a dim split",
        "g (float[N,24] x, float[4,6] b) => (float[N,4,6] y) { a = Abs (x) r = Reshape (a, shape) y = Sub (r, b) }",
        ints(shape=[0, 4, 6]),
        ({"N": 0}, *N_SIZES),
    ),
    Case(
        "split before an open dim",
        "g (float[N,12,W] x, float[4,1] b) => (float[N,3,4,W] y){ a = Abs (x) r = Reshape (a, shape) y = Sub (r, b) }",
        ints(shape=[0, 3, 4, -1]),
        W_SIZES,
    ),
    Case(
        "split and merged elsewhere",
        "g (float[N,12,W] x, float[N,3,W] b) => (float[N,12,W] y)"
        "{ p = Relu (x) r = Reshape (p, split) u = Unsqueeze (b, two) m = Mul (r, u) q = Reshape (m, whole)"
        " y = Sub (q, x) }",
        ints(split=[0, 3, 4, -1], whole=[0, 12, -1], two=[2]),
        OPEN_SIZES[2:],
    ),
    Case(
        "flattened",
        "g (float[N,4,W] x) => (float[N,V] y) { a = Abs (x) r = Flatten <axis = 1> (a) y = Neg (r) }",
        dims=OPEN_SIZES,
    ),
    Case(
        "rows of a split dim",
        "g (float[N,12] x) => (float[N,12] y)"
        "{ r = Reshape (x, split) s = Softmax <axis = 2> (r) q = Reshape (s, whole) y = Mul (q, x) }",
        ints(split=[0, 3, 4], whole=[0, 12]),
        ({"N": 0}, *N_SIZES),
    ),
    Case(
        "expanded to a fed tensor's shape",
        "g (float[N,1,W] x, float[N,5,W] b) => (float[N,5,W] y)"
        "{ a = Abs (x) s = Shape (b) e = Expand (a, s) y = Sub (e, b) }",
        dims=OPEN_SIZES,
    ),
]

SLICED = [
    Case(
        "from the front",
        "g (float[N,9,W] x, float[W] b) => (float[N,5,W] y) { a = Abs (x) c = Slice (a, s, e, axis) y = Mul (c, b) }",
        ints(s=[2], e=[7], axis=[1]),
        OPEN_SIZES,
    ),
    Case(
        "from the end",
        "g (float[N,9,W] x, float[W] b) => (float[N,3,W] y) { a = Abs (x) c = Slice (a, s, e, axis) y = Mul (c, b) }",
        ints(s=[-3], e=[END], axis=[-2]),
        OPEN_SIZES,
    ),
    Case(
        "two axes with steps",
        "g (float[N,9,7] x) => (float[N,4,3] y) { a = Abs (x) c = Slice (a, s, e, axes, steps) y = Neg (c) }",
        ints(s=[1, -2], e=[END, 0], axes=[1, 2], steps=[2, -2]),
        ({"N": 0}, *N_SIZES),
    ),
    Case(
        "every second of an open dim",
        "g (float[N,W] x) => (float[N,V] y) { a = Abs (x) c = Slice (a, s, e, last, steps) y = Neg (c) }",
        ints(s=[0], e=[END], last=[-1], steps=[2]),
        OPEN_SIZES,
    ),
    Case(
        "an open dim backwards",
        "g (float[N,W] x) => (float[N,W] y) { a = Abs (x) c = Slice (a, s, e, last, back) y = Neg (c) }",
        REVERSED,
        OPEN_SIZES,
    ),
    Case(
        "forwards and backwards",
        "g (float[N,9] x) => (float[N,9] y) { a = Abs (x) c = Slice (a, s, e, last, back) y = Sub (c, x) }",
        REVERSED,
        ({"N": 0}, *N_SIZES),
    ),
    Case(
        "an open dim without its first places",
        "g (float[N,W] x) => (float[N,V] y) { a = Abs (x) c = Slice (a, s, e, last) y = Neg (c) }",
        ints(s=[3], e=[END], last=[-1]),
        (*W_SIZES, {"N": 2, "W": 0}, {"N": 2, "W": 4}),
    ),
    Case(
        "a slice of a slice, turned",
        "g (float[N,9,W] x) => (float[N,W,2] y)"
        "{ c = Slice (x, s, e, axis) t = Transpose <perm = [0, 2, 1]> (c) y = Slice (t, one, three, last) }",
        ints(s=[2], e=[6], axis=[1], one=[1], three=[3], last=[2]),
        OPEN_SIZES,
    ),
    Case(
        "the last place of an open dim",
        "g (float[N,S,8] x) => (float[N,U,8] y) { a = Abs (x) c = Slice (a, s, e, axis) y = Neg (c) }",
        ints(s=[-1], e=[END], axis=[1]),
        tuple({"N": n, "S": s} for n, s in ((2, 0), (0, 3), (1, 1), (2, 17))),
    ),
    Case(
        "differences of an open row",
        "g (float[N,W] x) => (float[N,V] y)"
        "{ a = Slice (x, one, end, one) b = Slice (x, zero, less, one) d = Sub (a, b) y = Abs (d) }",
        ints(zero=[0], one=[1], end=[END], less=[-1]),
        ({"N": 2, "W": 0}, *W_SIZES),
    ),
]

PADDED = [
    Case(
        "zeros around",
        "g (float[N,4,W] x) => (float[N,7,V] y) { a = Abs (x) p = Pad (a, pads) y = Neg (p) }",
        ints(pads=[0, 1, 2, 0, 2, 1]),
        OPEN_SIZES,
    ),
    Case(
        "a value, some axes",
        "g (float[N,4,W] x) => (float[N,4,V] y) { a = Abs (x) p = Pad (a, pads, v, last) y = Neg (p) }",
        ints(pads=[0, 3], last=[-1]) | {"v": np.float32(2.5)},
        OPEN_SIZES,
    ),
    Case(
        "cropped and grown",
        "g (float[N,6,8] x) => (float[N,7,5] y) { a = Abs (x) p = Pad (a, pads, v) y = Sub (p, b) }",
        ints(pads=[0, -1, -2, 0, 2, -1]) | {"v": np.float32(-1), "b": draw(5)},
        ({"N": 0}, *N_SIZES),
    ),
    Case(
        "padded before and behind the first axis",
        "g (float[N,W] x) => (float[M,W] y) { a = Abs (x) p = Pad (a, pads) y = Neg (p) }",
        ints(pads=[2, 0, 1, 0]),
        OPEN_SIZES,
    ),
    Case(
        "a value beside the one before it",
        "g (float[N,9] x) => (float[N,9] y) { p = Pad (x, pads, v) y = Sub (x, p) }",
        ints(pads=[0, 1, 0, -1]) | {"v": np.float32(1)},
        ({"N": 0}, *N_SIZES),
    ),
    Case(
        "integers",
        "g (int64[N,4] x) => (int64[N,7] y) { a = Neg (x) p = Pad (a, pads, v) y = Mul (p, p) }",
        ints(pads=[0, 1, 0, 2], v=2**40 + 1),
        ({"N": 0}, *N_SIZES),
    ),
    Case(
        "rows with minus infinity around",
        "g (float[N,W] x) => (float[N,4] y)"
        "{ p = Pad (x, pads, v) m = ReduceMax <keepdims = 0> (p, last) u = Unsqueeze (m, last) y = Add (u, b) }",
        ints(pads=[0, 2, 0, 1], last=[-1]) | {"v": np.float32(-np.inf), "b": draw(4)},
        (*W_SIZES, {"N": 2, "W": 0}),
        ort_hard=False,
        faults={"fusion": SUMS},
    ),
]

CONCATENATED = [
    Case(
        "two computed parts",
        "g (float[N,4,W] x, float[N,3,W] z) => (float[N,7,W] y)"
        "{ a = Abs (x) b = Neg (z) c = Concat <axis = 1> (a, b) y = Relu (c) }",
        dims=OPEN_SIZES,
    ),
    Case(
        "open parts",
        "g (float[N,W] x, float[N,V] z) => (float[N,U] y)"
        "{ a = Abs (x) b = Neg (z) c = Concat <axis = -1> (a, b) y = Relu (c) }",
        dims=tuple({"N": n, "W": w, "V": v} for n, w, v in [(2, 0, 5), (2, 5, 0), (0, 3, 4), (1, 1, 1), (3, 17, 64)]),
    ),
    Case(
        "open parts inside",
        "g (float[N,3,P,8] x, float[N,3,S,8] z) => (float[N,3,U,8] y)"
        "{ a = Mul (z, k) c = Concat <axis = 2> (x, a) y = Neg (c) }",
        {"k": draw(8)},
        tuple({"N": n, "P": p, "S": s} for n, p, s in ((2, 0, 1), (2, 5, 0), (1, 1, 1), (2, 17, 1), (2, 3, 16))),
    ),
    Case(
        "a softmax over open parts",
        "g (float[N,W] x, float[N,V] z) => (float[N,U] y)"
        "{ a = Abs (x) c = Concat <axis = -1> (a, z) s = Softmax (c) y = Neg (s) }",
        dims=tuple({"N": n, "W": w, "V": v} for n, w, v in ((2, 0, 5), (2, 5, 0), (0, 3, 4), (1, 1, 1), (3, 17, 64))),
    ),
    Case(
        "rows below rows",
        "g (float[N,W] x, float[M,W] z) => (float[U,W] y){ a = Abs (x) c = Concat <axis = 0> (a, z) y = Mul (c, b) }",
        {"b": draw(1)},
        tuple({"N": n, "W": w, "M": m} for n, w, m in [(0, 5, 2), (2, 5, 0), (1, 1, 1), (3, 17, 5)]),
    ),
    Case(
        "five parts",
        "g (float[N,2,W] x, float[N,1,W] z) => (float[N,9,W] y)"
        "{ a = Abs (x) b = Neg (z) c = Relu (x) d = Mul (x, x) e = Concat <axis = 1> (a, b, c, d, x) y = Neg (e) }",
        dims=OPEN_SIZES,
    ),
    Case(
        "a constant part",
        "g (float[3,4,6] x) => (float[3,5,6] y)"
        "{ a = Abs (x) s = Mul (a, two) c = Concat <axis = 1> (h, s) y = Neg (c) }",
        {"h": draw(3, 1, 6), "two": np.float32(2)},
        ({"N": 3},),
    ),
    Case(
        "the same part twice",
        "g (float[N,W] x) => (float[N,V] y) { a = Abs (x) c = Concat <axis = 1> (a, a) y = Neg (c) }",
        dims=OPEN_SIZES,
    ),
    Case(
        "concat of concats",
        "g (float[N,2] x, float[N,3] z) => (float[N,12] y)"
        "{ a = Concat <axis = 1> (x, z) n = Neg (a) b = Concat <axis = 1> (z, n) d = Abs (b)"
        " e = Concat <axis = 1> (d, x, x) y = Relu (e) }",
        dims=({"N": 0}, *N_SIZES),
    ),
    Case(
        "rolled",
        "g (float[N,9] x) => (float[N,9] y)"
        "{ a = Slice (x, s, e, last) b = Slice (x, z, s, last) c = Concat <axis = 1> (a, b) y = Sub (x, c) }",
        ints(z=[0], s=[4], e=[END], last=[-1]),
        ({"N": 0}, *N_SIZES),
    ),
    *(
        Case(
            name,
            "g (float[N,9] x, float[N,9] z, float[9] b) => (float[N,V] y)"
            f"{{ h = Mul (x, z) s = Sigmoid (h) t = Tanh (h) {nodes} }}",
            ints(i0=[0], i2=[2], i4=[4], i5=[5], end=[END], last=[-1], around=[0, 1, 0, 2]),
            ({"N": 0}, *N_SIZES),
            ort_hard=False,
        )
        for name, nodes in (
            (
                "one costly value for three parts",
                "p = Slice (s, i0, i2, last) q = Slice (s, i2, i4, last) r = Slice (s, i4, end, last) n = Neg (p)"
                " m = Mul (q, q) y = Concat <axis = 1> (r, n, m)",
            ),
            (
                "parts of parts",
                "p = Slice (s, i0, i2, last) q = Slice (s, i2, i5, last) c = Concat <axis = 1> (q, p) n = Neg (c)"
                " y = Concat <axis = 1> (p, n, q)",
            ),
            (
                "parts that change places",
                "p = Slice (s, i0, i4, last) q = Slice (s, i4, end, last) u = Slice (t, i0, i4, last)"
                " v = Slice (t, i4, end, last) f = Concat <axis = 1> (p, v) g = Concat <axis = 1> (u, q)"
                " y = Mul (f, g)",
            ),
            (
                "padded parts",
                "p = Slice (s, i0, i4, last) a = Pad (p, around) q = Slice (s, i4, end, last)"
                " y = Concat <axis = 1> (a, q)",
            ),
            (
                "a part and the whole",
                "a = Add (h, b) p = Slice (a, i2, end, last) q = Slice (a, i0, i2, last)"
                " c = Concat <axis = 1> (p, q) y = Mul (c, a)",
            ),
        )
    ),
    Case(
        "bytes and booleans",
        "g (uint8[N,4] x, uint8[N,3] z, bool[N,7] m) => (float[N,7] y)"
        "{ c = Concat <axis = 1> (x, z) f = Cast <to = 1> (c) n = Not (m) k = Cast <to = 1> (n) y = Mul (f, k) }",
        dims=({"N": 0}, *N_SIZES),
    ),
]

GATHERED = [
    Case(
        "channels swapped",
        "g (float[N,3,W] x, float[3,1] b) => (float[N,3,W] y) { a = Gather <axis = 1> (x, i) y = Mul (a, b) }",
        ints(i=[2, 1, 0]),
        OPEN_SIZES,
    ),
    Case(
        "places of a row",
        "g (float[N,6] x) => (float[N,4] y) { a = Abs (x) c = Gather <axis = 1> (a, i) y = Neg (c) }",
        ints(i=[5, 0, 0, 3]),
        ({"N": 0}, *N_SIZES),
    ),
    Case(
        "a table of indices",
        "g (float[N,6,W] x) => (float[N,2,3,W] y) { a = Abs (x) c = Gather <axis = 1> (a, i) y = Neg (c) }",
        ints(i=[[5, 0, 1], [2, 2, 4]]),
        OPEN_SIZES,
    ),
    Case(
        "one place",
        "g (float[N,6,W] x) => (float[N,W] y) { a = Abs (x) c = Gather <axis = 1> (a, i) y = Neg (c) }",
        ints(i=3),
        OPEN_SIZES,
    ),
    Case(
        "of a gathered value",
        "g (int32[N,6] x) => (int32[N,3] y)"
        "{ a = Neg (x) c = Gather <axis = 1> (a, i) d = Gather <axis = 1> (c, j) y = Mul (d, d) }",
        ints(i=[5, 0, 0, 3], j=[3, 1, 0]),
        ({"N": 0}, *N_SIZES),
    ),
    Case(
        "a place from the end",
        "g (float[N,6,W] x) => (float[N,W] y) { a = Abs (x) c = Gather <axis = 1> (a, i) y = Neg (c) }",
        ints(i=-2),
        OPEN_SIZES,
    ),
]

MOVED = [
    Case(
        name,
        f"g (float[N,4,6,W] x) => (float[A,B,C,D] y) {{ a = Relu (x) {op} y = Neg (b) }}",
        constants,
        OPEN_SIZES,
    )
    for name, op, constants in (
        ("depth to space", "b = DepthToSpace <blocksize = 2> (a)", {}),
        ("depth to space of neighbours", 'b = DepthToSpace <blocksize = 2, mode = "CRD"> (a)', {}),
        ("a Tile", "b = Tile (a, r)", ints(r=[1, 2, 1, 1])),
        ("a Tile of all axes", "b = Tile (a, r)", ints(r=[3, 2, 3, 2])),
        (
            "a Tile by sizes",
            "s = Shape <start = 1, end = 3> (a) c = Concat <axis = 0> (one, s, one) b = Tile (a, c)",
            ints(one=[1]),
        ),
        ("a triangle", "b = Trilu <upper = 0> (a)", {}),
        ("the upper triangle", "b = Trilu (a, k)", ints(k=-2)),
        ("a triangle without its diagonal", "b = Trilu <upper = 0> (a, k)", ints(k=-1)),
    )
]
MOVED += [
    Case(
        "space to depth",
        "g (float[N,3,6,10] x) => (float[N,12,3,5] y){ a = Relu (x) b = SpaceToDepth <blocksize = 2> (a) y = Neg (b) }",
        dims=({"N": 0}, *N_SIZES),
    ),
    Case(
        "space to depth of one channel",
        "g (float[N,1,6,9] x) => (float[N,9,2,3] y) { a = Relu (x) b = SpaceToDepth <blocksize = 3> (a) y = Neg (b) }",
        dims=({"N": 0}, *N_SIZES),
    ),
]

TYPES = [
    Case(
        f"{dtype} turned, cut, padded and joined",
        f"g ({dtype}[N,5,W] x, {dtype}[N,W,5] z) => ({dtype}[N,W,8] y)"
        "{ t = Transpose <perm = [0, 2, 1]> (x) c = Slice (t, s, e, last, back) p = Pad (z, pads)"
        " y = Concat <axis = 2> (c, p) }",
        ints(s=[-1], e=[-3], last=[-1], back=[-1], pads=[0, 0, 1, 0, 0, 0]),
        OPEN_SIZES,
        ort=dtype not in ("bfloat16", "int16", "uint16"),
    )
    for dtype in ("float16", "bfloat16", "double", "int32", "int64", "bool", "uint8", "int8", "int16", "uint16")
]

VIEWS_BY_COORDINATES = TRANSPOSED + RESHAPED + SLICED + PADDED + CONCATENATED + GATHERED + MOVED + TYPES
