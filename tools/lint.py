"""All static checks in one go: lint.py [--fix] [--base REF]

Each check prints one line with its time; findings follow it. Exit code 1 when any check fails. --fix rewrites what
clang-format and ruff can mend. clang-tidy looks only at lines changed since REF (default: the last commit).
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import check_includes
import check_sizes
from repo import ROOT, git, project_files

CPP = {".cpp", ".h", ".cc", ".hpp"}
TIDY_FOLDERS = {"src", "cli", "include", "python"}
TIDY_BUDGET_S = 100
TIDY_JOBS = min(2, os.cpu_count() or 1)


def run(command: list[str]) -> tuple[bool, str]:
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return False, f"{command[0]} is not installed; run ./dev setup"
    return done.returncode == 0, (done.stdout + done.stderr).strip()


def cpp_files() -> list[str]:
    return [str(file) for file in project_files() if file.suffix in CPP]


def clang_format(fix: bool) -> tuple[bool, str]:
    files = cpp_files()
    if not files:
        return True, ""
    mode = ["-i"] if fix else ["--dry-run", "-Werror"]
    ok, text = run(["clang-format", *mode, *files])
    wrong = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", text, re.MULTILINE)))
    if wrong:
        text = "not formatted (mend with ./dev lint --fix):\n" + "\n".join(wrong)
    return ok, text


def ruff(fix: bool) -> tuple[bool, str]:
    check = [sys.executable, "-m", "ruff", "check", "--quiet", "--output-format=concise", "."]
    form = [sys.executable, "-m", "ruff", "format", "--quiet", "."]
    ok, text = run(check + (["--fix"] if fix else []))
    format_ok, format_text = run(form if fix else [*form, "--diff"])
    if not format_ok:
        wrong = re.findall(r"^--- (\S+)", format_text, re.MULTILINE)
        text += "\nnot formatted (mend with ./dev lint --fix): " + (" ".join(wrong) or format_text)
    return ok and format_ok, text.strip()


def codespell(_: bool) -> tuple[bool, str]:
    names = [str(file) for file in project_files() if file.name != "LICENSE"]
    return run([sys.executable, "-m", "codespell_lib", *names])


def changed_lines(base: str) -> dict[str, list[list[int]]]:
    """file -> [[first, last], ...] of lines added or changed since base."""
    diff = git("diff", "--unified=0", "--no-color", "--diff-filter=AM", base, "--") or ""
    lines: dict[str, list[list[int]]] = {}
    current = ""
    for line in diff.splitlines():
        if line.startswith("+++ b/"):
            current = line[6:]
        elif match := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(match[1]), int(match[2] or 1)
            if count:
                lines.setdefault(current, []).append([first, first + count - 1])
    return lines


def tidy_sources(lines: dict[str, list[list[int]]], database: Path) -> list[str]:
    """The changed sources that the build compiles; headers are checked through the changed sources."""
    known = {entry["file"] for entry in json.loads(database.read_text())}
    names = [name for name in lines if Path(name).parts[0] in TIDY_FOLDERS and Path(name).suffix == ".cpp"]
    return [name for name in names if str(ROOT / name) in known]


def without_precompiled(database: Path) -> Path:
    """A copy of the compile commands that clang can take: without the compiler's precompiled headers."""
    entries = json.loads(database.read_text())
    for entry in entries:
        entry["command"] = re.sub(r" (-Winvalid-pch|-fpch-preprocess|-include \S*cmake_pch\S*)", "", entry["command"])
    copy = ROOT / "build" / "tidy" / database.name
    copy.parent.mkdir(exist_ok=True)
    copy.write_text(json.dumps(entries))
    return copy


def run_tidy(files: list[str], line_filter: str, database: Path) -> tuple[bool, str, int]:
    """Runs clang-tidy file by file within the time budget; (no errors, findings, files looked at)."""
    deadline = time.monotonic() + TIDY_BUDGET_S
    waiting, running, findings, looked, ok = list(files), [], [], 0, True
    base = ["clang-tidy", "--quiet", f"-p={database.parent}", f"-line-filter={line_filter}"]
    while waiting or running:
        while waiting and len(running) < TIDY_JOBS and time.monotonic() < deadline:
            command = [*base, waiting.pop(0)]
            running.append(
                subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            )
        if not running:
            break
        process = running.pop(0)
        try:
            output, _ = process.communicate(timeout=max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            waiting = []
            continue
        looked += 1
        ok = ok and process.returncode == 0
        if process.returncode != 0 or "warning:" in output:
            findings.append(output.strip() or f"clang-tidy failed on {process.args[-1]}")
    return ok, "\n".join(findings), looked


def clang_tidy(base: str) -> tuple[bool, str]:
    database = ROOT / "build" / "dev" / "compile_commands.json"
    if not database.is_file():
        return True, "skipped: build/dev/compile_commands.json is not there; run ./dev build first"
    database = without_precompiled(database)
    if not shutil.which("clang-tidy"):
        return True, "skipped: clang-tidy is not installed; run ./dev setup"
    if git("rev-parse", "--verify", "--quiet", base) is None:
        return True, f"skipped: no git history with {base} here"
    lines = changed_lines(base)
    files = tidy_sources(lines, database)
    if not files:
        return True, "no changed sources"
    spec = json.dumps([{"name": name, "lines": lines[name]} for name in lines if Path(name).suffix in CPP])
    ok, text, looked = run_tidy(files, spec, database)
    note = f"{looked} of {len(files)} changed sources" + (" (time budget reached)" if looked < len(files) else "")
    return ok, f"{note}\n{text}".strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fix", action="store_true", help="rewrite what can be mended by itself")
    parser.add_argument("--base", default="HEAD~1", help="clang-tidy looks at lines changed since this commit")
    args = parser.parse_args()
    checks = {
        "clang-format": lambda: clang_format(args.fix),
        "include directions": check_includes.check,
        "file sizes and text": check_sizes.check,
        "ruff": lambda: ruff(args.fix),
        "codespell": lambda: codespell(args.fix),
        "clang-tidy": lambda: clang_tidy(args.base),
    }
    failed = []
    for name, check in checks.items():
        start = time.monotonic()
        ok, text = check()
        print(f"  {'ok  ' if ok else 'FAIL'} {name} ({time.monotonic() - start:.1f} s)", file=sys.stderr)
        if text:
            print("\n".join("    " + line for line in text.splitlines()), file=sys.stderr, flush=True)
        if not ok:
            failed.append(name)
    if failed:
        print(f"lint: {', '.join(failed)} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
