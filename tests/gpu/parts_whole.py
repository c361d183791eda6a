"""Parts of gpu_test.py over whole models, through the C ABI: nodes, models, sanitizer, io. All need numpy and onnx, io
needs PyTorch."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpu_session import TESTS, TOOL, Session
from parts_time import find_program


def nodes(session: Session) -> None:
    """ONNX's node tests, untuned, against the recorded results at the types' tolerances."""
    report = session.out / "nodes.json"
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(TESTS / "node_data.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        command = [
            sys.executable,
            TESTS / "nodes/run_nodes.py",
            "--native",
            "--device",
            session.device,
            "--data",
            folder,
        ]
        command += ["--workers", min(16, os.cpu_count() or 1), "--seconds", int(session.left_s("nodes") - 20)]
        command += ["--json", report, "--report", session.out / "nodes_not_passed.txt"]
        code, text = session.run("nodes", command, session.left_s("nodes"))
    lines = text.splitlines()
    for line in lines[2:22]:
        print(f"  {line}", flush=True)
    session.finish("nodes", code == 0, exit_code=code, summary="; ".join(lines[:2]), surprises=lines[2:])


def models(session: Session) -> None:
    """Real models on the GPU and on the CPU, from $DEEPJIT_GPU_MODELS (export_models.py), in fp32 and fp16."""
    packed = os.environ.get("DEEPJIT_GPU_MODELS", "")
    if not packed or not Path(packed).is_dir():
        return session.finish("models", False, summary="DEEPJIT_GPU_MODELS names no folder; see export_models.py")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        session.run("models", [sys.executable, TESTS / "export_models.py", "--unpack", packed, folder])
        for precision in ("fp32", "fp16"):
            report = session.out / f"models_{precision}.json"
            left = session.left_s("models") * (0.55 if precision == "fp32" else 1) - 5
            command = [sys.executable, TESTS / "check_models.py", folder, "--device", session.device]
            command += ["--precision", precision, "--json", report, "--seconds", max(10, int(left)), "--workers", "4"]
            _, text = session.run("models", command, left + 5)
            print(text, end="", flush=True)
            rows += json.loads(report.read_text()) if report.exists() else []
    failed = [f"{row['case']} {row['precision']}" for row in rows if not row["ok"]]
    session.results["models"] = rows
    summary = f"{len(rows) - len(failed)} of {len(rows)} agree"
    session.finish("models", bool(rows) and not failed, summary=summary, failed=failed)


def io(session: Session) -> None:
    """Tensors of PyTorch in and out: values, streams, graphs, threads, memory as it was foretold."""
    report = session.out / "io.json"
    code, text = session.run("io", [sys.executable, TESTS / "io_torch.py", "--json", report])
    print("".join(f"  {line}\n" for line in text.splitlines()), end="", flush=True)
    checks = json.loads(report.read_text())["checks"] if report.exists() else {}
    failed = [name for name, ok in checks.items() if not ok]
    session.finish("io", code == 0, exit_code=code, summary=f"{len(checks) - len(failed)} checks passed", failed=failed)


# ---- compute-sanitizer


TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
KERNELS = 60
WATCHED = Path(tempfile.gettempdir()) / "deepjit_watched"  # models and engines for it


def sanitizer_models(session: Session) -> list[tuple[Path, dict, list[str]]]:
    """Models of one kernel or few, with their shapes and options: contractions first, then other generated kernels."""
    WATCHED.mkdir(exist_ok=True)
    session.run("sanitizer", [sys.executable, TESTS / "export_contracts.py", WATCHED])
    found = []
    for case in json.loads((WATCHED / "contracts.json").read_text()):
        if case["macs"] < 300e6:  # a kernel runs hundreds of times longer when it is watched
            found.append((WATCHED / f"{case['name']}.onnx", {}, ["--force-tactic", "nvrtc"]))
    kinds = json.loads((TESTS / "cases/cases.json").read_text())["cases"]
    plain = [case for case in kinds if not case["known_fault"] and not case["may_not_build"] and not case["disable"]]
    step = max(1, len(plain) // KERNELS)
    for case in plain[::step]:
        sizes = case["dims"][min(1, len(case["dims"]) - 1)] if case["dims"] else {}
        found.append((TESTS / f"cases/{case['name']}.onnx", sizes, ["--ops", str(TESTS / "cases/ops.json")]))
    return found


def shapes_of(model: Path, sizes: dict) -> dict:
    import onnx

    shapes = {}
    for value in onnx.load(model, load_external_data=False).graph.input:
        dims = value.type.tensor_type.shape.dim
        shapes[value.name] = [d.dim_value or sizes.get(d.dim_param, 3) for d in dims]
    return shapes


def build_watched(session: Session, model: Path, sizes: dict, options: list[str]) -> Path | None:
    """An untuned engine with its shapes beside it."""
    engine = WATCHED / f"{model.stem}.dje"
    command = [TOOL, "build", model, "-o", engine, "--device", session.device, "--no-tune", *options]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=session.env, timeout=120)
    if done.returncode != 0:
        return None
    engine.with_suffix(".json").write_text(json.dumps({"shapes": shapes_of(model, sizes)}))
    return engine


def reports_of(text: str) -> int | None:
    """What a tool reported, by its summary; None when it never came to one."""
    found = re.findall(r"(?:ERROR SUMMARY: (\d+) errors?|RACECHECK SUMMARY: (\d+) hazards?)", text)
    return sum(int(number) for pair in found for number in pair if number) if found else None


def sanitizer(session: Session) -> None:
    """compute-sanitizer's four tools over generated kernels; each engine runs step by step, then as a graph."""
    program = find_program("compute-sanitizer")
    if not program:
        return session.finish("sanitizer", False, summary="compute-sanitizer is not installed here")
    models_ = sanitizer_models(session)
    with ThreadPoolExecutor(min(12, os.cpu_count() or 1)) as pool:
        engines = [b for b in pool.map(lambda m: build_watched(session, *m), models_) if b]
    counts: dict = {}
    kernels = 0
    for number, tool in enumerate(TOOLS):
        limit = session.left_s("sanitizer") / (len(TOOLS) - number)
        command = [program, "--tool", tool, "--print-limit", "20"]
        command += [
            sys.executable,
            TESTS / "run_engines.py",
            "--runs",
            "3",
            "--seconds",
            f"{0.7 * limit:.0f}",
            *engines,
        ]
        code, text = session.run("sanitizer", command, limit)
        ran = re.search(r"with (\d+) generated kernels ran", text)
        kernels = int(ran[1]) if ran else 0
        counts[tool] = {"reports": reports_of(text), "exit_code": code, "kernels": kernels}
        print(f"  {tool}: {counts[tool]}", flush=True)
    ok = all(c["reports"] == 0 and c["exit_code"] == 0 and c["kernels"] >= KERNELS for c in counts.values())
    summary = f"{kernels} kernels of {len(engines)} engines; " + ", ".join(
        f"{t} {c['reports']}" for t, c in counts.items()
    )
    session.finish(
        "sanitizer", ok, summary=summary, tools=counts, engines=len(engines), not_built=len(models_) - len(engines)
    )
