"""What every error test asks: the right code and name, one line that names the culprit, within a second, in bounded
memory."""

import os
import re
import time
from pathlib import Path

import deepjit
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 1.0
MIB = 2**20


def error_names() -> dict[int, str]:
    """Number to name, from the one table in the sources."""
    table = (ROOT / "src" / "base" / "error.h").read_text()
    return {int(number): name for number, name in re.findall(r"X\((\d+), (\w+),", table)}


NAMES = error_names()


def error_of(action) -> "deepjit.Error":
    """The error `action` gives; it must be a deepjit.Error, raised within the time limit."""
    start = time.perf_counter()
    with pytest.raises(deepjit.Error) as caught:
        action()
    seconds = time.perf_counter() - start
    assert seconds < LIMIT_S, f"took {seconds:.2f} s"
    return caught.value


def expect(code: int, action, *words: str) -> None:
    error = error_of(action)
    assert (error.code, error.name) == (code, NAMES[code]), str(error)
    assert error.message and "\n" not in error.message, repr(error.message)
    for word in words:
        assert word in error.message, f"{word!r} is not in {error.message!r}"


def resident_bytes() -> int:
    """Memory of this process that is in RAM now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_growth(action) -> int:
    """How much more memory than before was in RAM at the worst moment of `action`."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = resident_bytes()
    action()
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024 - before


def expect_bounded(code: int, action, *words: str, mib: int = 200) -> None:
    """Like expect, and no more than `mib` MiB at any moment."""
    growth = peak_growth(lambda: expect(code, action, *words))
    assert growth < mib * MIB, f"took {growth / MIB:.0f} MiB"


def expect_no_leak(action, mib: int = 4) -> None:
    """200 times `action`, after some to warm up, leave memory as it was."""
    for _ in range(20):
        action()
    before = resident_bytes()
    for _ in range(200):
        action()
    assert (resident_bytes() - before) / MIB < mib
