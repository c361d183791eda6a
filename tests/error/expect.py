"""What every error test asks: the right code and name, one line that names the culprit, and within a second."""

import os
import re
import time
from pathlib import Path

import deepjit
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 1.0


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
