"""Runs of a packed deepjit on tensors of PyTorch, through the C ABI: values, order, graphs, threads, memory, latency.

io_torch.py [MODEL.onnx] [--shapes x=16x3x224x224] [--runs 2000] [--json FILE]

Needs PyTorch with CUDA, and lies in tests/ of the packed folder. Without a model it takes a chain of small operators
beside it. Prints one line a check and the latencies; exit code 0 only when every check passed.
"""

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
HOST, DEVICE = 0, 1
DTYPES = {
    1: torch.float32, 2: torch.uint8, 3: torch.int8, 5: torch.int16, 6: torch.int32, 7: torch.int64,
    9: torch.bool, 10: torch.float16, 11: torch.float64, 16: torch.bfloat16,
}  # fmt: skip


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("data", ctypes.c_void_p)]  # fmt: skip


class Info(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("dim_names", ctypes.POINTER(ctypes.c_char_p)),
                ("optional", ctypes.c_int32), ("element", ctypes.c_void_p)]  # fmt: skip


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("input_memory", ctypes.POINTER(ctypes.c_int32)),
                ("outputs", ctypes.POINTER(Tensor)), ("output_count", ctypes.c_size_t),
                ("output_memory", ctypes.POINTER(ctypes.c_int32)), ("outputs_on_device", ctypes.c_int32),
                ("use_stream", ctypes.c_int32), ("stream", ctypes.c_void_p), ("no_wait", ctypes.c_int32),
                ("reserved", ctypes.c_int32), ("after", ctypes.c_void_p), ("after_count", ctypes.c_size_t)]  # fmt: skip


class MemoryUse(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("constants", "values", "scratch", "inputs", "outputs", "total")]


class Deepjit:
    def __init__(self, lib: Path):
        self.lib = ctypes.CDLL(str(lib))
        self.lib.deepjit_last_error.restype = ctypes.c_char_p
        self.lib.deepjit_engine_output_count.restype = ctypes.c_size_t
        self.lib.deepjit_engine_input_count.restype = ctypes.c_size_t
        for name in ("engine_free", "context_free", "engine_input_count", "engine_output_count"):
            getattr(self.lib, f"deepjit_{name}").argtypes = [ctypes.c_void_p]

    def check(self, status: int) -> None:
        if status:
            raise RuntimeError(self.lib.deepjit_last_error().decode())


class Engine:
    def __init__(self, api: Deepjit, path: Path):
        self.api, self.handle = api, ctypes.c_void_p()
        api.check(api.lib.deepjit_load_file(str(path).encode(), 0, ctypes.byref(self.handle)))
        self.inputs = self.infos("input")
        self.outputs = self.infos("output")

    def infos(self, kind: str) -> list:
        count = getattr(self.api.lib, f"deepjit_engine_{kind}_count")(self.handle)
        found = []
        for i in range(count):
            info = Info()
            get = getattr(self.api.lib, f"deepjit_engine_{kind}")
            self.api.check(get(self.handle, ctypes.c_size_t(i), ctypes.byref(info)))
            found.append((info.name, DTYPES[info.dtype], [info.dims[k] for k in range(info.rank)]))
        return found

    def memory_use(self, tensors: "Bound") -> MemoryUse:
        use = MemoryUse()
        call = self.api.lib.deepjit_engine_memory_use
        self.api.check(call(self.handle, tensors.array, ctypes.c_size_t(tensors.count), ctypes.byref(use)))
        return use


class Bound:
    """Torch tensors as deepjit's, made once for many runs; the tensors are kept."""

    def __init__(self, named: dict):
        self.named, self.count = named, len(named)
        self.array = (Tensor * max(self.count, 1))()
        self.memory = (ctypes.c_int32 * max(self.count, 1))()
        self.shapes = []
        numbers = {dtype: number for number, dtype in DTYPES.items()}
        for i, (name, tensor) in enumerate(named.items()):
            shape = (ctypes.c_int64 * max(tensor.dim(), 1))(*tensor.shape)
            self.shapes.append(shape)
            self.array[i] = Tensor(name, numbers[tensor.dtype], tensor.dim(), shape, tensor.data_ptr())
            self.memory[i] = DEVICE if tensor.is_cuda else HOST


