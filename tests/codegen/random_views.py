"""Random graphs whose values are cut, padded, joined, gathered, regrouped and reduced along any axis.

Dims that a graph derives from others are texts such as "A+2": two dims with the same text have the same size. Only the
ones with a "-" may be 0.
"""

import numpy as np
from random_regions import REDUCE, RandomGraph

END = 2**63 - 1


class ViewGraph(RandomGraph):
    def __init__(self, seed: int):
        self.grown = 0  # joins and expansions so far: sizes stay small
        self.something = False  # are values that may be empty left out?
        super().__init__(seed)

    def grow(self) -> None:
        plain = [self.unary, self.binary, self.binary, self.scalar, self.select, self.reduce, self.row]
        views = [self.view, self.cut, self.cut, self.rotate, self.shift, self.pad, self.join, self.pick_places]
        views += [self.regroup, self.regroup, self.expand]
        views += [self.place_of_extreme, self.reduce_inside, self.softmax_inside]
        self.pick(plain if self.rng.random() < 0.4 else views)()

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def one_of(self, least_rank: int = 1) -> tuple[str, tuple, int] | None:
        """A value, its shape and an axis."""
        x = self.value()
        shape = self.shapes[x]
        return (x, shape, int(self.rng.integers(len(shape)))) if len(shape) >= least_rank else None

    def slice(self, x: str, axis: int, start: int, end: int, step: int = 1) -> str:
        return f"Slice ({x}, {self.ints(start)}, {self.ints(end)}, {self.ints(axis)}, {self.ints(step)})"

    def cut(self) -> None:
        chosen = self.one_of()
        if chosen is None:
            return
        x, shape, axis = chosen
        dim = shape[axis]
        if dim.isdigit():
            n = int(dim)
            step = int(self.pick([1, 1, 1, 2, 3, -1, -2]))
            start, end = sorted(int(i) for i in self.rng.integers(0, n + 1, 2))
            if step < 0:
                start, end = end - 1, start - 1
            size = len(range(start, end, step))
            if size == 0:
                return
            if self.rng.random() < 0.5 and start > 0:
                start -= n
            end = -END if end < 0 else END if end == n and self.rng.random() < 0.5 else end
            self.add(self.slice(x, axis, start, end, step), (*shape[:axis], str(size), *shape[axis + 1 :]))
        else:
            reversed_, second = (-1, -END, -1, dim), (0, END, 2, f"ceil({dim}/2)")
            shorter = [(1, END, 1, f"({dim}-1)"), (0, -1, 1, f"({dim}-1)")]
            start, end, step, new = self.pick([reversed_, second, *shorter])
            if "-" not in dim:
                self.add(self.slice(x, axis, start, end, step), (*shape[:axis], new, *shape[axis + 1 :]))

    def rotate(self) -> None:
        """The parts of an axis in the other order, one of them negated: a rotary embedding."""
        chosen = self.one_of()
        if chosen is None or "-" in chosen[1][chosen[2]]:
            return
        x, shape, axis = chosen
        n = int(shape[axis]) if shape[axis].isdigit() else 2
        if n < 2:
            return
        at = int(self.rng.integers(1, n))
        left = str(n - at) if shape[axis].isdigit() else f"({shape[axis]}-1)"
        first = (*shape[:axis], str(at), *shape[axis + 1 :])
        rest = (*shape[:axis], left, *shape[axis + 1 :])
        a = self.add(self.slice(x, axis, 0, at), first)
        b = self.add(f"Neg ({self.add(self.slice(x, axis, at, END), rest)})", rest)
        r = self.add(f"Concat <axis = {axis}> ({b}, {a})", shape)
        if self.rng.random() < 0.7:
            self.add(f"{self.pick(['Add', 'Mul'])} ({x}, {r})", shape)

    def shift(self) -> None:
        """Each place takes what the place before it or behind it held."""
        chosen = self.one_of()
        if chosen is None or "-" in chosen[1][chosen[2]]:
            return
        x, shape, axis = chosen
        by = int(self.pick([-1, 1]))
        pads = self.ints(by, -by)
        value = self.constant(np.float32(self.pick([0, 0.5, -1])))
        y = self.add(f"Pad ({x}, {pads}, {value}, {self.ints(axis)})", shape)
        if self.rng.random() < 0.5:
            self.add(f"Sub ({x}, {y})", shape)

    def pad(self) -> None:
        chosen = self.one_of()
        if chosen is None:
            return
        x, shape, axis = chosen
        before, after = (int(n) for n in self.rng.integers(0, 3, 2))
        dim = shape[axis]
        new = str(int(dim) + before + after) if dim.isdigit() else f"({dim}+{before + after})"
        if before + after > 0 and "-" not in dim:
            value = self.constant(np.float32(self.rng.normal()))
            shape = (*shape[:axis], new, *shape[axis + 1 :])
            self.add(f"Pad ({x}, {self.ints(before, after)}, {value}, {self.ints(axis)})", shape)

    def join(self) -> None:
        chosen = self.one_of()
        if chosen is None or self.grown > 1:
            return
        x, shape, axis = chosen
        fits = lambda s: len(s) == len(shape) and self.beside(s, axis) == self.beside(shape, axis)  # noqa: E731
        others = [v for v, s in self.shapes.items() if fits(s)]
        parts = [x, *(self.pick(others) for _ in range(int(self.rng.integers(1, 3))))]
        self.rng.shuffle(parts)
        dims = [self.shapes[p][axis] for p in parts]
        known = all(d.isdigit() for d in dims)
        new = str(sum(map(int, dims))) if known else f"({'+'.join(dims)})"
        self.grown += 1
        self.add(f"Concat <axis = {axis}> ({', '.join(parts)})", (*shape[:axis], new, *shape[axis + 1 :]))

    @staticmethod
    def beside(shape: tuple, axis: int) -> tuple:
        return (*shape[:axis], *shape[axis + 1 :])

    def pick_places(self) -> None:
        chosen = self.one_of()
        if chosen is None or not chosen[1][chosen[2]].isdigit():
            return
        x, shape, axis = chosen
        n = int(shape[axis])
        count = n if self.rng.random() < 0.5 else int(self.rng.integers(1, n + 2))
        places = self.ints(*self.rng.integers(0, n, count).tolist())
        self.add(f"Gather <axis = {axis}> ({x}, {places})", (*shape[:axis], str(count), *shape[axis + 1 :]))

    def regroup(self) -> None:
        """Two neighbouring dims as one, or one dim as two."""
        x = self.value()
        shape = self.shapes[x]
        if any("-" in d for d in shape) or not shape:
            return
        splits = {"4": (2, 2), "8": (2, 4), "15": (5, 3), "16": (4, 4), "6": (3, 2), "9": (3, 3), "10": (2, 5)}
        where = [i for i, d in enumerate(shape) if d in splits]
        if where and len(shape) < 5 and self.rng.random() < 0.6:
            at = self.pick(where)
            new = (*shape[:at], *map(str, splits[shape[at]]), *shape[at + 1 :])
        elif len(shape) >= 2:
            at = int(self.rng.integers(len(shape) - 1))
            a, b = shape[at : at + 2]
            new = (*shape[:at], str(int(a) * int(b)) if a.isdigit() and b.isdigit() else f"({a}*{b})", *shape[at + 2 :])
        else:
            return
        given = [0 if i < at else int(d) if d.isdigit() else -1 for i, d in enumerate(new)]
        if given.count(-1) <= 1:
            y = self.add(f"Reshape ({x}, {self.ints(*given)})", new)
            if self.rng.random() < 0.5:
                self.add(f"Tanh ({y})", new)

    def expand(self) -> None:
        x = self.value()
        shape = self.shapes[x]
        if self.grown > 1 or len(shape) > 3:
            return
        self.grown += 1
        ones = [i for i, d in enumerate(shape) if d == "1"]
        if ones:
            at, count = self.pick(ones), int(self.pick([2, 3, 5]))
            given = [count if i == at else 1 for i in range(len(shape))]
            new = (*shape[:at], str(count), *shape[at + 1 :])
        else:
            given, new = [3, *[1] * len(shape)], ("3", *shape)
        self.add(f"Expand ({x}, {self.ints(*given)})", new)

    def place_of_extreme(self) -> None:
        """Of inputs only: rounding decides nothing."""
        x = self.pick(self.inputs)
        shape = self.shapes[x]
        if not shape:
            return
        axis = int(self.rng.integers(len(shape)))
        i = f"i{len(self.lines)}"
        self.lines.append(f"{i} = {self.pick(['ArgMax', 'ArgMin'])} <axis = {axis}> ({x})")
        small = (*shape[:axis], "1", *shape[axis + 1 :])
        f = self.add(f"Cast <to = 1> ({i})", small)
        self.add(f"Mul ({f}, {self.constant(np.float32(0.0625))})", small)

    def reduce_inside(self) -> None:
        chosen = self.one_of()
        if chosen is None or "-" in chosen[1][chosen[2]]:
            return
        x, shape, axis = chosen
        bounded = self.add(f"Tanh ({x})", shape)
        small = (*shape[:axis], "1", *shape[axis + 1 :])
        y = self.add(f"{self.pick(REDUCE)} ({bounded}, {self.ints(axis)})", small)
        if self.rng.random() < 0.7:
            self.add(f"Sub ({bounded}, {y})", shape)

    def softmax_inside(self) -> None:
        chosen = self.one_of()
        if chosen is not None and "-" not in chosen[1][chosen[2]]:
            x, shape, axis = chosen
            self.add(f"{self.pick(['Softmax', 'LogSoftmax'])} <axis = {axis}> ({x})", shape)

    def reduce(self) -> None:
        self.of_something(super().reduce)

    def row(self) -> None:
        self.of_something(super().row)

    def of_something(self, grow) -> None:
        self.something = True
        grow()
        self.something = False

    def value(self) -> str:
        chosen = super().value()
        may_be_empty = any("-" in d for d in self.shapes[chosen])
        return self.pick(self.inputs) if self.something and may_be_empty else chosen
