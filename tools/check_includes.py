"""Checks who includes whom: the direction rules of docs/design.md, as tables.

1. ALLOWED: the folders ("rooms") each room of src/ may include, besides itself.
2. No two folders of src/ include each other.
3. The runtime library reaches, through any chain of includes, nothing but its own rooms: no graph code, no compiler
   stage, no protobuf.
4. A kernel's launch files never include its offer files.
5. VENDOR: headers of third-party libraries appear only in the folders made for them.
"""

import re
import sys
from fnmatch import fnmatch
from pathlib import Path

from repo import ROOT, project_files

# Room -> rooms it may include. A room is a folder of src/, or a part of one that has rules of its own.
ALLOWED = {
    "base": set(),
    "ops": {"base"},
    "program": {"base"},
    "device": {"base"},
    "graph": {"base", "ops"},
    "engine": {"base", "ops", "program"},  # format.h, the reader and the writer: the runtime links the first two
    "import": {"base", "ops", "graph"},
    "passes": {"base", "ops", "graph"},
    "precision": {"base", "ops", "graph", "passes"},
    "lower": {"base", "ops", "graph", "program", "codegen"},
    "codegen": {"base", "program"},
    "plan": {"base"},
    "kernels": {"base", "ops", "program", "device"},
    "kernels/launch": {"base", "ops", "program", "device", "kernels"},
    "kernels/offer": {"base", "ops", "program", "device", "kernels", "kernels/launch", "codegen"},
    "tune": {"base", "ops", "program", "device", "kernels", "kernels/launch", "kernels/offer", "codegen"},
    "runtime": {"base", "ops", "program", "plan", "device", "engine", "kernels", "kernels/launch"},
    "doctor": {"base", "ops", "graph", "import", "program", "runtime", "compiler"},
    "profile": {"base", "ops", "program", "device", "engine", "runtime"},
}
# The rooms that join the stages: the build driver, and the public API over it.
FREE = {"compiler", "api"}

# Files with rules of their own -> room; the first match counts, otherwise the folder is the room.
PARTS = [
    ("kernels/*/offer*", "kernels/offer"),
    ("kernels/*/*", "kernels/launch"),
]

# What the runtime library is built from, and what it must not reach.
RUNTIME_ROOMS = {"base", "ops", "program", "plan", "device", "engine", "kernels", "kernels/launch", "runtime"}
NOT_RUNTIME = ["engine/writer*", "kernels/offer*", "kernels/*/offer*"]
RUNTIME_NEVER_HEADERS = ["google/protobuf/*", "*.pb.h", "llvm/*"]

# Third-party header patterns -> folders of the repository that may include them.
VENDOR = [
    (["cuda.h", "cuda_*.h", "cuda/*", "cupti*.h", "nvml.h", "nvtx3/*"],
     ["src/device/cuda", "src/kernels/nvrtc", "src/kernels/cublaslt", "src/kernels/cudnn"]),
    (["nvrtc.h", "nvJitLink.h"], ["src/device/cuda", "src/kernels/nvrtc", "src/codegen/cuda"]),
    (["cublas*.h"], ["src/kernels/cublaslt", "src/device/cuda"]),
    (["cudnn*.h"], ["src/kernels/cudnn", "src/device/cuda"]),
    (["dnnl*", "oneapi/dnnl/*"], ["src/kernels/onednn"]),
    (["llvm/*", "llvm-c/*"], ["src/kernels/llvm", "src/codegen/llvm"]),
    (["re2/*"], ["src/ops/text"]),
    (["google/protobuf/*", "*.pb.h", "onnx/*"], ["src/import/onnx", "src/doctor"]),
    (["NvInfer*.h"], ["integrations/tensorrt"]),
    (["onnxruntime*.h"], ["integrations/onnxruntime"]),
]  # fmt: skip

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
CPP = {".cpp", ".h", ".cc", ".hpp"}


def room_of(inside_src: str) -> str:
    """The room of a path relative to src/."""
    for pattern, room in PARTS:
        if fnmatch(inside_src, pattern):
            return room
    return inside_src.split("/")[0]


