"""Before and behind a network, as few kernels: images resized and normalised, boxes decoded, letters picked."""

import numpy as np
from cases_views import END, ints
from fusion_case import AXES, N_SIZES, OPEN_SIZES, UNKNOWN, Case, draw

N_ONLY = ({"N": 0}, *N_SIZES)
PIXELS = ((0, 2, 3), (2, 1, 1), (2, 16, 5), (1, 9, 65), (2, 3, 17))
PIXELS = tuple({"N": n, "H": h, "W": w} for n, h, w in PIXELS)
SCALED = (*PIXELS[2:], {"N": 2, "H": 9, "W": 17})
TO_SIZE = ints(to=[7, 19])
MEAN = {"mean": np.float32([0.485, 0.456, 0.406]), "std": np.float32([0.229, 0.224, 0.225]), "most": np.float32(255)}
TRANSFORMS = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric", "align_corners")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def resize(mode: str, transform: str, **more) -> str:
    told = [f'mode = "{mode}"', f'coordinate_transformation_mode = "{transform}"']
    told += [f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}" for name, value in more.items()]
    return f"Resize <{', '.join(told)}>"


# ONNX Runtime finds samples in float32, so that those between two pixels fall elsewhere; its integers' bounds differ.
RESIZED = [
    Case(
        f"resized to a size, {mode} {transform}",
        "g (float[N,3,H,W] x) => (float[N,3,A,B] y)"
        f"{{ a = Abs (x) r = {resize(mode, transform, axes=[2, 3])} (a, , , to) y = Neg (r) }}",
        TO_SIZE,
        PIXELS,
        ort=False,
    )
    for mode in ("linear", "nearest")
    for transform in TRANSFORMS
]
RESIZED += [
    Case(
        f"resized by a scale, {mode} {transform} {scale}",
        "g (float[N,3,H,W] x) => (float[N,3,A,B] y)"
        f"{{ a = Abs (x) r = {resize(mode, transform, axes=[2, 3])} (a, , scales) y = Neg (r) }}",
        {"scales": np.float32([scale, scale])},
        SCALED,
        ort=False,
    )
    for mode, transform, scale in (
        ("linear", "half_pixel", 2),
        ("linear", "align_corners", 1.7),
        ("linear", "half_pixel_symmetric", 0.6),
        ("linear", "asymmetric", 0.3),
        ("nearest", "asymmetric", 2),
        ("nearest", "half_pixel", 1.5),
        ("nearest", "half_pixel_symmetric", 0.7),
    )
]
RESIZED += [
    Case(
        f"nearest, {transform} {rounding}",
        "g (float[N,3,H,W] x) => (float[N,3,A,B] y)"
        f"{{ r = {resize('nearest', transform, axes=[-1, 2], nearest_mode=rounding)} (x, , , to) y = Neg (r) }}",
        ints(to=[8, 6]),
        PIXELS,
        ort=False,
    )
    for transform in ("half_pixel", "asymmetric")
    for rounding in ROUNDINGS
]
RESIZED += [
    Case(
        f"a {rank}-dimensional Resize of {dtype}",
        f"g ({dtype}[{','.join(map(str, dims))}] x) => ({dtype}[{','.join(map(str, sizes))}] y)"
        f"{{ y = {resize('linear', 'half_pixel')} (x, , , sizes) }}",
        ints(sizes=sizes),
        ({},),
        ort=False,
        hard=dtype not in ("float16", "bfloat16"),  # numpy multiplies infinities by weights of 0 that are left out here
    )
    for rank, dtype, dims, sizes in (
        (1, "float", (9,), (16,)),
        (2, "double", (5, 33), (9, 17)),
        (3, "uint8", (3, 5, 7), (3, 8, 5)),
        (3, "float", (4, 6, 5), (7, 5, 8)),
        (4, "float16", (1, 2, 5, 7), (1, 2, 9, 5)),
        (4, "bfloat16", (1, 2, 5, 7), (1, 2, 9, 5)),
        (4, "int8", (2, 3, 4, 5), (2, 3, 8, 3)),
        (5, "float", (1, 2, 3, 4, 5), (1, 2, 6, 4, 9)),
    )
]
RESIZED += [
    Case(
        "by scales that are fed",
        "g (float[N,3,H,W] x, float[2] scales) => (float[N,3,A,B] y)"
        f"{{ r = {resize('linear', 'half_pixel', axes=[2, 3])} (x, , scales) y = Neg (r) }}",
        dims=({"N": 2, "H": 5, "W": 9},),
        ort=False,
        hard=False,
        feeds={"scales": np.float32([1.7, 0.6])},
        faults={"fusion": UNKNOWN},
    ),
    Case(
        "to a size that is fed",
        "g (uint8[N,H,W,3] x, int64[2] sizes) => (float[N,3,A,B] y)"
        f"{{ f = Cast <to = 1> (x) r = {resize('linear', 'half_pixel', axes=[1, 2])} (f, , , sizes)"
        " a = Div (r, most) y = Transpose <perm = [0, 3, 1, 2]> (a) }",
        {"most": np.float32(255)},
        ({"N": 2, "H": 5, "W": 9},),
        ort=False,
        feeds={"sizes": np.int64([7, 6])},
        faults={"fusion": UNKNOWN},
    ),
    Case(
        "a coarse map beside a fine one",
        "g (float[N,8,H,W] x) => (float[N,16,A,B] y)"
        f"{{ r = {resize('nearest', 'asymmetric', nearest_mode='floor')} (x, , scales) y = Concat <axis = 1> (r, r) }}",
        {"scales": np.float32([1, 1, 2, 2])},
        PIXELS,
    ),
]

