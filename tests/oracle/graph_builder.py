"""Builds one random graph: values carry what they hold at every binding of the symbolic dims, so each new node is
checked by running it. A node that is invalid, unstable or out of scale is refused and leaves no trace."""

import numpy as np
import onnx
from node_eval import BFLOAT16, Refused, evaluate, is_float, magnitude, used_names
from onnx import helper, numpy_helper

MAX_ELEMENTS, MAX_RANK = 6000, 10
# A window larger than its input is no valid model.
WINDOWS = {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "ConvInteger", "QLinearConv", "LpPool"}
DATA_SIZED = {"NonZero", "Compress", "Unique", "NonMaxSuppression", "If"}  # so are those of computed operands
LIMITS = {"f": 3e3, "h": 3e3, "i": 1 << 24, "u": 1 << 24}


class Value:
    def __init__(self, name: str, arrays: list, errors: list, order: int):
        self.name, self.arrays, self.errors, self.order = name, arrays, errors, order
        self.uses = 0

    @property
    def dtype(self):
        return self.arrays[0].dtype

    @property
    def kind(self) -> str:
        """numpy's letter, and h for bfloat16, which few oracles know: only its own makers take it."""
        return "h" if self.dtype == BFLOAT16 else self.dtype.kind

    @property
    def rank(self) -> int:
        return self.arrays[0].ndim

    @property
    def dims(self) -> list:
        """Sizes, None where they differ between bindings."""
        shapes = [a.shape for a in self.arrays]
        return [s[0] if len(set(s)) == 1 else None for s in zip(*shapes, strict=True)]

    @property
    def shape(self) -> tuple:
        return self.arrays[0].shape

    @property
    def elements(self) -> int:
        return max(a.size for a in self.arrays)


def need(condition):
    if not condition:
        raise Refused("not applicable")


def window_fits(sizes: tuple, results: tuple, attributes: dict) -> bool:
    """Evaluators differ on windows larger than the padded input; nobody means them."""
    rank = len(sizes)
    pads = attributes.get("pads") or [0] * 2 * rank
    dilations = attributes.get("dilations") or [1] * rank
    for i, (size, result) in enumerate(zip(sizes, results, strict=True)):
        if size == 0 or result == 0:
            return False
        extent = (attributes["kernel_shape"][i] - 1) * dilations[i] + 1
        if attributes.get("auto_pad", "").startswith("SAME"):
            if extent < attributes.get("strides", [1] * rank)[i]:  # padding less than nothing
                return False
            continue
        if size + pads[i] + pads[i + rank] < extent:
            return False
    return True


def means_sizes(shape: tuple, target) -> bool:
    """Of several computed sizes of 0, Reshape copies another dim for none (docs/design.md, "Limits known today")."""
    zeros = [i for i, t in enumerate(target) if t == 0]
    return len(zeros) < 2 or all(i < len(shape) and shape[i] == 0 for i in zeros)


class Names:
    """Fresh names and order, shared by a graph and its subgraphs."""

    def __init__(self):
        self.count = 0

    def fresh(self, prefix: str) -> tuple[str, int]:
        self.count += 1
        return f"{prefix}{self.count}", self.count