class Context:
    def __init__(self, engine: Engine):
        self.engine, self.api, self.handle = engine, engine.api, ctypes.c_void_p()
        self.api.check(self.api.lib.deepjit_context_create(engine.handle, 0, ctypes.byref(self.handle)))

    def run(self, inputs: Bound, outputs: Bound, stream=None, wait=True) -> None:
        options = Options()
        options.size = ctypes.sizeof(Options)
        options.input_memory = inputs.memory
        options.outputs, options.output_count, options.output_memory = outputs.array, outputs.count, outputs.memory
        if stream is not None:
            options.use_stream, options.stream = 1, stream.cuda_stream
        options.no_wait = 0 if wait else 1
        call = self.api.lib.deepjit_context_run_with
        self.api.check(call(self.handle, inputs.array, ctypes.c_size_t(inputs.count), ctypes.byref(options)))

    def output_shapes(self) -> list:
        shapes = []
        for i in range(len(self.engine.outputs)):
            tensor = Tensor()
            self.api.check(self.api.lib.deepjit_context_output(self.handle, ctypes.c_size_t(i), ctypes.byref(tensor)))
            shapes.append([tensor.shape[k] for k in range(tensor.rank)])
        return shapes

    def close(self) -> None:
        self.api.lib.deepjit_context_free(self.handle)


class Case:
    """An engine with inputs and what it makes of them."""

    def __init__(self, engine: Engine, shapes: dict):
        self.engine, self.shapes = engine, shapes
        self.feeds = [self.random_feed(seed) for seed in range(6)]
        context = Context(engine)
        context.run(Bound(self.feeds[0]), Bound({}))
        self.output_shapes = context.output_shapes()
        self.expected = []
        for feed in self.feeds:
            out = self.empty("cpu")
            context.run(Bound(feed), Bound(out))
            self.expected.append(out)
        context.close()

    def random_feed(self, seed: int) -> dict:
        generator = torch.Generator().manual_seed(seed)
        feed = {}
        for name, dtype, dims in self.engine.inputs:
            shape = self.shapes.get(name.decode(), [max(d, 1) for d in dims])
            values = torch.randn(shape, generator=generator)
            feed[name] = values.to(dtype) if dtype.is_floating_point else (values * 4).to(dtype)
        return feed

    def empty(self, device: str, pinned: bool = False) -> dict:
        made = {
            name: torch.zeros(shape, dtype=dtype, device=device, pin_memory=pinned)
            for (name, dtype, _), shape in zip(self.engine.outputs, self.output_shapes, strict=True)
        }
        torch.cuda.synchronize()
        return made

    def on_gpu(self, i: int) -> dict:
        made = {name: tensor.cuda() for name, tensor in self.feeds[i].items()}
        torch.cuda.synchronize()
        return made

    def right(self, i: int, out: dict) -> bool:
        """Equal bits."""
        return all(
            torch.equal(tensor.cpu().flatten().view(torch.uint8), self.expected[i][name].flatten().view(torch.uint8))
            for name, tensor in out.items()
        )


def check_zero_copy(case: Case) -> bool:
    context = Context(case.engine)
    good = True
    for i in (0, 1, 0, 1):
        out = case.empty("cuda")
        torch.cuda.synchronize()
        context.run(Bound(case.on_gpu(i)), Bound(out))
        good = good and case.right(i, out)
    context.close()
    return good


def check_user_stream(case: Case) -> bool:
    """The input is written late on the stream of the caller, and the output read there at once."""
    context, stream = Context(case.engine), torch.cuda.Stream()
    feed, out = case.on_gpu(0), case.empty("cuda")
    bound_in, bound_out = Bound(feed), Bound(out)
    good = True
    for round_ in range(6):
        i = round_ % 2
        source = case.on_gpu(i)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            for name, tensor in feed.items():
                tensor.copy_(source[name], non_blocking=True)
            begin = time.perf_counter()
            context.run(bound_in, bound_out, stream, wait=False)
            enqueued = time.perf_counter() - begin
            copies = {name: tensor.clone() for name, tensor in out.items()}
        still_busy = not stream.query()
        stream.synchronize()
        good = good and case.right(i, copies)
        if round_ > 2 and not still_busy:
            print(f"  the host waited: {enqueued * 1e3:.2f} ms to enqueue")
            good = False
    context.close()
    return good


