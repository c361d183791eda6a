"""Rows about arithmetic, casts and quantization."""

import itertools

import formulas
import ml_dtypes
import numpy as np
from case import ALL_FLOATS, BFLOAT16, FLOATS, SIGNED, UNSIGNED, data, many, node, one, row

F32 = np.dtype(np.float32)


@row("variadic_mixed_ranks")
def variadic_mixed_ranks():
    groups = [[(2, 3, 4), (4,), (3, 1)], [(), (2, 3)], [(1, 5), (5, 1)], [(3,)], [(2, 1, 3), (1, 4, 1), (3,), ()]]
    groups += [[(0, 3), (3,)], [(1,), (2, 0)]]
    joins = {"Min": np.minimum, "Max": np.maximum, "Sum": np.add, "Mean": np.add}
    for (op, join), shapes in itertools.product(joins.items(), groups):
        dtypes = [*FLOATS, *SIGNED[2:], np.dtype(np.uint8)] if op in ("Min", "Max") else FLOATS
        for dtype in dtypes if shapes == groups[0] else dtypes[:1]:
            arrays = [data(dtype, *s, low=-3 - k, high=4) for k, s in enumerate(shapes)]
            wide = arrays if dtype.kind in "iu" else [formulas.wide(a) for a in arrays]
            want = wide[0]
            for a in wide[1:]:
                want = join(want, a)
            if op == "Mean":
                want = want / len(arrays)
            name = f"{op}_{shapes}_{dtype}".replace(" ", "")
            yield one(name, op, arrays, [want], opset=13, terms=len(arrays), scale=7.0)


