"""Random graphs of what can stand in a region: pointwise ops with broadcast, rows, views, several outputs.

The seed decides everything. Values stay within a few units; comparisons, rounding and casts to integers are of
inputs only, so that graphs say the same whatever the rounding of the steps before.
"""

import numpy as np
from fused import model

SYMBOLS = "ABCD"
SIZES = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 64, 65)
UNARY = [
    "Tanh",
    "Sigmoid",
    "Neg",
    "Abs",
    "Erf",
    "Relu",
    "LeakyRelu",
    "Elu",
    "Softplus",
    "Softsign",
    "HardSigmoid",
    "Mish",
]
BINARY = ["Add", "Sub", "Mul", "Min", "Max"]
EXACT = ["Floor", "Ceil", "Round", "Sign"]
REDUCE = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2"]


class RandomGraph:
    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.shapes: dict[str, tuple] = {}  # by value: dims as text
        self.lines: list[str] = []
        self.constants: dict[str, np.ndarray] = {}
        self.ops: set[str] = set()
        rank = int(self.rng.integers(1, 5))
        self.full = tuple(SYMBOLS[i] if self.rng.random() < 0.6 else str(self.pick(SIZES[1:9])) for i in range(rank))
        self.inputs = [self.new(self.full)]
        for _ in range(int(self.rng.integers(1, 4))):
            self.inputs.append(self.new(self.part_of(self.full)))
        while len(self.lines) < int(self.rng.integers(4, 15)):
            self.grow()
        made = [name for name in self.shapes if name not in self.inputs]
        inner = self.rng.permutation(made[:-1])[: int(self.rng.integers(0, 3))]
        read = " ".join(self.lines).replace(",", " ").replace(")", " ").split()
        ends = [name for name in made if name not in [w for w in read if w != name] or name == made[-1]]
        self.outputs = list(dict.fromkeys([*inner.tolist(), *ends]))

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def new(self, shape: tuple) -> str:
        name = f"v{len(self.shapes)}"
        self.shapes[name] = shape
        return name

    def add(self, text: str, shape: tuple) -> str:
        self.ops.add(text.split()[0])
        name = self.new(shape)
        self.lines.append(f"{name} = {text}")
        return name

    def constant(self, array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def part_of(self, shape: tuple) -> tuple:
        """Some dims 1, some leading ones gone."""
        cut = int(self.rng.integers(0, len(shape) + 1)) if self.rng.random() < 0.4 else 0
        return tuple("1" if self.rng.random() < 0.35 else d for d in shape[cut:])

    @staticmethod
    def broadcast(a: tuple, b: tuple) -> tuple | None:
        longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
        shorter = ("1",) * (len(longer) - len(shorter)) + shorter
        if any(x != y and "1" not in (x, y) for x, y in zip(longer, shorter, strict=True)):
            return None
        return tuple(y if x == "1" else x for x, y in zip(longer, shorter, strict=True))

    def value(self) -> str:
        """Any value, the latest ones more often."""
        names = list(self.shapes)
        return self.pick(names[-4:]) if self.rng.random() < 0.7 else self.pick(names)

    def grow(self) -> None:
        kinds = [self.unary, self.binary, self.binary, self.scalar, self.select, self.exact, self.reduce, self.row]
        self.pick([*kinds, self.view, self.guarded])()

    def unary(self) -> None:
        x = self.value()
        self.add(f"{self.pick(UNARY)} ({x})", self.shapes[x])

    def guarded(self) -> None:
        """Ops that need a positive operand."""
        x = self.value()
        shape = self.shapes[x]
        y = self.add(f"Add ({self.add(f'Abs ({x})', shape)}, {self.constant(np.float32(1))})", shape)
        self.add(f"{self.pick(['Sqrt', 'Log', 'Reciprocal'])} ({y})", shape)

    def binary(self) -> None:
        x, y = self.value(), self.value()
        shape = self.broadcast(self.shapes[x], self.shapes[y])
        if shape is None:
            return
        z = self.add(f"{self.pick(BINARY)} ({x}, {y})", shape)
        if self.rng.random() < 0.5:
            self.add(f"Tanh ({z})", shape)

    def scalar(self) -> None:
        x = self.value()
        c = self.constant(np.float32(self.rng.normal()))
        pair = (x, c) if self.rng.random() < 0.5 else (c, x)
        self.add(f"{self.pick(BINARY)} ({', '.join(pair)})", self.shapes[x])

    def select(self) -> None:
        a, b = self.pick(self.inputs), self.pick(self.inputs)
        x, y = self.value(), self.value()
        test = self.broadcast(self.shapes[a], self.shapes[b])
        both = self.broadcast(self.shapes[x], self.shapes[y])
        shape = None if test is None or both is None else self.broadcast(test, both)
        if shape is None:
            return
        m = self.add(f"{self.pick(['Less', 'GreaterOrEqual'])} ({a}, {b})", test)
        del self.shapes[m]
        self.lines[-1] = self.lines[-1].replace(m, f"m{len(self.lines)}", 1)
        self.add(f"Where (m{len(self.lines)}, {x}, {y})", shape)

    def exact(self) -> None:
        x = self.pick(self.inputs)
        if self.rng.random() < 0.4:
            i = f"i{len(self.lines)}"
            self.lines.append(f"{i} = Cast <to = {self.pick([6, 7, 9])}> ({x})")
            self.add(f"Cast <to = 1> ({i})", self.shapes[x])
        else:
            self.add(f"{self.pick(EXACT)} ({x})", self.shapes[x])

    def reduce(self) -> None:
        x = self.value()
        shape = self.shapes[x]
        if not shape:
            return
        first = len(shape) - 1 if self.rng.random() < 0.7 else int(self.rng.integers(len(shape)))
        axes = self.constant(np.arange(first, len(shape)))
        bounded = self.add(f"Tanh ({x})", shape)
        small = shape[:first] + ("1",) * (len(shape) - first)
        y = self.add(f"{self.pick(REDUCE)} ({bounded}, {axes})", small)
        if self.rng.random() < 0.7:
            self.add(f"Sub ({bounded}, {y})", shape)

    def row(self) -> None:
        x = self.value()
        shape = self.shapes[x]
        if not shape:
            return
        kind = self.pick(["Softmax", "LogSoftmax", "LayerNormalization"])
        if kind == "LayerNormalization":
            scales = [v for v, s in self.shapes.items() if s == shape[-1:] and v in self.inputs]
            if not scales or shape[-1] == "1":
                return
            self.add(f"{kind} <epsilon = 0.1> ({x}, {self.pick(scales)})", shape)
        else:
            self.add(f"{kind} ({x})", shape)

    def view(self) -> None:
        x = self.value()
        shape = self.shapes[x]
        if len(shape) >= 2 and self.rng.random() < 0.5:
            perm = self.rng.permutation(len(shape)) if self.rng.random() < 0.3 else [*range(len(shape))]
            if len(shape) > 2 and self.rng.random() < 0.7:
                perm = [*self.rng.permutation(len(shape) - 1), len(shape) - 1]
            perm = [int(p) for p in perm]
            self.add(f"Transpose <perm = {perm}> ({x})", tuple(shape[p] for p in perm))
        elif len(shape) < 4:
            at = int(self.rng.integers(len(shape) + 1))
            self.add(f"Unsqueeze ({x}, {self.constant(np.array([at]))})", (*shape[:at], "1", *shape[at:]))

    def declared(self, name: str) -> str:
        """The value as an input or output; what is computed from sizes becomes a name of its own."""
        derived = lambda d, i: d if d.isalnum() else f"{name}_{i}"  # noqa: E731
        dims = ",".join(derived(d, i) for i, d in enumerate(self.shapes[name]))
        return f"float[{dims}] {name}" if dims else f"float {name}"

    def model(self):
        text = lambda names: ", ".join(map(self.declared, names))  # noqa: E731
        body = "\n".join(self.lines)
        return model(f"g ({text(self.inputs)}) => ({text(self.outputs)}) {{ {body} }}", self.constants)

    def ranges(self) -> dict:
        """Shapes to tune at: smaller than what a build guesses for open dims."""
        least, most, middle = (dict.fromkeys(SYMBOLS, n) for n in (1, 65, 12))
        at = lambda sizes, name: tuple(sizes.get(d) or int(d) for d in self.shapes[name])  # noqa: E731
        return {name: (at(least, name), at(middle, name), at(most, name)) for name in self.inputs}

    def dims(self, count: int) -> list[dict]:
        """Sizes of the symbols; the first are all 1 or tiny."""
        out = []
        for k in range(count):
            sizes = {s: int(self.pick(SIZES[:3] if k == 0 else SIZES)) for s in SYMBOLS}
            while (
                np.prod([sizes.get(d) or int(d) for d in self.full], dtype=np.int64) > 20000 and max(sizes.values()) > 1
            ):
                sizes = {s: n // 2 or 1 for s, n in sizes.items()}
            out.append(sizes)
        return out
