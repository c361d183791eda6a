"""Models over rows that become one kernel: softmax, norms, reductions with what stands around them."""

import numpy as np
from fusion_case import AXES, LAYOUT, N_SIZES, RESHAPE, W_SIZES, Case, draw

ROWS = [
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
        faults={"fusion": RESHAPE},
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
        faults={"fusion": LAYOUT},
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
