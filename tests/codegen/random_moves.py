"""Random graphs that also repeat, enlarge, fold and mask values, and read them by computed places and from the end."""

import numpy as np
from random_views import ViewGraph


def times(dim: str, by: int) -> str:
    return str(int(dim) * by) if dim.isdigit() else f"({dim}*{by})"


class MoveGraph(ViewGraph):
    def grow(self) -> None:
        moves = [self.tile, self.triangle, self.fold, self.unfold, self.enlarge, self.at_extreme, self.from_end]
        return self.pick(moves)() if self.rng.random() < 0.4 else super().grow()

    def tile(self) -> None:
        chosen = self.one_of()
        if chosen is None or self.grown > 1:
            return
        x, shape, axis = chosen
        by = int(self.pick([2, 3]))
        self.grown += 1
        repeats = self.ints(*(by if i == axis else 1 for i in range(len(shape))))
        self.add(f"Tile ({x}, {repeats})", (*shape[:axis], times(shape[axis], by), *shape[axis + 1 :]))

    def triangle(self) -> None:
        chosen = self.one_of(2)
        if chosen is not None:
            x, shape, _ = chosen
            upper, k = int(self.rng.integers(2)), int(self.rng.integers(-3, 4))
            self.add(f"Trilu <upper = {upper}> ({x}, {self.constant(np.int64(k))})", shape)

    def fold(self) -> None:
        """Channels as blocks of pixels."""
        x = self.value()
        shape = self.shapes[x]
        if len(shape) != 4 or not shape[1].isdigit() or int(shape[1]) % 4 != 0 or self.grown > 1:
            return
        mode = self.pick(["DCR", "CRD"])
        new = (shape[0], str(int(shape[1]) // 4), times(shape[2], 2), times(shape[3], 2))
        self.add(f'DepthToSpace <blocksize = 2, mode = "{mode}"> ({x})', new)

    def unfold(self) -> None:
        """Blocks of pixels as channels."""
        x = self.value()
        shape = self.shapes[x]
        even = [d.isdigit() and int(d) % 2 == 0 for d in shape]
        if len(shape) == 4 and all(even[2:]):
            new = (shape[0], times(shape[1], 4), *(str(int(d) // 2) for d in shape[2:]))
            self.add(f"SpaceToDepth <blocksize = 2> ({x})", new)

    def enlarge(self) -> None:
        chosen = self.one_of()
        if chosen is None or self.grown > 1:
            return
        x, shape, axis = chosen
        self.grown += 1
        transform = self.pick(["half_pixel", "asymmetric", "half_pixel_symmetric"])
        told = f'mode = "{self.pick(["nearest", "linear"])}", coordinate_transformation_mode = "{transform}"'
        scales = self.constant(np.float32([2 if i == axis else 1 for i in range(len(shape))]))
        self.add(f"Resize <{told}> ({x}, , {scales})", (*shape[:axis], times(shape[axis], 2), *shape[axis + 1 :]))

    def at_extreme(self) -> None:
        """What a value holds where an input has its extreme."""
        place = self.pick(self.inputs)
        shape = self.shapes[place]
        values = [v for v, s in self.shapes.items() if s == shape]
        if not shape:
            return
        axis = int(self.rng.integers(len(shape)))
        i = f"i{len(self.lines)}"
        self.lines.append(f"{i} = {self.pick(['ArgMax', 'ArgMin'])} <axis = {axis}> ({place})")
        small = (*shape[:axis], "1", *shape[axis + 1 :])
        self.add(f"GatherElements <axis = {axis}> ({self.pick(values)}, {i})", small)

    def from_end(self) -> None:
        chosen = self.one_of()
        if chosen is None or "-" in chosen[1][chosen[2]]:
            return
        x, shape, axis = chosen
        n = int(shape[axis]) if shape[axis].isdigit() else 1
        places = [int(i) for i in self.rng.integers(-n, n, int(self.rng.integers(1, 4)))]
        new = (*shape[:axis], str(len(places)), *shape[axis + 1 :])
        self.add(f"Gather <axis = {axis}> ({x}, {self.ints(*places)})", new)
