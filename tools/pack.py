"""Makes dist/deepjit from a build folder: a folder that runs on any x86-64 Linux with glibc 2.36 or newer.

pack.py BUILD_FOLDER

bin/deepjit, lib/ (libdeepjit and every library that is not glibc's), include/, python/ (for the Python that built it),
tests/ and tools/ (for gpu-test), licenses/. CUDA libraries are taken from the machine it runs on. The folder is also
written as one compressed file, which must stay under 45 MiB.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from repo import ROOT

DIST = ROOT / "dist"
TARGET = DIST / "deepjit"
ARCHIVE = DIST / "deepjit-linux-x86_64.tar.xz"
MOST_BYTES = 45 << 20
GLIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}
NEWEST_GLIBC = (2, 36)

README = """\
deepjit: compiles ONNX models into engines and runs them on the CPU or an NVIDIA GPU.

  bin/deepjit devices                      what engines can run on here, and what of CUDA was found
  bin/deepjit build m.onnx -o m.dje        --device cuda for a GPU
  bin/deepjit bench m.dje
  ./gpu-test                               tests and times this machine's GPU; --only nodes and others do more

lib/ and include/ are the C++ and C interface (lib/cmake/deepjit). python/ is the package for CPython {python}: put it
on PYTHONPATH. A GPU needs NVIDIA's driver, of CUDA 12.0 or newer; building for one also needs NVRTC, from a CUDA
toolkit or from pip's nvidia-cuda-nvrtc. licenses/ has the terms of the libraries in lib/.
"""


def say(text: str) -> None:
    print(text, file=sys.stderr)


def is_elf(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def programs() -> list[Path]:
    return [p for p in sorted(TARGET.rglob("*")) if p.is_file() and not p.is_symlink() and is_elf(p)]


def needed(path: Path) -> dict[str, str]:
    """Library -> where the loader finds it."""
    done = subprocess.run(["ldd", path], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, check=True)
    return dict(re.findall(r"^\s*(\S+) => (\S+)", done.stdout, re.MULTILINE))


def install(build: Path) -> None:
    for component, prefix in (("native", TARGET), ("gpu_tests", TARGET), ("python", TARGET / "python")):
        command = ["cmake", "--install", build, "--strip", "--component", component, "--prefix", prefix]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for source in (ROOT / "python/deepjit").glob("*.py"):
        shutil.copy(source, TARGET / "python/deepjit")


def take_libraries() -> list[str]:
    """Copies what the programs need and glibc does not have; returns the names."""
    taken = []
    for program in programs():
        for name, where in needed(program).items():
            if name in GLIBC or (TARGET / "lib" / name).exists():
                continue
            if where == "not":
                raise SystemExit(f"{program.name} needs {name}, which is not found")
            shutil.copy(Path(where).resolve(), TARGET / "lib" / name)
            take_license(Path(where))
            taken.append(name)
    return taken


def take_license(library: Path) -> None:
    for path in (library, library.resolve(), Path("/usr") / str(library).lstrip("/")):
        done = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True)
        if done.returncode == 0:
            package = done.stdout.split(":")[0]
            terms = Path("/usr/share/doc") / package / "copyright"
            if terms.exists():
                shutil.copy(terms, TARGET / "licenses" / f"{package}.txt")
            return


def check_libraries() -> list[str]:
    """What would not run elsewhere: libraries from outside, or symbols of a newer glibc."""
    problems = []
    for program in programs():
        # Libraries taken along are loaded by ours, which name all of them.
        own = "deepjit" in program.name or program.parent.name == "deepjit"
        for name, where in needed(program).items() if own else ():
            if name not in GLIBC and not Path(where).resolve().is_relative_to(TARGET):
                problems.append(f"{program.relative_to(TARGET)} takes {name} from {where}")
        symbols = subprocess.run(["objdump", "-T", program], capture_output=True, text=True).stdout
        for version in sorted(set(re.findall(r"GLIBC_(\d+)\.(\d+)", symbols))):
            if tuple(map(int, version)) > NEWEST_GLIBC:
                problems.append(f"{program.relative_to(TARGET)} needs glibc {'.'.join(version)}")
    return problems


def add_tests() -> None:
    tests = ROOT / "tests/gpu"
    env = os.environ | {"PYTHONPATH": str(TARGET / "python")}  # the packed module itself: so it is seen to import
    for script, folder in (("export_cases.py", "cases"), ("export_bench.py", "bench")):
        subprocess.run([sys.executable, tests / script, TARGET / "tests" / folder], check=True, env=env)
    for script in tests.glob("*.py"):
        if script.name not in ("export_cases.py", "export_bench.py"):  # done
            shutil.copy(script, TARGET / "tests")
    add_node_tests()
    (TARGET / "tools").mkdir()
    for tool in ("native.py", "child_process.py", "models.py", "model_feeds.py", "wide_model_feeds.py"):
        shutil.copy(ROOT / "tools" / tool, TARGET / "tools")
    start = TARGET / "gpu-test"
    start.write_text('#!/bin/sh\nexec python3 "$(dirname "$0")/tests/gpu_test.py" "$@"\n')
    start.chmod(0o755)


def add_node_tests() -> None:
    """ONNX's node tests with their recorded results, which later versions of the onnx package do not have as files."""
    import onnx

    (TARGET / "tests/nodes").mkdir()
    (TARGET / "tests/known_failures").mkdir()
    for script in ("run_nodes.py", "worker.py"):
        shutil.copy(ROOT / "tests/nodes" / script, TARGET / "tests/nodes")
    shutil.copy(ROOT / "tests/known_failures/node_tests.txt", TARGET / "tests/known_failures")
    data = Path(onnx.__file__).parent / "backend/test/data"
    archive = TARGET / "tests/node_data.tar.xz"
    subprocess.run(["tar", "-C", data, "-c", "-I", "xz -T0 -6", "-f", archive, "node"], check=True)


def write_texts() -> None:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    (TARGET / "README.txt").write_text(README.format(python=python))
    shutil.copy(ROOT / "LICENSE", TARGET / "licenses/deepjit.txt")
    site = next(Path(sys.prefix).glob("lib/python3*/site-packages"))
    for terms in site.glob("onednn_cpu_gomp-*.dist-info/**/*LICENSE*"):
        shutil.copy(terms, TARGET / "licenses" / f"onednn_{terms.name}")


def compress() -> int:
    ARCHIVE.unlink(missing_ok=True)
    subprocess.run(["tar", "-C", DIST, "-c", "-I", "xz -T0 -3", "-f", ARCHIVE, TARGET.name], check=True)
    return ARCHIVE.stat().st_size


def main(build: Path) -> int:
    shutil.rmtree(TARGET, ignore_errors=True)
    (TARGET / "licenses").mkdir(parents=True)
    install(build)
    while taken := take_libraries():
        say("taken along: " + ", ".join(taken))
    if problems := check_libraries():
        say("\n".join(problems))
        return 1
    add_tests()
    write_texts()
    size = compress()
    whole = sum(p.stat().st_size for p in TARGET.rglob("*") if p.is_file() and not p.is_symlink())
    say(f"{TARGET}: {whole / 2**20:.1f} MiB, {ARCHIVE.name}: {size / 2**20:.1f} MiB")
    if size > MOST_BYTES:
        say(f"more than {MOST_BYTES >> 20} MiB compressed")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
