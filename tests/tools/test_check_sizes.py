"""The size and text check accepts the project as it is and catches each kind of violation."""

import check_sizes


def test_the_project_follows_its_rules():
    problems, _ = check_sizes.find_problems()
    assert problems == []


def test_a_monster_file_fails_and_a_long_one_warns():
    assert check_sizes.check_file("src/a.cpp", b"x\n" * 400) == ([], [])
    assert check_sizes.check_file("src/a.cpp", b"x\n" * 401) == ([], ["src/a.cpp: 401 lines, long (over 400)"])
    problems, _ = check_sizes.check_file("src/a.cpp", b"x\n" * 801)
    assert problems == ["src/a.cpp: 801 lines, more than 800; split it by meaning"]


def test_an_allowed_long_file_prints_its_reason(monkeypatch):
    monkeypatch.setitem(check_sizes.ALLOWED_LONG, "src/a.cpp", "one table")
    assert check_sizes.check_file("src/a.cpp", b"x\n" * 801) == ([], ["src/a.cpp: 801 lines, allowed: one table"])


def test_sources_are_ascii():
    problems, _ = check_sizes.check_file("src/a.h", "// gr\u00f6\u00dfe\n".encode())
    assert problems == ["src/a.h:1: not ASCII"]


def test_machine_paths_are_caught_but_project_paths_are_not():
    place = "/".join(["", "work", "main", "x"])
    problems, _ = check_sizes.check_file("docs/a.md", f"see {place}\n".encode())
    assert len(problems) == 1
    assert check_sizes.check_file("docs/a.md", b"see src/work/main and a/root/b\n") == ([], [])


def test_a_crowded_folder_warns(tmp_path):
    for i in range(26):
        (tmp_path / f"f{i}.cpp").write_text("")
    assert check_sizes.find_problems(tmp_path) == ([], ["./: 26 files, over 25; split it by family"])
