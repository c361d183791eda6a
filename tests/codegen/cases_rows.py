"""Models over rows that become one kernel: softmax, norms, reductions with what stands around them."""

import numpy as np
from cases_views import ints
from fusion_case import (
    AXES,
    IMAGES,
    N_SIZES,
    OPEN_SIZES,
    W_SIZES,
    Case,
    draw,
)

ALONG_LAST = [
    Case(
        "softmax",
        "g (float[N,W] x) => (float[N,W] y) { y = Softmax (x) }",
        dims=W_SIZES,
    ),
    Case(
        "softmax with what stands around it",
        "g (float[N,W] x, float[W] b) => (float[N,W] y) { a = Mul (x, b) c = Softmax (a) y = Mul (c, x) }",
        dims=W_SIZES,
    ),
    Case(
        "log-softmax",
        "g (float[N,W] x) => (float[N,W] y) { a = Abs (x) y = LogSoftmax (a) }",
        dims=W_SIZES,
    ),
    Case(
        "softmax of a middle axis whose inner dims are 1",
        "g (float[N,7,1,1] x) => (float[N,7,1,1] y) { a = Neg (x) y = Softmax <axis = 1> (a) }",
    ),
    Case(
        "flattened softmax of an old opset",
        "g (float[N,W,5] x) => (float[N,W,5] y) { a = Neg (x) y = Softmax <axis = 1> (a) }",
        dims=W_SIZES[:5],
        opset=11,
        launches=1,
    ),
    Case(
        "layer norm",
        "g (float[N,3,W] x, float[W] s, float[W] b) => (float[N,3,W] y)"
        "{ a = Add (x, b) y = LayerNormalization <axis = -1> (a, s, b) }",
        dims=W_SIZES,
        hard=False,
    ),
    Case(
        "layer norm over three axes",
        "g (float[N,3,4,5] x) => (float[N,3,4,5] y) { y = LayerNormalization <axis = 1> (x, s) }",
        {"s": draw(3, 4, 5)},
        N_SIZES,
        hard=False,
    ),
    Case(
        "residual and layer norm",
        "g (float[N,3,W] x, float[N,3,W] r, float[W] s) => (float[N,3,W] y, float[N,3,W] a)"
        "{ a = Add (x, r) y = LayerNormalization (a, s) }",
        dims=W_SIZES,
        hard=False,
    ),
    Case(
        "layer norm by hand",
        "g (float[N,3,W] x, float[W] s, float[W] b) => (float[N,3,W] y)"
        "{ m = ReduceMean (x, last) d = Sub (x, m) q = Pow (d, two) v = ReduceMean (q, last) e = Add (v, eps)"
        " r = Sqrt (e) n = Div (d, r) t = Mul (n, s) y = Add (t, b) }",
        {"last": AXES["last"], "two": np.float32(2), "eps": np.float32(1e-5)},
        W_SIZES,
        hard=False,
    ),
    Case(
        "layer norm by hand, its pattern switched off",
        "g (float[N,3,W] x, float[W] s) => (float[N,3,W] y)"
        "{ m = ReduceMean (x, last) d = Sub (x, m) q = Mul (d, d) v = ReduceMean (q, last) e = Add (v, eps)"
        " r = Sqrt (e) n = Div (d, r) y = Mul (n, s) }",
        {"last": AXES["last"], "eps": np.float32(1e-5)},
        W_SIZES,
        hard=False,
        options={"disable": ["fuse_patterns"]},
    ),
    Case(
        "RMS norm",
        "g (float[N,3,W] x, float[W] s) => (float[N,3,W] y) { a = Neg (x) y = RMSNormalization (a, s) }",
        dims=W_SIZES,
        opset=23,
        ort=False,
        hard=False,
    ),
    Case(
        "RMS norm by hand",
        "g (float[N,3,W] x, float[W] s) => (float[N,3,W] y)"
        "{ q = Mul (x, x) v = ReduceMean (q, last) e = Add (v, eps) r = Sqrt (e) i = Reciprocal (r) n = Mul (x, i)"
        " y = Mul (n, s) }",
        {"last": AXES["last"], "eps": np.float32(1e-5)},
        W_SIZES,
        hard=False,
    ),
    Case(
        "reduction with what stands before and after",
        "g (float[N,4,W] x, float[W] b) => (float[N,4] y)"
        "{ a = Mul (x, b) c = Abs (a) s = ReduceSum <keepdims = 0> (c, last) l = Sqrt (s) y = Neg (l) }",
        {"last": AXES["last"]},
        W_SIZES,
        hard=False,
    ),
    Case(
        "the reduced value and the values",
        "g (float[N,4,W] x) => (float[N,4,W] y, float[N,4,1] m){ m = ReduceMax (x, last) d = Sub (x, m) y = Exp (d) }",
        {"last": AXES["last"]},
        W_SIZES,
        ort_hard=False,
    ),
    Case(
        "three reductions of one row",
        "g (float[N,W] x) => (float[N,1] y) "
        "{ a = ReduceMax (x, last) b = ReduceMin (x, last) c = ReduceMean (x, last)"
        " d = Sub (a, b) y = Mul (d, c) }",
        {"last": AXES["last"]},
        W_SIZES,
        hard=False,
    ),
    Case(
        "all kinds of reduction",
        "g (float[N,W] x) => (float[N] y) { t = Tanh (x) a = ReduceProd <keepdims = 0> (t, last)"
        " b = ReduceSumSquare <keepdims = 0> (t, last) c = ReduceL1 <keepdims = 0> (t, last)"
        " d = ReduceL2 <keepdims = 0> (t, last) e = Add (a, b) f = Add (c, d) y = Add (e, f) }",
        {"last": AXES["last"]},
        W_SIZES,
    ),
    Case(
        "all axes",
        "g (float[N,4,W] x) => (float y) { a = Mul (x, x) y = ReduceMean <keepdims = 0> (a) }",
        dims=W_SIZES,
        hard=False,
    ),
    Case(
        "instance norm",
        "g (float[N,4,5,W] x, float[4] s, float[4] b) => (float[N,4,5,W] y)"
        "{ a = InstanceNormalization (x, s, b) y = Relu (a) }",
        dims=W_SIZES,
        hard=False,
    ),
    Case(
        "squeeze and excite",
        "g (float[N,4,5,W] x) => (float[N,4,5,W] y) { a = GlobalAveragePool (x) b = Sigmoid (a) y = Mul (x, b) }",
        dims=W_SIZES,
        hard=False,
    ),
    Case(
        "squeeze and excite, its layout kept",
        "g (float[N,4,5,W] x) => (float[N,4,5,W] y) { a = GlobalAveragePool (x) b = Sigmoid (a) y = Mul (x, b) }",
        dims=W_SIZES,
        hard=False,
        options={"disable": ["layout_nhwc"]},
    ),
    Case(
        "global max pool",
        "g (float[N,4,5,W] x) => (float[N,4,1,1] y) { a = Relu (x) b = GlobalMaxPool (a) y = Neg (b) }",
        dims=W_SIZES,
        ort_hard=False,  # ONNX Runtime loses NaN
    ),
    Case(
        "batch norm of inputs",
        "g (float[N,4,5,W] x, float[4] s, float[4] b, float[4] m, float[4] v) => (float[N,4,5,W] y)"
        "{ w = Abs (v) n = BatchNormalization (x, s, b, m, v) y = Relu (n) }",
        dims=W_SIZES,
        hard=False,
    ),
    Case(
        "spatial mean",
        "g (float[N,4,5,W] x) => (float[N,4,5,W] y) { m = ReduceMean (x, hw) y = Sub (x, m) }",
        {"hw": AXES["hw"]},
        W_SIZES,
        hard=False,
    ),
    Case(
        "reduced dims of size 1",
        "g (float[N,1] x) => (float[N,1] y) { a = ReduceSum (x, last) y = Mul (a, x) }",
        {"last": AXES["last"]},
    ),
]