class Builder:
    def __init__(self, rng, opset: int, bindings: int, parent=None, specials=False):
        self.rng, self.opset, self.bindings, self.parent = rng, opset, bindings, parent
        self.names = parent.names if parent else Names()
        self.depth = parent.depth + 1 if parent else 0
        self.in_loop = bool(parent and parent.in_loop)
        self.specials = parent.specials if parent else specials
        self.bfloat = parent.bfloat if parent else bool(rng.random() < 0.2)
        self.nodes, self.inputs, self.initializers, self.values = [], [], [], []
        self.data_sized = False  # some shape in here depends on data

    # ---- randomness

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def choice(self, items):
        items = list(items)
        need(items)
        return items[int(self.rng.integers(len(items)))]

    def integer(self, low: int, high: int) -> int:
        """Both ends included."""
        return int(self.rng.integers(low, high + 1))

    def random_array(self, shape, dtype=np.float32, positive=False):
        dtype = np.dtype(dtype)
        if dtype == np.bool_:
            return np.asarray(self.rng.random(shape) < 0.5)
        if dtype.kind in "iu":
            low = 0 if dtype.kind == "u" or positive else -5
            return np.asarray(self.rng.integers(low, 9, shape)).astype(dtype)
        if self.chance(0.25):
            array = self.rng.integers(-8, 9, shape) * 0.5
        else:
            array = self.rng.standard_normal(shape)
        if self.specials and np.size(array) and self.chance(0.5):
            flat = np.array(array, dtype).reshape(-1)
            flat[self.rng.integers(flat.size)] = self.choice([np.nan, np.inf, -np.inf, -0.0])
            return flat.reshape(shape)
        return np.asarray(np.abs(array) + 0.25 if positive else array).astype(dtype)

    def mark_data_sized(self):
        builder = self
        while builder:
            builder.data_sized = True
            builder = builder.parent

    # ---- values

    def visible(self) -> list:
        return (self.parent.visible() if self.parent else []) + self.values

    def pick(self, kinds="f", dtype=None, low=0, high=6, where=None) -> Value:
        found = [
            v
            for v in self.visible()
            if (v.dtype == dtype if dtype is not None else v.kind in kinds)
            and low <= v.rank <= high
            and (where is None or where(v))
        ]
        need(found)
        weights = np.array([(2.0 if v.uses == 0 else 0.5) * 1.1 ** min(i, 40) for i, v in enumerate(found)])
        return found[int(self.rng.choice(len(found), p=weights / weights.sum()))]

    def constant(self, array) -> Value:
        array = np.asarray(array)
        same = [v for v, t in self.initializers if t.dtype == array.dtype and np.array_equal(t, array)]
        if same and self.chance(0.5):
            return same[0]
        name, order = self.names.fresh("c")
        value = Value(name, [array] * self.bindings, [0.0] * self.bindings, order)
        if self.chance(0.3 if self.depth == 0 else 0.7):
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array, name)))
            if self.chance(0.3):
                self.values.append(value)
        else:
            self.initializers.append((value, array))
        return value

    def ints(self, *numbers) -> Value:
        return self.constant(np.array(numbers, np.int64))

    def add_input(self, name: str, dims: list, arrays: list) -> Value:
        value = Value(name, arrays, [0.0] * self.bindings, self.names.fresh("")[1])
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(arrays[0].dtype), dims))
        self.values.append(value)
        return value

    # ---- nodes

    def add(self, op: str, inputs: list, outputs: int = 1, hidden=False, **attributes):
        """Appends a node; the value of its output, or a list of them. Raises Refused."""
        made = [self.names.fresh("v") for _ in range(outputs)]
        names = [v.name if v is not None else "" for v in inputs]
        while names and not names[-1]:
            names.pop()
        node = helper.make_node(op, names, [n for n, _ in made], name=f"n{made[0][1]}", **attributes)
        known = {v.name: v for v in self.visible()}
        known.update({v.name: v for v in inputs if v is not None})
        known.update(self.extra_values(node, known))
        used, constants = used_names(node), self.constant_names()
        arrays, errors = [[] for _ in made], [[] for _ in made]
        for k in range(self.bindings):
            feeds = {n: known[n].arrays[k] for n in used}
            results, bounds = evaluate(node, feeds, {n: known[n].errors[k] for n in used}, self.opset)
            if op == "Reshape" and names[1] not in constants:
                need(means_sizes(feeds[names[0]].shape, feeds[names[1]]))
            if op in WINDOWS:
                need(window_fits(feeds[names[0]].shape[2:], results[0].shape[2:], attributes))
            for j, (array, bound) in enumerate(zip(results, bounds, strict=True)):
                self.accept(array, bound)
                arrays[j].append(array)
                errors[j].append(bound)
        need(all(len({(a.dtype, a.ndim) for a in each}) == 1 for each in arrays))
        if op in DATA_SIZED:
            self.mark_data_sized()
        self.nodes.append(node)
        for n in used:
            known[n].uses += 1
        values = [Value(n, a, e, order) for (n, order), a, e in zip(made, arrays, errors, strict=True)]
        if not hidden:
            self.values.extend(values)
        return values[0] if outputs == 1 else values

    def extra_values(self, node, known) -> dict:
        """Initializers and hidden constants of this and the outer graphs, which subgraphs may use."""
        found, builder = {}, self
        while builder:
            found.update({v.name: v for v, _ in builder.initializers})
            builder = builder.parent
        return found

    def constant_names(self) -> set:
        names, builder = set(), self
        while builder:
            names |= {v.name for v, _ in builder.initializers}
            names |= {o for n in builder.nodes if n.op_type == "Constant" for o in n.output}
            builder = builder.parent
        return names

    def accept(self, array, bound: float):
        if array.size > MAX_ELEMENTS or array.ndim > MAX_RANK:
            raise Refused("too large")
        if not np.isfinite(bound):
            raise Refused("unstable")
        kind = "h" if array.dtype == BFLOAT16 else array.dtype.kind
        if kind in LIMITS:
            scale = magnitude(array)
            if scale > LIMITS[kind] or (array.dtype == np.float16 and scale > 500):
                raise Refused("out of scale")
            if is_float(array):
                if not self.specials and not np.isfinite(array).all():
                    raise Refused("not finite")
                share = 0.1 if kind == "h" else 0.05 if array.dtype == np.float16 else 0.01
                if bound > share * max(scale, 1e-2):
                    raise Refused("ill conditioned")

    def subgraph(self, outputs: list, declared: int | None = None) -> onnx.GraphProto:
        """From output number `declared` on, sizes that never differ are declared."""
        infos = [
            helper.make_tensor_value_info(
                v.name,
                helper.np_dtype_to_tensor_dtype(v.dtype),
                v.dims if declared is not None and i >= declared else [None] * v.rank,
            )
            for i, v in enumerate(outputs)
        ]
        tensors = [numpy_helper.from_array(a, v.name) for v, a in self.initializers]
        return helper.make_graph(self.nodes, self.names.fresh("g")[0], self.inputs, infos, tensors)

    # ---- common moves

    def like(self, value: Value, positive=False, dtype=None) -> Value:
        """A constant that broadcasts with the value."""
        dims = [d if d is not None and self.chance(0.6) else 1 for d in value.dims]
        if self.chance(0.5) and dims:
            dims = dims[self.integer(0, len(dims)) :]
        return self.constant(self.random_array(dims, dtype or value.dtype, positive))

    def partner(self, value: Value) -> Value:
        """Another value of the same dtype that broadcasts with it, or a constant."""

        def fits(other):
            try:
                shapes = [
                    np.broadcast_shapes(a.shape, b.shape) for a, b in zip(value.arrays, other.arrays, strict=True)
                ]
                return max(np.prod(s) for s in shapes) <= MAX_ELEMENTS
            except ValueError:
                return False

        if self.chance(0.05):
            return value
        if self.chance(0.65):
            found = [v for v in self.visible() if v.dtype == value.dtype and v is not value and fits(v)]
            if found:
                return self.choice(found)
        return self.like(value)

    def scaled(self, value: Value) -> Value:
        """Brought back near one when it has grown, so that deep graphs stay in scale."""
        if is_float(value.arrays[0]) and max(magnitude(a) for a in value.arrays) > 20:
            return self.add("Mul", [value, self.constant(np.array(0.0625, value.dtype))])
        return value
