"""The documents made from the code are up to date."""

import re

import gen_docs
from repo import project_files


def test_made_documents_are_up_to_date():
    assert gen_docs.out_of_date() == [], "run: ./dev python tools/gen_docs.py"


def test_every_error_of_the_table_has_a_row():
    header = (gen_docs.ROOT / "src/base/error.h").read_text()
    entries = gen_docs.ENTRY.findall(header)
    assert len(entries) == len(re.findall(r"\bX\(\d", header))
    page = gen_docs.errors_page(header)
    for number, name, _ in entries:
        assert f"| E{number} | {name} |" in page


def test_error_numbers_are_unique():
    numbers = [number for number, _, _ in gen_docs.ENTRY.findall((gen_docs.ROOT / "src/base/error.h").read_text())]
    assert len(numbers) == len(set(numbers))


def test_links_between_documents_lead_somewhere():
    broken = []
    for page in (file for file in project_files() if file.suffix == ".md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (gen_docs.ROOT / page).read_text()):
            if not (gen_docs.ROOT / page.parent / target).exists():
                broken.append(f"{page}: {target}")
    assert broken == []


def test_every_option_of_the_table_has_a_row():
    source = (gen_docs.ROOT / "cli/build_flags.cpp").read_text()
    page = gen_docs.options_page(source)
    flags = re.findall(r'^ +\{"(-[^"]+)"', source, re.MULTILINE)
    assert len(flags) >= 13
    for flag in flags:
        assert re.search(rf"^\| `{flag}[ `]", page, re.MULTILINE), flag


def test_every_limit_of_the_table_has_a_row():
    header = (gen_docs.ROOT / "src/base/limits.h").read_text()
    rows = re.findall(r'^  X\("', header, re.MULTILINE)
    assert len(rows) >= 20
    assert gen_docs.limits_page(header).count("\n| ") == len(rows) + 2
