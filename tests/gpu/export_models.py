"""Packs the real models for a machine that they must be carried to in parts, and unpacks them there.

export_models.py FOLDER [MODEL...] [--most 34]     FOLDER/1, FOLDER/2, ...: each at most that many MiB
export_models.py --unpack FOLDER TO                whatever parts of FOLDER are there; TO is as tools/models.py has it

Each model is one xz file, or several pieces MODEL.xz.0of3, MODEL.xz.1of3, ... where it is larger than a part.
"""

import argparse
import lzma
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
for tools in (HERE.parent / "tools", HERE.parents[1] / "tools"):
    sys.path.insert(0, str(tools))

import models  # noqa: E402


def pieces_of(name: str, most: int) -> list[tuple[str, bytes]]:
    data = lzma.compress(models.path(name).read_bytes(), preset=6)
    count = -(-len(data) // most)
    size = -(-len(data) // count)
    return [(f"{name}.xz.{i}of{count}", data[i * size : (i + 1) * size]) for i in range(count)]


def pack(folder: Path, names: list[str], most: int) -> None:
    """Small models first: those that need many parts come last, and may stay behind."""
    rooms: list[int] = []
    for name in sorted(names, key=lambda n: models.path(n).stat().st_size):
        for file, data in pieces_of(name, most):
            part = next((i for i, room in enumerate(rooms) if room >= len(data)), len(rooms))
            if part == len(rooms):
                rooms.append(most)
            rooms[part] -= len(data)
            place = folder / str(part + 1)
            place.mkdir(parents=True, exist_ok=True)
            (place / file).write_bytes(data)
            print(f"{place / file}: {len(data) / 2**20:.1f} MiB", flush=True)


def unpack(folder: Path, to: Path) -> None:
    found: dict[str, dict[int, Path]] = {}
    counts = {}
    for path in folder.rglob("*.xz.*"):
        if match := re.fullmatch(r"(\w+)\.xz\.(\d+)of(\d+)", path.name):
            found.setdefault(match[1], {})[int(match[2])] = path
            counts[match[1]] = int(match[3])
    for name, pieces in sorted(found.items()):
        if len(pieces) < counts[name]:
            print(f"{name}: {len(pieces)} of {counts[name]} pieces, left out")
            continue
        target = to / models.MODELS[name].member
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(lzma.decompress(b"".join(pieces[i].read_bytes() for i in range(counts[name]))))
        print(f"{target}: {target.stat().st_size / 2**20:.1f} MiB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="MODEL")
    parser.add_argument("--most", type=float, default=34, help="MiB of a part")
    parser.add_argument("--unpack", action="store_true")
    args = parser.parse_args()
    if args.unpack:
        unpack(args.folder, Path(args.names[0]))
    else:
        pack(args.folder, args.names or list(models.MODELS), int(args.most * 2**20))
    return 0


if __name__ == "__main__":
    sys.exit(main())
