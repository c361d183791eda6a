"""Writes the documents that are made from the code: docs/errors.md from src/base/error.h.

gen_docs.py          rewrites what is out of date
gen_docs.py --check  only says what is out of date, with exit code 1
"""

import re
import sys

from repo import ROOT

ENTRY = re.compile(r'\bX\((\d+),\s*(\w+),[\s\\]*"((?:[^"\\]|\\.)*)"\)')
GROUPS = {
    1: "the bytes of the model",
    2: "the meaning of the model",
    3: "files beside the model",
    4: "the engine file",
    5: "a run",
    6: "resources",
    7: "the device",
    8: "misuse of the interface",
    9: "our own faults",
}
HEADER = """\
# Errors

Made by tools/gen_docs.py from the table in src/base/error.h; do not edit by hand.

An error is one line, `error[E203 SHAPE_MISMATCH]: message`, then a hint line when there is something to do about it.
The numbers and names are stable. In Python every error is a `deepjit.Error` with `.code` (203) and `.name`
("SHAPE_MISMATCH"); in the C ABI the number is the return value.
"""


def errors_page(header: str) -> str:
    page = HEADER
    group = None
    for number, name, meaning in ENTRY.findall(header):
        if int(number) // 100 != group:
            group = int(number) // 100
            page += f"\n## {group}xx: {GROUPS[group]}\n\n| code | name | meaning |\n| --- | --- | --- |\n"
        page += f"| E{number} | {name} | {meaning} |\n"
    return page


def pages() -> dict[str, str]:
    """Path -> text of every made document."""
    return {"docs/errors.md": errors_page((ROOT / "src/base/error.h").read_text())}


def out_of_date() -> list[str]:
    current = {name: (ROOT / name).read_text() if (ROOT / name).exists() else None for name in pages()}
    return [name for name, text in pages().items() if current[name] != text]


def main(arguments: list[str]) -> int:
    stale = out_of_date()
    if "--check" in arguments:
        for name in stale:
            print(f"{name} is out of date; run: ./dev python tools/gen_docs.py", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        (ROOT / name).write_text(pages()[name])
        print(f"wrote {name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
