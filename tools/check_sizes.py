"""Checks the size and the text of the project's files.

Sources over 400 lines and folders over 25 files get a warning; sources over 800 lines fail unless ALLOWED_LONG gives a
reason, which is printed. Sources are ASCII, and no file names a path of the machine it was written on.
"""

import re
import sys
from pathlib import Path

from repo import ROOT, project_files

WARN_LINES = 400
MAX_LINES = 800
MAX_FILES = 25

# Path -> why it may be longer than MAX_LINES.
ALLOWED_LONG: dict[str, str] = {}

SOURCES = {".cpp", ".h", ".cc", ".hpp", ".py", ".cmake", ".sh"}
TEXT = SOURCES | {".md", ".txt", ".toml", ".json", ".yaml", ".yml", ".proto", ".in", ""}
# Folders of one machine: workspaces and home folders.
MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:work|root|home/\w+)/\w")


def check_file(name: str, data: bytes) -> tuple[list[str], list[str]]:
    """(problems, warnings) of one text file."""
    problems, warnings = [], []
    is_source = Path(name).suffix in SOURCES
    lines = data.decode("utf-8", errors="replace").splitlines()
    if is_source and len(lines) > MAX_LINES:
        if name in ALLOWED_LONG:
            warnings.append(f"{name}: {len(lines)} lines, allowed: {ALLOWED_LONG[name]}")
        else:
            problems.append(f"{name}: {len(lines)} lines, more than {MAX_LINES}; split it by meaning")
    elif is_source and len(lines) > WARN_LINES:
        warnings.append(f"{name}: {len(lines)} lines, long (over {WARN_LINES})")
    for number, line in enumerate(lines, 1):
        if is_source and not line.isascii():
            problems.append(f"{name}:{number}: not ASCII")
        if match := MACHINE_PATH.search(line):
            problems.append(f"{name}:{number}: names a path of one machine: {line[match.start() :][:40]}")
    return problems, warnings


def check_folders(names: list[Path]) -> list[str]:
    counts: dict[Path, int] = {}
    for name in names:
        if name.suffix in SOURCES:
            counts[name.parent] = counts.get(name.parent, 0) + 1
    full = {folder: count for folder, count in counts.items() if count > MAX_FILES}
    return [f"{folder}/: {count} files, over {MAX_FILES}; split it by family" for folder, count in full.items()]


def find_problems(root: Path = ROOT) -> tuple[list[str], list[str]]:
    names = project_files(root)
    problems, warnings = [], check_folders(names)
    for name in names:
        if name.suffix in TEXT:
            found, noted = check_file(str(name), (root / name).read_bytes())
            problems += found
            warnings += noted
    return problems, warnings


def check() -> tuple[bool, str]:
    problems, warnings = find_problems()
    return not problems, "\n".join(problems + [f"warning: {text}" for text in warnings])


if __name__ == "__main__":
    ok, text = check()
    print(text or "sizes and text are fine")
    sys.exit(0 if ok else 1)