def check_changing_addresses(case: Case) -> bool:
    good = True
    for sets in (2, 6):
        context = Context(case.engine)
        feeds = [case.on_gpu(i) for i in range(sets)]
        outs = [case.empty("cuda") for _ in range(sets)]
        torch.cuda.synchronize()
        bound = [(Bound(feed), Bound(out)) for feed, out in zip(feeds, outs, strict=True)]
        for run in range(8 * sets):
            i = run % sets
            for tensor in outs[i].values():
                tensor.zero_()
            torch.cuda.synchronize()
            context.run(*bound[i])
            good = good and case.right(i, outs[i])
        context.close()
    context = Context(case.engine)
    kept = []
    for run in range(20):  # addresses that never come again
        i = run % len(case.feeds)
        feed, out = case.on_gpu(i), case.empty("cuda")
        kept += [feed, out]
        torch.cuda.synchronize()
        context.run(Bound(feed), Bound(out))
        good = good and case.right(i, out)
    context.close()
    return good


def check_unaligned(case: Case) -> bool:
    context = Context(case.engine)
    feed = {}
    for name, tensor in case.on_gpu(0).items():
        room = torch.zeros(tensor.numel() + 1, dtype=tensor.dtype, device="cuda")
        room[1:].copy_(tensor.flatten())
        feed[name] = room[1:].view(tensor.shape)
    out = case.empty("cuda")
    torch.cuda.synchronize()
    context.run(Bound(feed), Bound(out))
    context.close()
    return case.right(0, out)


