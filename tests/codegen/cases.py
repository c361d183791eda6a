"""Models that become one kernel: broadcasting, graphs of many shapes, element types, views; rows are beside."""

import numpy as np
from cases_images import IMAGES_AND_RESULTS
from cases_indices import BY_INDICES
from cases_patterns import PATTERNS
from cases_quantized import QUANTIZED
from cases_rows import ROWS
from cases_sixteen import SIXTEEN_BITS
from cases_user_ops import USER_OPS
from cases_views import VIEWS_BY_COORDINATES
from fused import nodes
from fusion_case import AXES, N_SIZES, SIBLINGS, W_SIZES, Case, draw

CHAIN = nodes("m{i} = Mul (s{p}, a) t{i} = Tanh (m{i}) s{i} = Add (t{i}, x)", 10)

BROADCAST = [
    Case(
        "channels, row, scalar",
        "g (float[N,8,5,7] x, float[N,1,1,7] r, float s) => (float[N,8,5,7] y)"
        "{ a = Mul (x, c) b = Add (a, w) d = Mul (b, s) y = Add (d, r) }",
        {"c": draw(8, 1, 1), "w": draw(7)},
        N_SIZES,
    ),
    Case(
        "an outer product",
        "g (float[N,1] x, float[1,W] b) => (float[N,W] y) { a = Mul (x, b) c = Sigmoid (x) y = Add (a, c) }",
        dims=W_SIZES,
    ),
    Case(
        "a mask over heads",
        "g (float[N,4,6,W] x, float[N,1,1,W] m) => (float[N,4,6,W] y) "
        "{ a = Mul (x, k) b = Add (a, m) y = Softmax (b) }",
        {"k": np.float32(0.125)},
        W_SIZES,
    ),
    Case(
        "the smaller operand first",
        "g (float[N,4,W] x, float[4,1] a, float[W] b) => (float[N,4,W] y) "
        "{ c = Sub (b, a) d = Exp (c) y = Sub (d, x) }",
        dims=W_SIZES,
    ),
    Case(
        "scalars only", "g (float x, float b) => (float y) { a = Mul (x, b) c = Tanh (a) y = Add (c, x) }", dims=({},)
    ),
    Case("size 1 dims", "g (float[1,1,5] x, float[5,1,5] b) => (float[5,1,5] y) { a = Mul (x, b) y = Relu (a) }"),
]

SHAPES = [
    Case(
        "thirty ops",
        f"g (float[N,W] x, float[W] a) => (float[N,W] y) {{ s0 = Mul (x, a) {CHAIN} y = Neg (s10) }}",
        dims=W_SIZES,
    ),
    Case(
        "a diamond",
        "g (float[N,W] x, float[W] b) => (float[N,W] y)"
        "{ a = Add (x, b) l = Sigmoid (a) r = Tanh (a) m = Mul (l, r) y = Sub (m, a) }",
        dims=W_SIZES,
    ),
    Case(
        "inner values are outputs",
        "g (float[N,W] x) => (float[N,W] y, float[N,W] a, float[N,W] b)"
        "{ a = Sigmoid (x) b = Mul (a, x) y = Softmax (b) }",
        dims=W_SIZES,
        faults={"fusion": SIBLINGS},
    ),
    Case(
        "outputs of two types",
        "g (float[N,W] x, float[N,W] z) => (float[N,W] y, bool[N,W] m, int64[N,W] i)"
        "{ m = Less (x, z) y = Where (m, x, z) r = Round (y) c = Clip (r, lo, hi) i = Cast <to = 7> (c) }",
        {"lo": np.float32(-9), "hi": np.float32(9)},
        W_SIZES,
        ort_hard=False,
    ),
    Case(
        "many operands",
        "g (float[N,3,W] x) => (float[N,3,W] y) { y = Sum (x" + "".join(f", b{i}" for i in range(40)) + ") }",
        {f"b{i}": draw(3, 1, seed=i) for i in range(40)},
        W_SIZES[:4],
    ),
]