BEFORE = [
    Case(
        "bytes resized, normalised and turned",
        "g (uint8[N,H,W,3] x) => (float[N,3,7,19] y)"
        f"{{ f = Cast <to = 1> (x) r = {resize('linear', 'half_pixel', axes=[1, 2])} (f, , , to) d = Div (r, most)"
        " c = Sub (d, mean) s = Div (c, std) y = Transpose <perm = [0, 3, 1, 2]> (s) }",
        TO_SIZE | MEAN,
        PIXELS,
        ort=False,
    ),
    Case(
        "bytes resized as bytes, normalised and turned",
        "g (uint8[N,H,W,3] x) => (float[N,3,7,19] y)"
        f"{{ r = {resize('linear', 'half_pixel', axes=[1, 2])} (x, , , to) f = Cast <to = 1> (r) d = Div (f, most)"
        " c = Sub (d, mean) s = Div (c, std) y = Transpose <perm = [0, 3, 1, 2]> (s) }",
        TO_SIZE | MEAN,
        PIXELS,
        ort=False,
    ),
    Case(
        "turned, then resized by the nearest",
        "g (uint8[N,H,W,3] x) => (float[N,3,7,19] y)"
        f"{{ f = Cast <to = 1> (x) t = Transpose <perm = [0, 3, 1, 2]> (f)"
        f" r = {resize('nearest', 'half_pixel', axes=[2, 3])} (t, , , to) d = Div (r, most) c = Sub (d, mean1)"
        " y = Div (c, std1) }",
        TO_SIZE | {"most": MEAN["most"], "mean1": draw(3, 1, 1), "std1": np.abs(draw(3, 1, 1)) + 1},
        PIXELS,
        ort=False,
    ),
    Case(
        "letterbox",
        "g (uint8[N,H,W,3] x) => (float[N,3,16,19] y)"
        f"{{ f = Cast <to = 1> (x) r = {resize('linear', 'half_pixel', axes=[1, 2])} (f, , , to)"
        " p = Pad (r, pads, grey) d = Div (p, most) y = Transpose <perm = [0, 3, 1, 2]> (d) }",
        TO_SIZE | ints(pads=[0, 4, 0, 0, 0, 5, 0, 0]) | {"grey": np.float32(114), "most": np.float32(255)},
        PIXELS,
        ort=False,
    ),
    Case(
        "resized, cropped in the middle",
        "g (uint8[N,H,W,3] x) => (float[N,3,5,9] y)"
        f"{{ f = Cast <to = 1> (x) r = {resize('linear', 'pytorch_half_pixel', axes=[1, 2])} (f, , , to)"
        " s = Slice (r, from, until, hw) d = Div (s, most) c = Sub (d, mean) e = Div (c, std)"
        " y = Transpose <perm = [0, 3, 1, 2]> (e) }",
        {"from": np.int64([1, 5]), "until": np.int64([6, 14])} | ints(hw=[1, 2]) | TO_SIZE | MEAN,
        PIXELS,
        ort=False,
    ),
]