def check_threads(case: Case) -> bool:
    wrong = []

    def work(t: int) -> None:
        context, stream = Context(case.engine), torch.cuda.Stream()
        feed, out = case.on_gpu(t % len(case.feeds)), case.empty("cuda")
        torch.cuda.synchronize()
        bound_in, bound_out = Bound(feed), Bound(out)
        for k in range(20):
            if k % 2:
                context.run(bound_in, bound_out, stream, wait=False)
                stream.synchronize()
            else:
                context.run(bound_in, bound_out)
            if not case.right(t % len(case.feeds), out):
                wrong.append((t, k))
        context.close()

    threads = [threading.Thread(target=work, args=(t,)) for t in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return not wrong


def check_refusals(case: Case) -> bool:
    """Memory that is not where it is said to be; afterwards the context runs."""
    context = Context(case.engine)
    lies = Bound(case.feeds[0])
    for i in range(lies.count):
        lies.memory[i] = DEVICE
    out = case.empty("cuda")
    refused = 0
    for inputs, wait in ((lies, True), (Bound(case.feeds[0]), False)):
        try:
            context.run(inputs, Bound(out), torch.cuda.current_stream(), wait=wait)
        except RuntimeError as error:
            refused += "E804" in str(error)
    context.run(Bound(case.on_gpu(0)), Bound(out))
    context.close()
    return refused == 2 and case.right(0, out)


def check_memory(case: Case, results: dict) -> bool:
    feed = Bound(case.feeds[0])
    use = case.engine.memory_use(feed)
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    contexts = [Context(case.engine) for _ in range(4)]
    for context in contexts:
        for _ in range(3):
            context.run(feed, Bound({}))
    taken = (free - torch.cuda.mem_get_info()[0]) / len(contexts)
    for context in contexts:
        context.close()
    known = use.total - use.constants
    results["memory"] = {"known": known, "taken": taken, "constants": use.constants}
    print(f"  a context: {known / 2**20:.2f} MiB known before, {taken / 2**20:.2f} MiB taken")
    return abs(taken - known) <= max(0.02 * known, 2 * 2**20)  # the driver hands out 2 MiB at a time


def percentiles(times: list) -> dict:
    times = sorted(times)
    return {f"p{p}": times[min(len(times) - 1, len(times) * p // 100)] * 1e6 for p in (50, 95, 99)}


def latencies(case: Case, runs: int) -> dict:
    rows = {}

    def row(name: str, inputs: list, outputs: list, **how) -> None:
        context = Context(case.engine)
        bound = [(Bound(a), Bound(b)) for a, b in zip(inputs, outputs, strict=True)]
        times = []
        torch.cuda.synchronize()
        for k in range(runs + 20):
            begin = time.perf_counter()
            context.run(*bound[k % len(bound)], **how)
            if how:
                how["stream"].synchronize()
            times.append(time.perf_counter() - begin)
        context.close()
        rows[name] = percentiles(times[20:])
        print(
            f"  {name:44} P50 {rows[name]['p50']:9.1f}  P95 {rows[name]['p95']:9.1f}  P99 {rows[name]['p99']:9.1f} us"
        )

    pinned = {name: tensor.pin_memory() for name, tensor in case.feeds[0].items()}
    gpu = [case.on_gpu(i) for i in range(6)]
    out = [case.empty("cuda") for _ in range(6)]
    row("host to host", [case.feeds[0]], [case.empty("cpu")])
    row("page-locked to page-locked", [pinned], [case.empty("cpu", pinned=True)])
    row("device to device", gpu[:1], out[:1])
    row("device to device, two sets of buffers", gpu[:2], out[:2])
    row("device to device, six sets: graphs updated", gpu, out)
    row("device to device, stream of the caller", gpu[:1], out[:1], stream=torch.cuda.Stream(), wait=False)
    return rows


def shape_of(text: str) -> tuple:
    name, dims = text.rsplit("=", 1)
    return name, [int(d) for d in dims.split("x")]


def default_model() -> tuple:
    for run in json.loads((ROOT / "tests/bench/bench.json").read_text())["runs"]:
        if "chain" in run["name"]:
            return ROOT / "tests/bench" / run["file"], run["shapes"]
    raise SystemExit("name a model")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--shapes", action="append", default=[], help="NAME=SHAPE")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--json")
    parser.add_argument("--lib", default=str(ROOT / "lib/libdeepjit.so"))
    parser.add_argument(
        "--build", nargs=argparse.REMAINDER, default=[], help="more options of deepjit build; comes last"
    )
    given = parser.parse_args()
    model, shapes = (Path(given.model), dict(map(shape_of, given.shapes))) if given.model else default_model()
    results: dict = {"model": str(model), "shapes": shapes, "gpu": torch.cuda.get_device_name(0), "checks": {}}
    with tempfile.TemporaryDirectory() as folder:
        path = model
        if model.suffix == ".onnx":
            path = Path(folder) / "m.dje"
            fixed = [f"{name}={':'.join(['x'.join(map(str, dims))] * 3)}" for name, dims in shapes.items()]
            command = [ROOT / "bin/deepjit", "build", model, "-o", path, "--device", "cuda"]
            command += [word for text in fixed for word in ("--range", text)]
            subprocess.run([*command, *given.build], check=True)
        engine = Engine(Deepjit(Path(given.lib)), path)
    case = Case(engine, shapes)
    checks = {
        "zero copy": check_zero_copy,
        "stream of the caller": check_user_stream,
        "changing addresses": check_changing_addresses,
        "addresses that are not aligned": check_unaligned,
        "eight threads": check_threads,
        "refusals": check_refusals,
        "memory": lambda case: check_memory(case, results),
    }
    for name, check in checks.items():
        try:
            results["checks"][name] = check(case)
        except Exception as fault:  # one check must not take the others with it
            results["checks"][name] = False
            print(f"  {fault!r}")
        print(f"{name}: {'ok' if results['checks'][name] else 'FAILED'}", flush=True)
    results["latency_us"] = latencies(case, given.runs)
    if given.json:
        Path(given.json).write_text(json.dumps(results, indent=1))
    return 0 if all(results["checks"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