PLACES = [
    Case(
        "the largest of a row",
        "g (float[N,W] x) => (int64[N,1] y) { a = Neg (x) y = ArgMax <axis = -1> (a) }",
        dims=W_SIZES,
    ),
    Case(
        "the smallest of a column",
        "g (float[N,6,W] x) => (int64[N,W] y) { a = Neg (x) y = ArgMin <axis = 1, keepdims = 0> (a) }",
        dims=OPEN_SIZES,
    ),
    Case(
        "the largest along the first axis",
        "g (float[N,W] x) => (float[1,W] y) { a = ArgMax <axis = 0> (x) y = Cast <to = 1> (a) }",
        dims=({"N": 2, "W": 0}, *W_SIZES),
    ),
    Case(
        "of integers",
        "g (int32[N,W] x) => (int64[N,1] y) { a = Neg (x) y = ArgMax <axis = 1> (a) }",
        dims=W_SIZES,
    ),
    Case(
        "of halves",
        "g (float16[N,W] x) => (int64[N,1] y) { a = Neg (x) y = ArgMin <axis = 1> (a) }",
        dims=W_SIZES,
        ort=False,
    ),
]

INNER = [
    Case(
        "softmax of joined channels",
        "g (float[N,2,W] x, float[N,3,W] z) => (float[N,5,W] y)"
        "{ c = Concat <axis = 1> (x, z) s = Softmax <axis = 1> (c) y = Neg (s) }",
        dims=OPEN_SIZES,
    ),
    Case(
        "the sum of padded channels",
        "g (float[N,5,W] x) => (float[N,1,W] y) { a = Abs (x) p = Pad (a, pads, v) y = ReduceSum (p, one) }",
        ints(pads=[0, 1, 0, 0, 2, 0], one=[1]) | {"v": np.float32(0.5)},
        OPEN_SIZES,
        hard=False,
    ),
    Case(
        "softmax of picked channels",
        "g (float[N,5,W] x) => (float[N,4,W] y) { c = Gather <axis = 1> (x, i) y = Softmax <axis = 1> (c) }",
        ints(i=[4, 0, 0, 2]),
        OPEN_SIZES,
    ),
    Case(
        "softmax of channels",
        "g (float[N,5,3,W] x) => (float[N,5,3,W] y) { a = Abs (x) s = Softmax <axis = 1> (a) y = Mul (s, x) }",
        dims=OPEN_SIZES,
    ),
    Case(
        "log-softmax of the first axis",
        "g (float[N,W] x) => (float[N,W] y) { a = Abs (x) y = LogSoftmax <axis = 0> (a) }",
        dims=({"N": 1, "W": 3}, {"N": 2, "W": 0}, *W_SIZES),
    ),
    Case(
        "the mean of a middle axis beside the values",
        "g (float[N,W,6] x) => (float[N,W,6] y, float[N,1,6] m) { m = ReduceMean (x, one) y = Sub (x, m) }",
        {"one": AXES["one"]},
        W_SIZES,
        hard=False,
    ),
    Case(
        "the sum of a row beside the values",
        "g (float[N,4,W] x) => (float[N,4,W] y, float[N,4] m)"
        "{ a = Abs (x) m = ReduceSum <keepdims = 0> (a, two) u = Unsqueeze (m, two) y = Div (a, u) }",
        {"two": AXES["two"]},
        W_SIZES,
        hard=False,
    ),
    Case(
        "halves over channels",
        "g (float16[N,5,W] x) => (float16[N,5,W] y) { a = Abs (x) y = Softmax <axis = 1> (a) }",
        dims=OPEN_SIZES,
    ),
]