BEHIND = [
    Case(
        "boxes of one scale",  # x, y, w, h, objectness, classes
        "g (float[N,3,W,9] x, float[W,2] grid) => (float[N,3,W,4] y)"
        "{ s = Sigmoid (x) c = Slice (s, i0, i2, last) w = Slice (s, i2, i4, last) c2 = Mul (c, two)"
        " cg = Add (c2, grid) cs = Mul (cg, stride) w2 = Mul (w, two) ww = Mul (w2, w2) wa = Mul (ww, anchors)"
        " h = Mul (wa, half) lt = Sub (cs, h) rb = Add (cs, h) y = Concat <axis = -1> (lt, rb) }",
        ints(i0=[0], i2=[2], i4=[4], last=[-1])
        | {"two": np.float32(2), "half": np.float32(0.5), "stride": np.float32(8), "anchors": draw(3, 1, 2)},
        OPEN_SIZES,
        hard=False,
    ),
    Case(
        "corners of boxes by Split",
        "g (float[N,W,4] x) => (float[N,W,4] y)"
        "{ cx, cy, w, h = Split <axis = 2, num_outputs = 4> (x) hw = Mul (w, half) hh = Mul (h, half)"
        " l = Sub (cx, hw) t = Sub (cy, hh) r = Add (cx, hw) b = Add (cy, hh) y = Concat <axis = 2> (l, t, r, b) }",
        {"half": np.float32(0.5)},
        OPEN_SIZES,
    ),
    Case(
        "the best class above a threshold",
        "g (float[N,W,9] x) => (float[N,W] p, int64[N,W] c, bool[N,W] keep)"
        "{ s = Sigmoid (x) o = Slice (s, i4, i5, last) k = Slice (s, i5, end, last) q = Mul (o, k)"
        " p = ReduceMax <keepdims = 0> (q, last) c = ArgMax <axis = -1, keepdims = 0> (q) keep = Greater (p, low) }",
        ints(i4=[4], i5=[5], end=[END], last=[-1]) | {"low": np.float32(0.25)},
        OPEN_SIZES,
        hard=False,
    ),
    Case(
        "scores without an objectness",  # channels first, as in anchor-free heads
        "g (float[N,12,W] x) => (float[N,W] p, int64[N,W] c)"
        "{ k = Slice (x, i4, end, one) s = Sigmoid (k) p = ReduceMax <keepdims = 0> (s, one)"
        " c = ArgMax <axis = 1, keepdims = 0> (s) }",
        ints(i4=[4], end=[END]) | {"one": AXES["one"]},
        OPEN_SIZES,
        hard=False,
    ),
    Case(
        "letters of CTC with their log-probability",
        "g (float[N,W,37] x) => (int64[N,W] y, float[N,W] p)"
        "{ s = LogSoftmax (x) y = ArgMax <axis = -1, keepdims = 0> (s) p = ReduceMax <keepdims = 0> (s, last) }",
        ints(last=[-1]),
        OPEN_SIZES,
        hard=False,
    ),
    Case(
        "letters of CTC, classes first",
        "g (float[N,37,W] x) => (int64[N,W] y, float[N,W] p)"
        "{ s = Softmax <axis = 1> (x) y = ArgMax <axis = 1, keepdims = 0> (s) p = ReduceMax <keepdims = 0> (s, one) }",
        {"one": AXES["one"]},
        OPEN_SIZES,
        hard=False,
    ),
]

IMAGES_AND_RESULTS = RESIZED + BEFORE + BEHIND