TYPES = [
    Case(
        "half and back",
        "g (float[N,W] x) => (float[N,W] y) { a = Cast <to = 10> (x) b = Cast <to = 1> (a) y = Sub (x, b) }",
        dims=W_SIZES,
    ),
    Case(
        "computed in half",
        "g (float16[N,W] x, float16[W] b) => (float16[N,W] y) { a = Mul (x, b) c = Sigmoid (a) y = Add (c, x) }",
        dims=W_SIZES,
    ),
    Case("half softmax", "g (float16[N,W] x) => (float16[N,W] y) { a = Neg (x) y = Softmax (a) }", dims=W_SIZES),
    Case(
        "half layer norm",
        "g (float16[N,W] x, float16[W] s) => (float16[N,W] y) { a = Relu (x) y = LayerNormalization (a, s) }",
        dims=W_SIZES,
    ),
    Case(
        "bfloat16 and back",
        "g (float[N,W] x) => (float[N,W] y) { a = Cast <to = 16> (x) b = Cast <to = 1> (a) y = Sub (x, b) }",
        dims=W_SIZES,
    ),
    Case(
        "computed in bfloat16",
        "g (bfloat16[N,W] x, bfloat16[W] b) => (bfloat16[N,W] y) { a = Mul (x, b) y = Relu (a) }",
        dims=W_SIZES,
    ),
    Case(
        "to int32 and back",
        "g (float[N,W] x, float[N,W] z) => (float[N,W] y) "
        "{ a = Mul (x, k) b = Cast <to = 6> (a) c = Cast <to = 1> (b)"
        " d = Mul (z, c) y = Sub (a, d) }",
        {"k": np.float32(100)},
        W_SIZES,
        hard=False,
    ),
    Case(
        "to int64",
        "g (float[N,W] x) => (int64[N,W] y) { a = Mul (x, k) y = Cast <to = 7> (a) }",
        {"k": np.float32(100)},
        W_SIZES,
        hard=False,
    ),
    Case(
        "integers to float",
        "g (int64[N,W] x, int32[W] z) => (float[N,W] y) { a = Cast <to = 1> (x) b = Cast <to = 1> (z) y = Mul (a, b) }",
        dims=W_SIZES,
    ),
    Case(
        "bytes to float",
        "g (uint8[N,W] x, int8[W] z) => (float[N,W] y) { a = Cast <to = 1> (x) b = Cast <to = 1> (z) y = Sub (a, b) }",
        dims=W_SIZES,
    ),
    Case(
        "to bool and back",
        "g (float[N,W] x) => (float[N,W] y) { a = Cast <to = 9> (x) b = Cast <to = 1> (a) y = Mul (x, b) }",
        dims=W_SIZES,
    ),
    Case(
        "comparisons and Where",
        "g (float[N,W] x, float[W] b) => (float[N,W] y)"
        "{ l = Less (x, b) g = GreaterOrEqual (x, k) o = Or (l, g) n = Not (o) e = Equal (x, b) q = Xor (n, e)"
        " s = Where (q, x, b) t = LessOrEqual (s, k) u = And (t, l) w = Greater (b, s) z = Or (u, w)"
        " y = Where (z, s, k) }",
        {"k": np.float32(0.5)},
        W_SIZES,
    ),
    Case(
        "NaN and Inf seen",
        "g (float[N,W] x) => (float[N,W] y){ n = IsNaN (x) i = IsInf (x) o = Or (n, i) y = Where (o, k, x) }",
        {"k": np.float32(7)},
        W_SIZES,
    ),
    Case(
        "integer arithmetic",
        "g (int64[N,W] x, int64[W] b) => (int64[N,W] y)"
        "{ a = Mul (x, b) c = Sub (a, k) d = Max (c, b) e = Min (d, x) f = Neg (e) y = Relu (f) }",
        {"k": np.int64(3)},
        W_SIZES,
        ort=False,
    ),
    Case(
        "int32 with a limit",
        "g (int32[N,W] x) => (int32[N,W] y) { a = Add (x, x) y = Clip (a, lo, hi) }",
        {"lo": np.int32(-5), "hi": np.int32(6)},
        W_SIZES,
    ),
    Case(
        "large integers stay whole",
        "g (int64[N,W] x) => (int64[N,W] y) { a = Add (x, k) y = Max (a, x) }",
        {"k": np.int64(2**53 + 1)},
        W_SIZES,
    ),
    Case(
        "double",
        "g (double[N,W] x, double[W] b) => (double[N,W] y) { a = Mul (x, b) c = Sqrt (a) y = Add (c, k) }",
        {"k": np.float64(1 / 3)},
        W_SIZES,
    ),
]

VIEWS = [
    Case(
        "outer dims turned",
        "g (float[N,4,W] x, float[4,N,W] b) => (float[4,N,W] y)"
        "{ a = Sigmoid (x) t = Transpose <perm = [1, 0, 2]> (a) y = Mul (t, b) }",
        dims=W_SIZES,
        ort_hard=False,
    ),
    Case(
        "a row unsqueezed",
        "g (float[N,W] x, float[N,4,W] b) => (float[N,4,W] y) { a = Exp (x) u = Unsqueeze (a, one) y = Mul (u, b) }",
        {"one": AXES["one"]},
        W_SIZES,
    ),
    Case(
        "squeezed between",
        "g (float[N,1,W] x, float[N,W] b) => (float[N,W] y) { a = Tanh (x) s = Squeeze (a, one) y = Add (s, b) }",
        {"one": AXES["one"]},
        W_SIZES,
    ),
    Case(
        "expanded",
        "g (float[4,1] x, float[N,4,6] b) => (float[N,4,6] y) { a = Tanh (x) e = Expand (a, shape) y = Mul (e, b) }",
        {"shape": np.array([4, 6])},
        N_SIZES,
    ),
    Case(
        "reduced and unsqueezed",
        "g (float[N,4,W] x) => (float[N,4,W] y)"
        "{ m = ReduceMax <keepdims = 0> (x, two) u = Unsqueeze (m, two) y = Sub (x, u) }",
        {"two": AXES["two"]},
        W_SIZES,
        ort_hard=False,
    ),
    Case(
        "reshaped to more dims of 1",
        "g (float[N,6] x, float[N,1,6] b) => (float[N,1,6] y) { a = Neg (x) r = Reshape (a, shape) y = Mul (r, b) }",
        {"shape": np.array([0, 1, 6])},
        N_SIZES,
    ),
]

ALL = BROADCAST + SHAPES + ROWS + TYPES + SIXTEEN_BITS + QUANTIZED + VIEWS + VIEWS_BY_COORDINATES
ALL += BY_INDICES + PATTERNS + IMAGES_AND_RESULTS + USER_OPS