def includes_of(file: Path) -> list[str]:
    return [quoted or angled for quoted, angled in INCLUDE.findall(file.read_text(errors="replace"))]


def resolve(source: str, header: str, known: set[str]) -> str | None:
    """The path inside src/ that an include names, or None when it is not one of ours."""
    if header in known:
        return header
    beside = str(Path(source).parent / header)
    return beside if beside in known else None


def read_sources(root: Path) -> dict[str, list[str]]:
    """Path relative to root -> headers it includes, for every C++ file."""
    files = [file for file in project_files(root) if file.suffix in CPP]
    return {str(file): includes_of(root / file) for file in files}


def check_rooms(edges: dict[str, list[str]]) -> list[str]:
    problems = []
    for source, targets in edges.items():
        room = room_of(source)
        if room in FREE:
            continue
        if room not in ALLOWED:
            problems.append(f"src/{source}: folder '{room}' has no rule; add it to ALLOWED in tools/check_includes.py")
            continue
        for target in targets:
            other = room_of(target)
            if other != room and other not in ALLOWED[room]:
                allowed = ", ".join(sorted(ALLOWED[room])) or "nothing"
                problems.append(f"src/{source}: {room} may not include {target} (it may include {allowed})")
    return problems


def check_mutual(edges: dict[str, list[str]]) -> list[str]:
    example: dict[tuple[str, str], str] = {}
    for source, targets in edges.items():
        for target in targets:
            pair = (source.split("/")[0], target.split("/")[0])
            if pair[0] != pair[1]:
                example.setdefault(pair, f"src/{source} includes {target}")
    pairs = [pair for pair in example if pair < pair[::-1] and pair[::-1] in example]
    return [f"{a} and {b} include each other: {example[a, b]}; {example[b, a]}" for a, b in pairs]


def in_runtime(file: str) -> bool:
    return room_of(file) in RUNTIME_ROOMS and not any(fnmatch(file, pattern) for pattern in NOT_RUNTIME)


def check_runtime(edges: dict[str, list[str]], headers: dict[str, list[str]]) -> list[str]:
    problems = []
    chains = {file: file for file in edges if file.endswith(".cpp") and in_runtime(file)}
    waiting = list(chains)
    while waiting:
        file = waiting.pop()
        for header in headers[file]:
            if any(fnmatch(header, pattern) for pattern in RUNTIME_NEVER_HEADERS):
                problems.append(f"the runtime library reaches <{header}>: {chains[file]}")
        for target in edges[file]:
            if target in chains:
                continue
            chains[target] = f"{chains[file]} -> {target}"
            if in_runtime(target):
                waiting.append(target)
            else:
                problems.append(f"the runtime library reaches {room_of(target)}: {chains[target]}")
    return problems


def check_vendor(sources: dict[str, list[str]], own: set[str]) -> list[str]:
    problems = []
    for source, headers in sources.items():
        if source.startswith("tests/") or source.startswith("bench/"):
            continue
        for header in headers:
            if header in own:
                continue
            for patterns, folders in VENDOR:
                if not any(fnmatch(header, pattern) for pattern in patterns):
                    continue
                if not any(source.startswith(folder) for folder in folders):
                    problems.append(f"{source}: <{header}> belongs only under {', '.join(folders)}")
                break
    return problems


def find_problems(root: Path = ROOT) -> list[str]:
    sources = read_sources(root)
    headers = {name[4:]: included for name, included in sources.items() if name.startswith("src/")}
    known = set(headers)
    edges = {
        source: [target for header in included if (target := resolve(source, header, known))]
        for source, included in headers.items()
    }
    own = known | {name.removeprefix("include/") for name in sources}
    problems = check_rooms(edges) + check_mutual(edges) + check_runtime(edges, headers) + check_vendor(sources, own)
    return sorted(set(problems))


def check() -> tuple[bool, str]:
    problems = find_problems()
    return not problems, "\n".join(problems)


if __name__ == "__main__":
    ok, text = check()
    print(text or "include directions are as designed")
    sys.exit(0 if ok else 1)
