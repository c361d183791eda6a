"""Writes the documents that are made from the code: docs/errors.md from src/base/error.h, docs/limits.md from
src/base/limits.h, docs/options.md from the table in cli/build_flags.cpp, docs/doctor.md from src/doctor/rules.cpp,
docs/why.md from src/program/why.h.

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


STRING = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'  # literals that follow each other are one
OPTION = re.compile(rf'\{{"(-[^"]+)", "([^"]*)", "([^"]*)",\s*{STRING},\s*(true|false)\}}')
OPTIONS_HEADER = """\
# Build options

Made by tools/gen_docs.py from the table in cli/build_flags.cpp; do not edit by hand.

Every verb that takes an ONNX model (build, run, bench, profile, inspect, compare) has these options; `--stop-after`
belongs to build alone. The last column says whether the option can change the engine's bytes.

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

Exit codes: 0 success; 1 `compare` found a difference; 2 an error, told in one line on stderr and a hint line after it;
`doctor` has its own, see doctor.md.
"""


def options_page(source: str) -> str:
    page = OPTIONS_HEADER
    for flag, argument, default, doc, changes in OPTION.findall(source):
        name = f"{flag} {argument}".strip()
        page += f"| `{name}` | {default} | {joined(doc)} | {'yes' if changes == 'true' else 'no'} |\n"
    return page + OPTIONS_FOOTER


RULE = re.compile(
    rf'\{{"(DJ\d+)",\s*"([\w-]+)",\s*Severity::(\w+),\s*{STRING},\s*{STRING},\s*{STRING},\s*(\w+),\s*(true|false)\}}'
)
FAMILIES = {
    "DJ1": "Export",
    "DJ2": "Layout",
    "DJ3": "Numbers",
    "DJ4": "Weights",
    "DJ5": "Quantization",
    "DJ6": "TensorRT settings",
    "DJ7": "ONNX Runtime settings",
}
DOCTOR_HEADER = """\
# deepjit doctor

Made by tools/gen_docs.py from the table in src/doctor/rules.cpp; do not edit by hand.

```
deepjit doctor m.onnx                                 # what is wrong, where, why it hurts, what to do
deepjit doctor m.onnx --fix mended.onnx               # mends what can be mended, and proves it
deepjit doctor m.onnx --trtexec "trtexec --int8 ..."  # together with how it is going to be built
deepjit doctor m.onnx --settings session.json --traffic x=1x3x224x224,x=8x3x640x640
deepjit doctor m.onnx --measure                       # builds it for the CPU and times the nodes of each finding
deepjit doctor m.onnx --json                          # one object on stdout; --sarif FILE writes SARIF 2.1.0
```

Rules look at structure and inferred shapes, never at names. In Python: `deepjit.doctor("m.onnx")`, a list of findings.

**Exit codes.** 0: nothing as bad as `--fail-on` (default: warning); 1: warnings, or notes with `--fail-on note`; 3:
errors; 2: the program itself failed (no such file, no ONNX model, bad option). With `--fix` the code is about what is
left. `--ignore RULE` leaves a rule out.

**A finding** in JSON has `rule`, `name`, `severity`, `title`, `node`, `op`, `value` (null where it is about none),
`message`, `why`, `hint`, `cost` (`nodes`, `bytes`, and `time_us` with `--measure`) and `fixable`. It may be milder
than its rule where nobody could have done better.

