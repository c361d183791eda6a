"""Times deepjit beside PyTorch and ONNX Runtime on one GPU: five nets in float16, batch 1 and 16, tensors on the GPU.

gpu_nets.py --tool dist/deepjit/bin/deepjit --out FOLDER [--nets resnet50,bert_base] [--batches 1,16] [--blocks 5]
            [--peers graph,compile,ort] [--build-args "..."]

deepjit and ONNX Runtime take the ONNX files of bench/models/exports.py (float32; cast by --precision fp16, and by ONNX
Runtime's own converter); PyTorch runs the same architectures (torchvision, timm, transformers), random weights on all
sides. Peers run under CUDA graphs; ort without one where it refuses. Order in each block: peers, deepjit, deepjit,
peers (blocks.py); a row's figure is the median of its blocks' P50. "cold" figures evict the L2 before each run. Prints
one line a row, and writes gpu_nets.json after each. Needs torch, torchvision, timm, transformers and onnx; a part that
fails is told and left out, as ort is where onnxruntime has no CUDA provider.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import blocks
import ort_peer
from tool import HERE, Built, Tool, gpu_facts

NETS = ["resnet50", "mobilenet_v3", "vit_b16", "convnext_tiny", "bert_base"]
IMAGE = (3, 224, 224)
FEEDS = {"bert_base": ["token_type_ids=zeros", "attention_mask=ones"]}  # the rest is random


# ---- deepjit


class Ours:
    def __init__(self, tool: Tool, folder: Path, build_args: list[str]):
        self.tool, self.folder, self.build_args = tool, folder, build_args

    def model(self, net: str) -> Path:
        model = self.folder / f"{net}.onnx"
        if not model.exists():
            subprocess.run(
                [sys.executable, HERE.parent / "models/exports.py", net, "--folder", self.folder], check=True
            )
        return model

    def shapes(self, net: str, batch: int) -> dict[str, tuple[int, ...]]:
        import onnx

        own = (128,) if net == "bert_base" else IMAGE
        inputs = onnx.load(self.model(net), load_external_data=False).graph.input
        return {value.name: (batch, *own) for value in inputs}

    def build(self, net: str, batch: int) -> Built:
        engine = self.folder / f"{net}_{batch}.dje"
        return self.tool.build(
            self.model(net), engine, self.shapes(net, batch), ["--precision", "fp16", *self.build_args]
        )

    def time(self, net: str, batch: int, engine: Path, *options: str) -> dict:
        feeds = [word for feed in FEEDS.get(net, []) for word in ("-i", feed)]
        return self.tool.bench(engine, *feeds, *options, shapes=self.shapes(net, batch))


# ---- PyTorch ----------------------------------------------------------------------------------------


def torch_net(net: str):
    import torch

    if net == "bert_base":
        from transformers import BertConfig, BertModel

        class Bert(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.bert = BertModel(BertConfig(attn_implementation="sdpa"), add_pooling_layer=False)

            def forward(self, ids, mask):
                return self.bert(input_ids=ids, attention_mask=mask).last_hidden_state

        return Bert(), lambda b: (torch.randint(0, 30000, (b, 128)), torch.ones(b, 128, dtype=torch.int64))
    if net in ("vit_b16", "convnext_tiny"):
        import timm

        made = timm.create_model({"vit_b16": "vit_base_patch16_224"}.get(net, net), pretrained=False)
    else:
        import torchvision

        names = {"mobilenet_v3": "mobilenet_v3_large"}
        made = getattr(torchvision.models, names.get(net, net))(weights=None)
    return made, lambda b: (torch.randn(b, *IMAGE),)


class Peer:
    """A net of PyTorch under a CUDA graph, as it is or compiled."""

    def __init__(self, net: str, batch: int, compiled: bool):
        import torch

        start = time.time()
        torch.backends.cudnn.benchmark = True
        torch._dynamo.reset()
        model, inputs = torch_net(net)
        self.model = model.eval().cuda().half()
        self.inputs = tuple(x.cuda().half() if x.is_floating_point() else x.cuda() for x in inputs(batch))
        if self.inputs[0].dim() == 4:
            self.model = self.model.to(memory_format=torch.channels_last)
            self.inputs = tuple(x.to(memory_format=torch.channels_last) for x in self.inputs)
        call = torch.compile(self.model) if compiled else self.model
        with torch.no_grad():
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for _ in range(5):
                    call(*self.inputs)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                call(*self.inputs)
        self.ready_s = time.time() - start

    def time(self, count: int = 200, flush=None) -> float:
        """P50 of a replay in microseconds; `flush` is called before each."""
        import torch

        for _ in range(30):
            self.graph.replay()
        marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
        for before, after in marks:
            if flush:
                flush()
            before.record()
            self.graph.replay()
            after.record()
        torch.cuda.synchronize()
        return statistics.median(a.elapsed_time(b) * 1e3 for a, b in marks)


def cache_flush():
    """Writes more than the L2 holds."""
    import torch

    room = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    return lambda: room.zero_()


def ort_feeds(net: str, shapes: dict) -> dict:
    import numpy as np

    rng = np.random.default_rng(0)
    if net != "bert_base":
        return {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    made = {"input_ids": lambda s: rng.integers(0, 30000, s), "attention_mask": lambda s: np.ones(s, np.int64)}
    return {name: made.get(name, lambda s: np.zeros(s, np.int64))(shape) for name, shape in shapes.items()}


def make_peer(ours: Ours, net: str, batch: int, kind: str):
    if kind != "ort":
        return Peer(net, batch, kind == "compile")
    if reason := ort_peer.why_not():
        raise RuntimeError(reason)
    return ort_peer.OrtPeer(ours.model(net), ort_feeds(net, ours.shapes(net, batch)))


# ---- one row


def add_ours(row: dict, mine: list[dict], cold: dict) -> None:
    row["deepjit_us"] = statistics.median(m["device_us"]["p50"] for m in mine)
    row["deepjit_all_us"] = [round(m["device_us"]["p50"], 1) for m in mine]
    row |= {key: mine[-1].get(key) for key in ("launches", "peak_bytes", "load_s")}
    row["host_us"], row["deepjit_cold_us"] = mine[-1]["host_us"], cold["device_us"]["p50"]


def run_row(ours: Ours, net: str, batch: int, kinds: list[str], count: int) -> dict:
    row: dict = {"net": net, "batch": batch, "clocks_before": gpu_facts().get("clocks.sm")}
    made = None
    try:
        made = ours.build(net, batch)
        row |= {"build_s": round(made.build_s, 1), "kernels_compiled": made.kernels}
    except Exception as e:
        row["failed"] = str(e)[-1500:]
    peers = {}
    for kind in kinds:
        try:
            peers[kind] = make_peer(ours, net, batch, kind)
            row[f"{kind}_ready_s"] = round(peers[kind].ready_s, 1)
            if kind == "ort":
                row |= {"ort_graph": peers[kind].graph, "ort_timed_by": peers[kind].timed_by}
                row["ort_refused"] = peers[kind].refusals
        except Exception as e:
            row[f"{kind}_failed"] = repr(e)[:300]
    told: list[dict] = []

    def time_ours() -> float:
        told.append(ours.time(net, batch, made.engine))
        return told[-1]["device_us"]["p50"]

    calls = {kind: peer.time for kind, peer in peers.items()}
    mine, times = blocks.interleave(time_ours if made else None, calls, count if made else 1)
    if mine:
        add_ours(row, told, ours.time(net, batch, made.engine, "--cold-l2"))
    for kind, values in times.items():
        row[f"{kind}_us"], row[f"{kind}_all_us"] = statistics.median(values), [round(v, 1) for v in values]
        row[f"{kind}_cold_us"] = peers[kind].time(count=50, flush=cache_flush())
    if mine and times:
        best = min(times, key=lambda kind: row[f"{kind}_us"])
        row["ratio"] = row[f"{best}_us"] / row["deepjit_us"]
        row["best_peer"], row["blocks"] = best, blocks.compare(mine, times[best])
    row["clocks_after"] = gpu_facts().get("clocks.sm")
    return row


def summary(rows: list[dict]) -> dict:
    """Geometric means of the best peer's time over deepjit's, of all rows and by batch."""
    told: dict = {}
    for batch in [None, *sorted({r["batch"] for r in rows})]:
        ratios = [r["ratio"] for r in rows if "ratio" in r and batch in (None, r["batch"])]
        if ratios:
            name = "all" if batch is None else f"batch {batch}"
            told[name] = {"geomean_ratio": round(blocks.geometric_mean(ratios), 3), "rows": len(ratios)}
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/deepjit_nets"))
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument("--batches", default="1,16")
    parser.add_argument("--peers", default="graph,compile,ort")
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=540, help="no further row is begun after this time")
    parser.add_argument("--build-args", default="")
    args = parser.parse_args()
    for folder in (args.out, args.folder):
        folder.mkdir(parents=True, exist_ok=True)
    ours = Ours(Tool(args.tool, args.device), args.folder, args.build_args.split())
    kinds = [p for p in args.peers.split(",") if p]
    rows, start, gpu = [], time.time(), gpu_facts()
    for net in args.nets.split(","):
        for batch in map(int, args.batches.split(",")):
            if time.time() - start > args.seconds:
                print(f"{net} batch {batch}: no time was left", flush=True)
                continue
            row = run_row(ours, net, batch, kinds, args.blocks)
            rows.append(row)
            told = {"date": time.strftime("%Y-%m-%d"), "gpu": gpu, "geomean": summary(rows), "rows": rows}
            (args.out / "gpu_nets.json").write_text(json.dumps(told, indent=1))
            shown = {k: round(v, 2) if isinstance(v, float) else v for k, v in row.items() if "all" not in k}
            print(shown, flush=True)
    for name, told in summary(rows).items():
        print(f"geomean of best peer / deepjit, {name}: {told['geomean_ratio']:.2f} over {told['rows']} rows")
    return 0 if rows and not any("failed" in r for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
