"""Rows about RNN, GRU and LSTM."""

import itertools

import formulas
import numpy as np
from case import FLOATS, data, one, row

F32 = np.dtype(np.float32)
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, SIZE, HIDDEN = 4, 3, 2, 3


def recurrent(name, op, dtype=F32, *, lens=None, state=True, peepholes=False, bias=True, **attributes):
    """Inputs are large enough for a threshold of 0.7 to bind in the gates and in the cell."""
    ways = 2 if attributes.get("direction") == "bidirectional" else 1
    count = GATES[op] * HIDDEN
    x = data(dtype, STEPS, BATCH, SIZE)
    w, r = data(dtype, ways, count, SIZE, low=-0.8, high=0.8), data(dtype, ways, count, HIDDEN, low=-0.9, high=0.9)
    b = data(dtype, ways, 2 * count, low=-0.5, high=0.5) if bias else None
    h0 = data(dtype, ways, BATCH, HIDDEN, low=-0.9, high=0.9) if state else None
    c0 = data(dtype, ways, BATCH, HIDDEN, low=-1.9, high=1.9) if state and op == "LSTM" else None
    p = data(dtype, ways, 3 * HIDDEN, low=-0.7, high=0.7) if peepholes else None
    wants = formulas.recurrent(op, x, w, r, b, lens, h0, c0, p, **attributes)
    inputs = [x, w, r, b, None if lens is None else np.array(lens, np.int32), h0, c0, p]
    inputs = inputs[: 8 if op == "LSTM" else 6]
    if attributes.get("layout"):
        inputs = [a.swapaxes(0, 1) if k in (0, 5, 6) and a is not None else a for k, a in enumerate(inputs)]
        wants = [wants[0].transpose(2, 0, 1, 3), *[a.swapaxes(0, 1) for a in wants[1:]]]
    while inputs[-1] is None:
        inputs.pop()
    return one(
        f"{op}_{name}",
        op,
        inputs,
        wants[: 3 if op == "LSTM" else 2],
        params=(1, 2, 3) if bias else (1, 2),
        attributes={"hidden_size": HIDDEN, **attributes},
        terms=8 * STEPS * (SIZE + HIDDEN),
        scale=1.0,
    )


def kinds():
    """Each op in its forms: (name, op, options)."""
    for op, direction in itertools.product(GATES, ["forward", "reverse", "bidirectional"]):
        yield direction, op, {"direction": direction}
    yield "peepholes", "LSTM", {"peepholes": True}
    yield "peepholes_both", "LSTM", {"peepholes": True, "direction": "bidirectional"}
    yield "input_forget", "LSTM", {"input_forget": 1}
    yield "before_reset", "GRU", {"linear_before_reset": 1}
    yield "before_reset_back", "GRU", {"linear_before_reset": 1, "direction": "reverse"}


@row("recurrent_clip")
def recurrent_clip():
    """The threshold bounds the input of every activation function: of the gates, and of h, which gets the cell."""
    for (name, op, options), clip in itertools.product(kinds(), [0.3, 0.7]):
        yield recurrent(f"{name}_{clip}", op, clip=clip, **options)
    for op, dtype in itertools.product(GATES, FLOATS[1:]):
        yield recurrent(f"{dtype}", op, dtype, clip=0.5)
    for op in GATES:
        names = ["Softsign", "Relu", "Softsign"][: len(formulas.DEFAULT_ACTIVATIONS[op])]
        yield recurrent("activations", op, clip=0.5, activations=names)
        yield recurrent("plain", op, clip=0.5, bias=False, state=False)
        yield recurrent("batch_first", op, clip=0.5, layout=1)
        yield recurrent("lengths", op, clip=0.5, lens=[4, 2, 3])


@row("recurrent_lengths")
def recurrent_lengths():
    """A row that has ended gives zeros and keeps its state; reverse starts at the row's own end."""
    for (name, op, options), lens in itertools.product(kinds(), [[4, 1, 3], [2, 3, 1], [4, 0, 2]]):
        yield recurrent(f"{name}_{lens}", op, lens=lens, **options)
    for op, dtype in itertools.product(GATES, FLOATS[1:]):
        yield recurrent(f"{dtype}", op, dtype, lens=[1, 4, 2])
    for op in GATES:
        yield recurrent("full", op, lens=[4, 4, 4])
        yield recurrent("no_state", op, lens=[3, 0, 4], state=False)
        yield recurrent("no_bias", op, lens=[3, 1, 4], bias=False)
        yield recurrent("batch_first", op, lens=[3, 1, 4], layout=1, direction="bidirectional")
