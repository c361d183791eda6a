"""Shrinks a case that shows a finding: fewer bindings, outputs, nodes and smaller dims, as long as it still shows."""

import numpy as np
import onnx
from graph_random import Case
from node_eval import Refused, used_names, walk
from onnx import helper, numpy_helper


def needed_nodes(model) -> list:
    """Nodes the outputs depend on, in order."""
    wanted = {o.name for o in model.graph.output}
    kept = []
    for node in reversed(model.graph.node):
        if wanted & set(node.output):
            kept.append(node)
            wanted |= used_names(node)
    return kept[::-1]


def rebuilt(model, nodes: list, outputs: list, feeds: list, extra_inputs: dict):
    """The model of these nodes; extra inputs get a symbolic shape. Feeds follow."""
    used = {n for node in nodes for n in used_names(node)}
    inputs = [i for i in model.graph.input if i.name in used]
    inputs += [
        helper.make_tensor_value_info(
            n, helper.np_dtype_to_tensor_dtype(a[0].dtype), [None] * a[0].ndim if len(a) > 1 else a[0].shape
        )
        for n, a in extra_inputs.items()
        if n in used
    ]
    tensors = [t for t in model.graph.initializer if t.name in used]
    names = {i.name for i in inputs}
    new_feeds = []
    for b, feed in enumerate(feeds):
        all_values = {**feed, **{n: a[b] for n, a in extra_inputs.items()}}
        new_feeds.append({n: v for n, v in all_values.items() if n in names})
    graph = helper.make_graph(nodes, "random", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=8), new_feeds


def info_of(name: str, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim)


class Shrinker:
    """`shows(case)` runs a case in a worker and says whether the same finding appears."""

    def __init__(self, case: Case, shows, say=lambda text: None):
        self.case, self.shows, self.say = case, shows, say

    def attempt(self, model, feeds) -> bool:
        try:
            walks = [walk(model, f) for f in feeds]
        except (Refused, KeyError):
            return False
        names = [o.name for o in model.graph.output]
        if any(not np.isfinite(e[n]) for _, e in walks for n in names):
            return False
        case = Case(
            self.case.seed,
            model,
            feeds,
            [{n: v[n] for n in names} for v, _ in walks],
            [{n: e[n] for n in names} for _, e in walks],
        )
        if not self.shows(case):
            return False
        self.case = case
        self.say(f"{len(model.graph.node)} nodes, {len(feeds)} bindings")
        return True

    def run(self) -> Case:
        self.fewer_bindings()
        self.fewer_outputs()
        before = None
        while before != len(self.case.model.graph.node):
            before = len(self.case.model.graph.node)
            self.earlier_output()
            self.cut_nodes()
        self.inputs_to_constants()
        self.smaller_dims()
        return self.case

    def fewer_bindings(self):
        for b in range(len(self.case.feeds)):
            if len(self.case.feeds) > 1 and self.attempt(self.case.model, [self.case.feeds[b]]):
                return

    def fewer_outputs(self):
        outputs = list(self.case.model.graph.output)
        for o in outputs:
            if len(outputs) > 1 and self.with_outputs([o]):
                return
        for o in outputs:
            now = list(self.case.model.graph.output)
            if len(now) > 1:
                self.with_outputs([x for x in now if x.name != o.name])

    def with_outputs(self, outputs: list) -> bool:
        model = onnx.ModelProto()
        model.CopyFrom(self.case.model)
        del model.graph.output[:]
        model.graph.output.extend(outputs)
        return self.attempt(*rebuilt(model, needed_nodes(model), outputs, self.case.feeds, {}))

    def values(self) -> list:
        return [walk(self.case.model, f)[0] for f in self.case.feeds]

    def earlier_output(self):
        """The first value that shows the finding as the only output."""
        values = self.values()[0]
        for node in self.case.model.graph.node[:-1]:
            for name in node.output:
                if name and self.with_outputs([info_of(name, values[name])]):
                    return

    def cut_nodes(self):
        """Turns what nodes make into inputs, large pieces first, one by one at the end."""
        size = max(1, len(self.case.model.graph.node) // 2)
        while size:
            k = 0
            while k < len(self.case.model.graph.node):
                if not self.cut(list(self.case.model.graph.node)[k : k + size]):
                    k += size
            size //= 2

    def cut(self, gone: list) -> bool:
        model, values = self.case.model, self.values()
        outputs = {o.name for o in model.graph.output}
        left = [n for n in model.graph.node if n not in gone]
        made = {o for n in gone for o in n.output if o}
        still = {o for n in left for o in n.output}
        if not left or not (outputs & still):
            return False
        kept = [o for o in model.graph.output if o.name in still]
        extra = {n: [v[n] for v in values] for n in made}
        trial, feeds = rebuilt(model, left, kept, self.case.feeds, extra)
        return self.attempt(*rebuilt(trial, needed_nodes(trial), kept, feeds, {}))

    def inputs_to_constants(self):
        for info in list(self.case.model.graph.input):
            arrays = [f.get(info.name) for f in self.case.feeds]
            if len(self.case.model.graph.input) < 2 or any(
                a is None or a.shape != arrays[0].shape or not np.array_equal(a, arrays[0]) for a in arrays
            ):
                continue
            model = onnx.ModelProto()
            model.CopyFrom(self.case.model)
            model.graph.input.remove(info)
            model.graph.initializer.append(numpy_helper.from_array(arrays[0], info.name))
            self.attempt(model, [{n: a for n, a in f.items() if n != info.name} for f in self.case.feeds])

    def smaller_dims(self):
        """Cuts inputs down along one axis (all axes with the same symbol or size together)."""
        for size in range(8, 1, -1):
            for to in (1, 2, size - 1):
                if to < size:
                    self.shrink_size(size, to)

    def shrink_size(self, size: int, to: int):
        model = onnx.ModelProto()
        model.CopyFrom(self.case.model)
        for info in model.graph.input:
            for d in info.type.tensor_type.shape.dim:
                if d.HasField("dim_value") and d.dim_value == size:
                    d.dim_value = to
        tensors = [small(numpy_helper.to_array(t), size, to) for t in model.graph.initializer]
        names = [t.name for t in model.graph.initializer]
        del model.graph.initializer[:]
        model.graph.initializer.extend(numpy_helper.from_array(a, n) for a, n in zip(tensors, names, strict=True))
        feeds = [{n: small(a, size, to) for n, a in f.items()} for f in self.case.feeds]
        self.attempt(model, feeds)


def small(array, size: int, to: int):
    if array.ndim < 2 and array.dtype.kind in "iu":
        return array
    cut = tuple(slice(0, to if d == size else d) for d in array.shape)
    return np.ascontiguousarray(array[cut]).reshape([to if d == size else d for d in array.shape])


def text_of(model) -> str:
    """The graph in short lines, for the report."""
    return onnx.printer.to_text(model.graph)