@row("mod_and_integer_div")
def mod_and_integer_div():
    assert 18542495 % 32 == 31 and -7 % 32 == 25
    for dtype in SIGNED:
        a = np.array([-7, 7, -8, 9, -1, 100, -100, 5, 127], dtype)
        if dtype.itemsize >= 4:
            a[-1] = 18542495
        for b in [np.array(32, dtype), np.array(-5, dtype), np.array([2, -2, 3, -3, 7, 1, -1, 32, 9], dtype)]:
            floor = [int(p) % int(q) for p, q in np.broadcast(a, b)]
            towards = formulas.quotient(a, b)
            trunc = [int(p) - int(t) * int(q) for (p, q), t in zip(np.broadcast(a, b), towards, strict=True)]
            label = f"{dtype}_{'row' if b.ndim else int(b)}"
            yield one(f"Mod_{label}", "Mod", [a, b], [np.array(floor)], opset=13)
            yield one(f"fmod_{label}", "Mod", [a, b], [np.array(trunc)], attributes={"fmod": 1}, opset=13)
            if dtype.itemsize >= 4:  # the runtimes know Div of 32 and 64 bits
                yield one(f"Div_{label}", "Div", [a, b], [towards.astype(np.int64)], opset=13)
    for dtype in UNSIGNED:
        a, b = np.array([7, 8, 200, 31], dtype), np.array([3, 8, 7, 32], dtype)
        for fmod in (0, 1):
            yield one(f"Mod{fmod}_{dtype}", "Mod", [a, b], [a % b], attributes={"fmod": fmod}, opset=13)
        if dtype.itemsize >= 4:
            yield one(f"Div_{dtype}", "Div", [a, b], [a // b], opset=13)
    for dtype in FLOATS:
        a, b = np.array([-7, 7, 5.5, -5.5, 0.25], dtype), np.array([3, -3, 2, 2, 0.125], dtype)
        want = [float(p) - float(q) * int(float(p) / float(q)) for p, q in zip(a, b, strict=True)]
        yield one(f"fmod_{dtype}", "Mod", [a, b], [np.array(want)], attributes={"fmod": 1}, opset=13, terms=0)
    # The same in shape arithmetic, where sizes are symbols and may go below zero.
    x = data(F32, 3, 5)
    for op, number, want in [("Div", 2, [-3, -2]), ("Mod", 4, [1, 3]), ("Div", -2, [3, 2]), ("Mod", 32, [25, 27])]:
        steps = [node("Shape", "x", "s"), node("Sub", "s ten", "d"), node(op, "d n", "y")]
        yield many(
            f"shape_{op}_{number}",
            steps,
            {"x": x},
            {"y": want},
            params={"ten": np.array(10), "n": np.array(number)},
            types=np.int64,
        )


@row("cast_to_bool")
def cast_to_bool():
    for dtype in ALL_FLOATS:
        tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal)
        x = np.array([np.nan, tiny, -0.0, 0.0, -tiny, np.inf, 0.5, -3], dtype)
        want = np.array([True, True, False, False, True, True, True, True])
        for shape in [(8,), (2, 4), (2, 2, 2)]:
            yield one(
                f"{dtype}_{len(shape)}d",
                "Cast",
                [x.reshape(shape)],
                [want.reshape(shape)],
                attributes={"to": 9},
                dtypes=[np.bool_],
            )
        yield one(
            f"scalar_{dtype}",
            "Cast",
            [np.array(np.nan, dtype)],
            [np.array(True)],
            attributes={"to": 9},
            dtypes=[np.bool_],
        )
    for dtype in [*SIGNED, *UNSIGNED]:
        x = np.array([0, 1, 2, np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
        yield one(
            f"{dtype}", "Cast", [x], [np.array([bool(int(v)) for v in x])], attributes={"to": 9}, dtypes=[np.bool_]
        )


FLOAT8 = {"float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20}


@row("cast_to_float8")
def cast_to_float8():
    literal = {1: [448, 448, np.nan, 448], 0: [448, np.nan, np.nan, np.nan]}
    numbers = [448, 1000, np.nan, np.inf]
    for saturate, want in literal.items():
        np.testing.assert_array_equal(formulas.to_float8(numbers, "float8_e4m3fn", saturate), want)
    numbers += [
        -np.inf,
        -1000,
        0.3,
        -0.07,
        1.0625,
        1.1875,
        240,
        250,
        2**-9,
        2**-10 * 1.5,
        0.001,
        57344,
        60000,
        3e4,
        -17.5,
    ]
    for (kind, code), saturate, source in itertools.product(FLOAT8.items(), [1, 0], ALL_FLOATS):
        x = np.array(numbers, np.float64).astype(source)
        want = formulas.to_float8(x, kind, saturate)
        attributes = {"to": code, "saturate": saturate}
        dtype = getattr(ml_dtypes, kind)
        yield one(f"{kind}_{saturate}_{source}", "Cast", [x], [want], attributes=attributes, dtypes=[dtype], terms=0)
    bits = {
        "float8_e4m3fn": (4, 3, 7, False, True),
        "float8_e4m3fnuz": (4, 3, 8, True, True),
        "float8_e5m2": (5, 2, 15, False, False),
        "float8_e5m2fnuz": (5, 2, 16, True, True),
    }
    for kind in FLOAT8:  # and back, every code
        x = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, kind))
        want = np.array(formulas.float8_values(*bits[kind]))
        for code, target in [(1, F32), (10, FLOATS[2]), (16, BFLOAT16)]:
            yield one(f"from_{kind}_{target}", "Cast", [x], [want], attributes={"to": code}, dtypes=[target], terms=0)


@row("round_half_to_even")
def round_half_to_even():
    ties = [0.25, 0.75, 1.25, 1.75, -0.25, -0.75, 100.25, -90.75]
    assert list(formulas.quantize(ties[:4], 0.5, 0, np.int8)) == [0, 2, 2, 4]
    for dtype, zero, opset in itertools.product([np.int8, np.uint8], [0, 3], [13, 21]):
        x = np.array(ties, np.float32)
        want = formulas.quantize(x, 0.5, zero, dtype)
        inputs = [x, np.array(0.5, np.float32), np.array(zero, dtype)]
        name = f"QuantizeLinear_{np.dtype(dtype)}_{zero}_{opset}"
        yield one(name, "QuantizeLinear", inputs, [want], params=(1, 2), dtypes=[dtype], opset=opset)
    for dtype, axis in itertools.product([np.int8, np.uint8], [0, 1, -1]):  # per channel
        x = np.array([*ties, *ties[:4]], np.float32).reshape(3, 4)
        scale = np.array([0.5, 0.25, 1, 0.125][: x.shape[axis]], np.float32)
        zero = np.array([0, 1, 2, 3][: x.shape[axis]], dtype)
        shape = (-1, 1) if axis == 0 else (1, -1)
        want = formulas.quantize(x, scale.reshape(shape), zero.reshape(shape), dtype)
        inputs, attributes = [x, scale, zero], {"axis": axis}
        yield one(
            f"per_axis_{np.dtype(dtype)}_{axis}",
            "QuantizeLinear",
            inputs,
            [want],
            params=(1, 2),
            dtypes=[dtype],
            attributes=attributes,
        )
    for dtype in (np.int16, np.uint16):
        x = np.array(ties, np.float32)
        inputs = [x, np.array(0.5, np.float32), np.array(5, dtype)]
        want = formulas.quantize(x, 0.5, 5, dtype)
        yield one(f"QuantizeLinear_{np.dtype(dtype)}", "QuantizeLinear", inputs, [want], params=(1, 2), dtypes=[dtype])
    halves = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.4, 7.6]
    for dtype in ALL_FLOATS:
        x = np.array(halves, dtype)
        yield one(
            f"Round_{dtype}", "Round", [x], [formulas.half_even(x)], terms=0, opset=22 if dtype == BFLOAT16 else 11
        )
    for values in ([-127, 128, 0.5], [0.0, 3, 10.5], [-1, -2, -2.5], [1, 2, 2.5]):
        x = np.array(values, np.float32)
        low, high = min(0.0, *values), max(0.0, *values)
        scale = (high - low) / 255
        zero = np.clip(formulas.half_even(-low / scale), 0, 255)
        want = formulas.quantize(x, np.float32(scale), zero, np.uint8)
        if values[0] == -127:
            assert list(want) == [0, 255, 127]
        yield one(
            f"Dynamic_{values}",
            "DynamicQuantizeLinear",
            [x],
            [want, np.array(scale), np.array(zero)],
            dtypes=[np.uint8, F32, np.uint8],
            opset=11,
        )


@row("quantized_softmax")
def quantized_softmax():
    """One is 256 steps of 1/256 above -128: it saturates at 127 and must not wrap."""
    for dtype, zero, hot in [(np.int8, -128, 127), (np.uint8, 0, 255)]:
        for shape, axis in [((1, 4), -1), ((2, 3), 1), ((2, 4, 3), 1), ((3, 5), 0), ((1, 2, 2, 6), 3)]:
            logits = np.full(shape, zero, dtype)
            logits[tuple(slice(0, 1) if k == axis % len(shape) else slice(None) for k in range(len(shape)))] = 120
            want = formulas.quantize(formulas.softmax((formulas.wide(logits) - zero), axis), 1 / 256, zero, dtype)
            assert want.max() == hot
            steps = [
                node("DequantizeLinear", "x one zero", "f"),
                node("Softmax", "f", "p", axis=axis),
                node("QuantizeLinear", "p step zero", "y"),
            ]
            params = {
                "one": np.array(1, np.float32),
                "step": np.array(1 / 256, np.float32),
                "zero": np.array(zero, dtype),
            }
            yield many(f"{np.dtype(dtype)}_{list(shape)}_{axis}", steps, {"x": logits}, {"y": want}, params=params)


@row("quantized_weights")
def quantized_weights():
    """Weights with a scale by channel: the axis is the one of the weights, 1 for ConvTranspose, 0 for Conv."""
    for rank, group, quantized, dtype in itertools.product([1, 2], [1, 2], [False, True], [np.int8, np.uint8]):
        for op, axis in [("Conv", 0), ("ConvTranspose", 1)]:
            w = data(dtype, 4, 4 // group if op == "Conv" else 3, *[3] * rank)
            scale = (2.0 ** -np.arange(1, w.shape[axis] + 1)).astype(np.float32)
            zero = np.arange(w.shape[axis]).astype(dtype)
            by_axis = [-1 if k == axis else 1 for k in range(w.ndim)]
            real = (formulas.wide(w) - formulas.wide(zero).reshape(by_axis)) * formulas.wide(scale).reshape(by_axis)
            steps, params = [], {"w": w, "scale": scale, "zero": zero}
            x, source = data(F32, 1, 4, *[5, 4][:rank]), "x"
            v = formulas.wide(x)
            if quantized:
                step, z = np.array(0.0625, np.float32), np.array(3, np.int8)
                params.update(step=step, z=z)
                x = np.round(x * 4) / 4  # on the grid of the scale, so that no rounding decides
                v = (formulas.quantize(x, step, z, np.int8) - 3.0) * 0.0625
                steps = [node("QuantizeLinear", "x step z", "q"), node("DequantizeLinear", "q step z", "d")]
                source = "d"
            run = formulas.conv if op == "Conv" else formulas.conv_transpose
            steps += [
                node("DequantizeLinear", "w scale zero", "r", axis=axis),
                node(op, f"{source} r", "y", group=group),
            ]
            name = f"{op}_{rank}d_g{group}_{'qdq' if quantized else 'weights'}_{np.dtype(dtype)}"
            yield many(
                name,
                steps,
                {"x": x.astype(np.float32)},
                {"y": run(v, real, group=group)},
                params=params,
                terms=36,
                scale=20.0,
            )
    for op, axis in itertools.product(["MatMul", "Gemm", "GemmT"], [0, 1]):
        x, w = data(F32, 3, 6), data(np.int8, *((4, 6) if op == "GemmT" else (6, 4)))
        scale = (0.5 / np.arange(1, w.shape[axis] + 1)).astype(np.float32)
        real = formulas.wide(w) * formulas.wide(scale).reshape((-1, 1) if axis == 0 else (1, -1))
        last = node("MatMul", "x r", "y") if op == "MatMul" else node("Gemm", "x r", "y", transB=int(op == "GemmT"))
        want = formulas.wide(x) @ (real.T if op == "GemmT" else real)
        steps = [node("DequantizeLinear", "w scale", "r", axis=axis), last]
        yield many(
            f"{op}_axis{axis}",
            steps,
            {"x": x},
            {"y": want},
            params={"w": w, "scale": scale},
            types=F32,
            terms=6,
            scale=14.0,
        )
