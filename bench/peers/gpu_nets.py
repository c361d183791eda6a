"""Times deepjit beside PyTorch on one GPU: six nets in float16, batch 1 and 16, tensors on the GPU.

gpu_nets.py --tool dist/deepjit/bin/deepjit --out FOLDER [--nets resnet50,bert_base] [--batches 1,16] [--blocks 5]
            [--peers graph,compile] [--build-args "..."]

deepjit builds the ONNX files of bench/models/exports.py (float32, cast by --precision fp16); PyTorch runs the same
architectures (torchvision, timm, transformers), random weights on both sides, under CUDA graphs. Order in each block:
peer, deepjit, deepjit, peer; a row's figure is the median of its blocks' P50. Prints one line a row, and writes
gpu_nets.json after each. Needs torch, torchvision, timm, transformers and onnx; a part that fails is told and left out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "models"))

NETS = ["resnet50", "mobilenet_v3", "vit_b16", "convnext_tiny", "bert_base"]
SHAPES = {"bert_base": {"input_ids": (128,), "attention_mask": (128,)}}
IMAGE = (3, 224, 224)
FEEDS = {"bert_base": ["token_type_ids=zeros", "attention_mask=ones"]}  # the rest is random


def nvrtc_folder() -> str:
    for folder in sys.path:
        for found in sorted(Path(folder).glob("nvidia/*/lib/libnvrtc.so.1*")):
            return str(found.parent)
    return ""


# ---- deepjit ----------------------------------------------------------------------------------------


class Ours:
    def __init__(self, tool: Path, folder: Path, build_args: list[str]):
        self.tool, self.folder, self.build_args = tool, folder, build_args
        self.env = dict(os.environ)
        if found := nvrtc_folder():
            self.env.setdefault("DEEPJIT_CUDA_PATH", found)

    def shapes(self, net: str, batch: int, model: Path) -> list[str]:
        import onnx

        dims = []
        for value in onnx.load(model, load_external_data=False).graph.input:
            own = SHAPES.get(net, {}).get(value.name, IMAGE if net != "bert_base" else (128,))
            dims.append(f"{value.name}={'x'.join(map(str, (batch, *own)))}")
        return dims

    def build(self, net: str, batch: int) -> dict:
        """Build time, and the engine's file."""
        model = self.folder / f"{net}.onnx"
        if not model.exists():
            subprocess.run(
                [sys.executable, HERE.parent / "models/exports.py", net, "--folder", self.folder], check=True
            )
        engine = self.folder / f"{net}_{batch}.dje"
        command = [self.tool, "build", model, "-o", engine, "--device", "cuda", "--precision", "fp16", "--json"]
        for shape in (shapes := self.shapes(net, batch, model)):
            command += ["--range", shape]
        start = time.time()
        log = self.folder / f"{net}_{batch}.log"
        with open(log, "w") as file:
            done = subprocess.run([*command, "--verbose", *self.build_args], stdout=subprocess.PIPE, stderr=file,
                                  env=self.env, text=True)  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(log.read_text()[-1500:])
        told = json.loads(done.stdout)
        return {"net": net, "engine": engine, "shapes": shapes, "build_s": time.time() - start,
                "kernels": told.get("kernels_compiled")}  # fmt: skip

    def time(self, made: dict) -> dict:
        command = [self.tool, "bench", made["engine"], "--json", "--seconds", "0.5"]
        for shape in made["shapes"]:
            command += ["--shapes", shape]
        for feed in FEEDS.get(made["net"], []):
            command += ["-i", feed]
        done = subprocess.run(command, capture_output=True, env=self.env, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-1500:])
        return json.loads(done.stdout)


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

    def time(self, count: int = 200) -> float:
        """P50 of a replay in microseconds."""
        import torch

        for _ in range(30):
            self.graph.replay()
        marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
        for before, after in marks:
            before.record()
            self.graph.replay()
            after.record()
        torch.cuda.synchronize()
        return statistics.median(a.elapsed_time(b) * 1e3 for a, b in marks)


def run_row(ours: Ours, net: str, batch: int, kinds: list[str], blocks: int) -> dict:
    row: dict = {"net": net, "batch": batch}
    try:
        made = ours.build(net, batch)
        row |= {"build_s": round(made["build_s"], 1), "kernels_compiled": made["kernels"]}
    except Exception as e:
        made, row["failed"] = None, str(e)[-1500:]
    peers = {}
    for kind in kinds:
        try:
            peers[kind] = Peer(net, batch, kind == "compile")
            row[f"{kind}_ready_s"] = round(peers[kind].ready_s, 1)
        except Exception as e:
            row[f"{kind}_failed"] = repr(e)[:300]
    times: dict = {kind: [] for kind in peers}
    mine = []
    for _ in range(blocks if made else 1):
        for turn in range(2):
            for kind, peer in peers.items():
                times[kind].append(peer.time())
            if made and turn == 0:
                mine += [ours.time(made) for _ in range(2)]
    if mine:
        row["deepjit_us"] = statistics.median(m["device_us"]["p50"] for m in mine)
        row["deepjit_all_us"] = [round(m["device_us"]["p50"], 1) for m in mine]
        row |= {key: mine[-1].get(key) for key in ("launches", "peak_bytes", "load_s")}
        row["host_us"] = mine[-1]["host_us"]
    for kind, values in times.items():
        row[f"{kind}_us"] = statistics.median(values)
    if mine and times:
        row["ratio"] = min(row[f"{kind}_us"] for kind in times) / row["deepjit_us"]
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/deepjit_nets"))
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument("--batches", default="1,16")
    parser.add_argument("--peers", default="graph,compile")
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=540, help="no further row is begun after this time")
    parser.add_argument("--build-args", default="")
    args = parser.parse_args()
    for folder in (args.out, args.folder):
        folder.mkdir(parents=True, exist_ok=True)
    ours = Ours(args.tool, args.folder, args.build_args.split())
    rows, start = [], time.time()
    for net in args.nets.split(","):
        for batch in map(int, args.batches.split(",")):
            if time.time() - start > args.seconds:
                continue
            row = run_row(ours, net, batch, [p for p in args.peers.split(",") if p], args.blocks)
            rows.append(row)
            (args.out / "gpu_nets.json").write_text(json.dumps({"rows": rows}, indent=1))
            shown = {k: round(v, 2) if isinstance(v, float) else v for k, v in row.items() if "all" not in k}
            print(shown, flush=True)
    ratios = [r["ratio"] for r in rows if "ratio" in r]
    if ratios:
        print(f"geomean of best peer / deepjit over {len(ratios)} rows: {statistics.geometric_mean(ratios):.2f}")
    return 0 if rows and not any("failed" in r for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
