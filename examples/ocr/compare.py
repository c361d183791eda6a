"""The table at the end of the demo: deepjit against ONNX Runtime on the tensors this very picture gave.

Times are interleaved in one process; memory and time to ready come from fresh processes, one for each number.
"""

from pathlib import Path

import detect
import interleave
import numpy as np
import pipeline
import recognise
import sides


def feeds_of(reader: pipeline.Reader, picture) -> dict[str, tuple[dict, dict]]:
    """Model name to (feeds, shape ranges): the detector's input and the recogniser's largest batch."""
    found = {"detector": ({reader.det_input: detect.preprocess(picture, pipeline.LIMIT)}, pipeline.DET_RANGES)}
    boxes = reader.find_boxes(picture)
    if boxes:
        crops = [recognise.crop(picture, b.corners) for b in boxes]
        group = recognise.batches(crops)[-1]
        found["recogniser"] = (
            {reader.rec_input: recognise.preprocess([crops[k] for k in group])},
            pipeline.REC_RANGES,
        )
    return found


def measure(name: str, model: str, feeds: dict, ranges: dict, threads: int, progress) -> list[tuple]:
    """Two rows: (side, create s, ready ms, p50, p95, MiB, largest difference)."""
    with sides.scratch() as scratch:
        folder = Path(scratch)
        feeds_path, engine, out = str(folder / "feeds.npz"), str(folder / "model.dje"), str(folder / "out.npz")
        np.savez(feeds_path, **feeds)
        progress(f"{name}: build and save in a fresh process")
        built = sides.fresh("deepjit", "create", model, threads, feeds_path, ranges, engine)["seconds"]
        progress(f"{name}: time to ready")
        ready = sides.start_times(model, engine, threads, feeds_path, 3)
        progress(f"{name}: memory")
        ours = sides.fresh("deepjit", "run", engine, threads, feeds_path, out=out)["memory"]
        theirs = sides.fresh("onnxruntime", "run", model, threads, feeds_path, out=out)["memory"]
        progress(f"{name}: speed, in turn")
        pair = sides.DeepjitSide(engine, threads), sides.OrtSide(model, threads)
        difference = sides.relative_difference(pair[0].run(feeds), pair[1].run(feeds))
        result = interleave.compare(*pair, feeds, {}, pairs=5, block_s=0.4)
    return [
        ("deepjit", built, ready["deepjit"], result.ours, ours, f"{result.ratio:.2f}x", f"{difference:.1e}"),
        ("ONNX Runtime", ready["onnxruntime"], None, result.theirs, theirs, "1.00x", "-"),
    ]


def print_table(reader: pipeline.Reader, picture, det: str, rec: str, threads: int, progress) -> None:
    print(f"\n{sides.cpu_name()}, {threads} threads; {sides.versions()}")
    print(
        "build: the model made ready from ONNX; load: the saved engine made ready; memory: peak growth of the process"
    )
    heads = f"{'build':>10}{'load':>10}{'P50':>10}{'P95':>10}{'speed':>8}{'memory':>11}{'max diff':>10}"
    print(f"{'model':<12}{'side':<14}{heads}")
    for name, (feeds, ranges) in feeds_of(reader, picture).items():
        model = det if name == "detector" else rec
        shape = "x".join(str(n) for n in next(iter(feeds.values())).shape)
        for side, build, load, timing, memory, speed, difference in measure(
            name, model, feeds, ranges, threads, progress
        ):
            loaded = f"{load * 1e3:.1f} ms" if load is not None else "-"
            times = f"{loaded:>10}{timing.p50_ms:>7.2f} ms{timing.p95_ms:>7.2f} ms"
            rest = f"{speed:>8}{memory / 2**20:>7.1f} MiB{difference:>10}"
            print(f"{name:<12}{side:<14}{build * 1e3:>7.0f} ms{times}{rest}", flush=True)
        print(f"{'':<12}input {shape}")