LAYER_NORM = "m = ReduceMean (x, axis) d = Sub (x, m) q = Mul (d, d) v = ReduceMean (q, axis) e = Add (v, eps)"
LAYER_NORM += " r = Sqrt (e) n = Div (d, r) t = Mul (n, s) y = Add (t, b)"
EPSILON = {"eps": np.float32(1e-5)}

NORMS = [
    Case(
        "layer norm over channels",
        f"g (float[N,8,H,W] x, float[8,1,1] s, float[8,1,1] b) => (float[N,8,H,W] y) {{ {LAYER_NORM} }}",
        {"axis": AXES["one"], **EPSILON},
        IMAGES,
        hard=False,
    ),
    Case(
        "layer norm over channels by transposes",
        "g (float[N,8,H,W] x, float[8] s, float[8] b) => (float[N,8,H,W] y)"
        "{ t = Transpose <perm = [0, 2, 3, 1]> (x) n = LayerNormalization (t, s, b)"
        " y = Transpose <perm = [0, 3, 1, 2]> (n) }",
        dims=IMAGES,
        hard=False,
    ),
    Case(
        "layer norm and Gelu turned",
        "g (float[N,8,H,W] x, float[8] s) => (float[N,H,W,8] y)"
        "{ t = Transpose <perm = [0, 2, 3, 1]> (x) n = LayerNormalization (t, s) y = Gelu (n) }",
        dims=IMAGES,
        hard=False,
    ),
    Case(
        "instance norm of NHWC by transposes",
        "g (float[N,5,W,4] x, float[4] s, float[4] b) => (float[N,5,W,4] y)"
        "{ t = Transpose <perm = [0, 3, 1, 2]> (x) n = InstanceNormalization (t, s, b)"
        " y = Transpose <perm = [0, 2, 3, 1]> (n) }",
        dims=OPEN_SIZES[1:],
        hard=False,
    ),
    Case(
        "instance norm of NHWC",
        f"g (float[N,5,W,4] x, float[4] s, float[4] b) => (float[N,5,W,4] y) {{ {LAYER_NORM} }}",
        {"axis": np.array([1, 2]), **EPSILON},
        OPEN_SIZES[1:],
        hard=False,
    ),
    Case(
        "group norm by instance norm",
        "g (float[N,8,5,W] x) => (float[N,8,5,W] y)"
        "{ r = Reshape (x, groups) n = InstanceNormalization (r, ones, zeros) s = Shape (x) q = Reshape (n, s)"
        " m = Mul (q, scale) y = Add (m, bias) }",
        ints(groups=[0, 4, -1])
        | {"ones": np.ones(4, np.float32), "zeros": np.zeros(4, np.float32)}
        | {"scale": draw(8, 1, 1), "bias": draw(8, 1, 1, seed=8)},
        OPEN_SIZES[2:],
        hard=False,
    ),
    Case(
        "group norm and Swish",
        "g (float[N,8,5,6] x) => (float[N,8,5,6] y)"
        "{ r = Reshape (x, groups) n = InstanceNormalization (r, ones, zeros) q = Reshape (n, whole)"
        " m = Mul (q, scale) a = Add (m, bias) g = Sigmoid (a) y = Mul (a, g) }",
        ints(groups=[0, 4, -1], whole=[0, 8, 5, 6])
        | {"ones": np.ones(4, np.float32), "zeros": np.zeros(4, np.float32)}
        | {"scale": draw(8, 1, 1), "bias": draw(8, 1, 1, seed=8)},
        N_SIZES,
        hard=False,
    ),
    Case(
        "group norm with a scale of channels and of rows",
        "g (float[N,8,3,W] x) => (float[N,8,3,W] y)"
        "{ r = Reshape (x, groups) n = InstanceNormalization (r, ones, zeros) s = Shape (x) q = Reshape (n, s)"
        " m = Mul (q, scale) y = Add (m, rows) }",
        ints(groups=[0, 2, -1])
        | {"ones": np.ones(2, np.float32), "zeros": np.zeros(2, np.float32)}
        | {"scale": draw(8, 1, 1), "rows": draw(3, 1, seed=8)},
        OPEN_SIZES[2:],
        hard=False,
    ),
    Case(
        "softmax over groups of channels that have a bias each",
        "g (float[N,6,5,W] x, float[6,1,1] b) => (float[N,3,V] y)"
        "{ a = Add (x, b) r = Reshape (a, groups) y = Softmax (r) }",
        ints(groups=[0, 3, -1]),
        OPEN_SIZES[2:],
        hard=False,
    ),
    Case(
        "the largest of groups of channels that have a bias each",
        "g (float[N,6,5,7] x, float[6,1,1] b) => (int64[N,3] i, float[N,3] m)"
        "{ a = Add (x, b) r = Reshape (a, groups) i = ArgMax <axis = 2, keepdims = 0> (r)"
        " m = ReduceMax <keepdims = 0> (r, two) }",
        ints(groups=[0, 3, 70]) | {"two": AXES["two"]},
        N_SIZES,
        ort_hard=False,
    ),
]

ROWS = ALONG_LAST + PLACES + INNER + NORMS