**--fix** applies every mend, then builds both models for the CPU and runs them on random inputs. The mended model must
give the same bits where only structure changed, and equal results within 1e-5 (of each output's largest value) where a
formula was replaced or passes ran; a freed batch must give for two batches at once what each gives alone. Otherwise
nothing is written, and the reason is told. Mends that change results on purpose (DJ111, DJ112, DJ143) come first; the
proof starts after them.

**Settings** are a trtexec command line (`--trtexec`, or a text file) or JSON with the tools' own option names; other
options are passed over:

```json
{
  "tensorrt": {
    "int8": true, "fp16": false, "best": false, "stronglyTyped": false, "calib": "calib.cache",
    "minShapes": {"x": [1, 3, 224, 224]}, "optShapes": "x:8x3x224x224", "maxShapes": "x:32x3x224x224",
    "memPoolSize": "workspace:512M", "threads": 4, "execution_contexts": 4
  },
  "onnxruntime": {
    "providers": ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"],
    "graph_optimization_level": "ORT_ENABLE_ALL", "optimized_model_filepath": "",
    "threads_sharing_session": 1, "threads_sharing_io_binding": 1
  }
}
```

`threads` and `execution_contexts` say how many threads use the engine at once and how many contexts they share;
`threads_sharing_session` and `threads_sharing_io_binding` say the same of ONNX Runtime's objects. `workspace` alone and
numbers without a unit are MiB. A name that comes again in `--traffic` starts the next request.
"""


def joined(literals: str) -> str:
    """Adjacent C++ string literals as one text."""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals)).replace('\\"', '"')


def doctor_page(source: str) -> str:
    page = DOCTOR_HEADER
    family = None
    for rule, name, severity, title, why, fix, _, fixable in RULE.findall(source):
        if rule[:3] != family:
            family = rule[:3]
            page += f"\n## {FAMILIES[family]}\n"
        page += f"\n### {rule} {name}\n\n{severity.lower()}{', mended by --fix' if fixable == 'true' else ''}: "
        page += f"{joined(title)}. {joined(why)} **Fix:** {joined(fix)}\n"
    return page


LIMIT = re.compile(r'\bX\("(\w+)", (\w+), (\d+), "([^"]+)", (\w+),[\s\\]*"((?:[^"\\]|\\.)*)"\)')
LIMITS_HEADER = """\
# Limits

Made by tools/gen_docs.py from the table in src/base/limits.h; do not edit by hand. `deepjit limits` prints it.

What goes past a limit gets the error of its row. Where no error stands, nothing fails: the work is left for run time,
or done again.

| stage | limit | value | error | why |
| --- | --- | --- | --- | --- |
"""


def limits_page(header: str) -> str:
    page = LIMITS_HEADER
    for stage, name, value, unit, error, why in LIMIT.findall(header):
        page += f"| {stage} | {name} | {int(value):,} {unit} | {'' if error == 'OK' else error} | {why} |\n"
    return page


WHY = re.compile(rf'\bX\((\w+), "([\w-]+)",[\s\\]*{STRING},[\s\\]*{STRING}\)')
WHY_HEADER = """\
# The why-ledger

Made by tools/gen_docs.py from the table in src/program/why.h; do not edit by hand.

A value that goes from one kernel to another is written to memory and read back. The ledger has one entry for each such
edge, the largest first:

```
deepjit inspect m.onnx --why             # or an engine: it holds its ledger
deepjit inspect m.dje --why --json       # "ledger": a list of objects
```

In Python: `engine.why()`, a list of dicts; in C++: `Engine::why()`.

An entry names the **value** and its type; the **producer** that writes it and the **consumer** that reads it (views
that cost nothing are looked through; a body of an If, Loop or Scan counts as its node); the **rule** that keeps the
edge, a name that is stable; the **reason** in words, with this edge's own dims, types and nodes; what it **costs**:
bytes written and read, as an expression over the inputs' dims and as a number at the shapes that were tuned for, and
launches; and the smallest change that would **lift** it.

A value that is written in any case (an output, or one that an earlier entry counts) costs only its reading. A launch is
counted at the first edge between two kernels; kernels that share a launch anyway count none, and the reason says so.
What is known when shapes are bound (sizes, axes) moves no data and is no edge. An empty ledger means that every edge
between two operators is inside a kernel.

Edges inside a region that runs step by step are in the ledger too: the tuner took its steps (`not-faster`), found its
kernel wrong (`kernel-wrong`), or measured nothing. `deepjit inspect` shows such a region as "step by step".

| rule | what it says | what lifts it |
| --- | --- | --- |
"""


def why_page(header: str) -> str:
    page = WHY_HEADER
    for _, rule, sentence, fix in WHY.findall(header):
        page += f"| `{rule}` | {joined(sentence)} | {joined(fix)} |\n"
    return page


def pages() -> dict[str, str]:
    """Path -> text of every made document."""
    return {
        "docs/errors.md": errors_page((ROOT / "src/base/error.h").read_text()),
        "docs/limits.md": limits_page((ROOT / "src/base/limits.h").read_text()),
        "docs/options.md": options_page((ROOT / "cli/build_flags.cpp").read_text()),
        "docs/why.md": why_page((ROOT / "src/program/why.h").read_text()),
        "docs/doctor.md": doctor_page((ROOT / "src/doctor/rules.cpp").read_text()),
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
