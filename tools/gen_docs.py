"""Writes the documents that are made from the code: docs/errors.md from src/base/error.h, docs/options.md from the
table in cli/build_flags.cpp.

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


OPTION = re.compile(r'\{"(-[^"]+)", "([^"]*)", "([^"]*)",\s*"((?:[^"\\]|\\.)*)",\s*(true|false)\}')
OPTIONS_HEADER = """\
# Build options

Made by tools/gen_docs.py from the table in cli/build_flags.cpp; do not edit by hand.

Every verb that takes an ONNX model (build, run, bench, inspect, compare) has these options; `--stop-after` belongs to
build alone. The last column says whether the option can change the engine's bytes.

| option | default | what it does | changes the engine |
| --- | --- | --- | --- |
"""
OPTIONS_FOOTER = """
Variables of the environment, for debugging:

| variable | what it does |
| --- | --- |
| DEEPJIT_DISABLE=PASS,PASS | switches passes off, as `--disable` |
| DEEPJIT_FORCE_TACTIC=TACTIC | as `--force-tactic`, which goes before it |
| DEEPJIT_DUMP=KIND,KIND | prints on stderr: import, passes, graph, program, tactics, plan |
| DEEPJIT_DUMP_DIR=FOLDER | writes the dumps to files instead |

Exit codes: 0 success; 1 `compare` found a difference; 2 an error, told in one line on stderr and a hint line after it.
"""


def options_page(source: str) -> str:
    page = OPTIONS_HEADER
    for flag, argument, default, doc, changes in OPTION.findall(source):
        name = f"{flag} {argument}".strip()
        page += f"| `{name}` | {default} | {doc} | {'yes' if changes == 'true' else 'no'} |\n"
    return page + OPTIONS_FOOTER


def pages() -> dict[str, str]:
    """Path -> text of every made document."""
    return {
        "docs/errors.md": errors_page((ROOT / "src/base/error.h").read_text()),
        "docs/options.md": options_page((ROOT / "cli/build_flags.cpp").read_text()),
    }


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
