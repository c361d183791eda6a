"""pip install of this checkout: the wheel holds the module alone, and it finds oneDNN in its environment."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import deepjit
import numpy as np
import pytest
from small_models import conv_relu, image, reference

ROOT = Path(__file__).resolve().parents[2]

USE = """
import sys
import numpy as np
import deepjit
assert deepjit.__file__.startswith(sys.prefix), deepjit.__file__
engine = deepjit.build(sys.argv[1])
np.save(sys.argv[3], engine.run({"x": np.load(sys.argv[2])})["y"])
print(deepjit.__version__)
"""


def run(*command, **options) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def same_settings() -> list[str]:
    """The settings of the build deepjit is imported from: its compiler commands have filled the compiler cache."""
    cache = Path(deepjit.__file__).resolve().parents[2] / "CMakeCache.txt"
    text = cache.read_text() if cache.exists() else ""
    found = re.findall(r"^(DEEPJIT_VENV|CMAKE_C(?:XX)?_COMPILER(?:_LAUNCHER)?):\w+=(.+)$", text, re.MULTILINE)
    return [word for name, value in found for word in ("-C", f"cmake.define.{name}={value}")]


# It compiles the whole project once more: minutes, unless the compiler cache serves.
if os.environ.get("DEEPJIT_TEST_WHEEL") != "1":
    pytest.skip("set DEEPJIT_TEST_WHEEL=1 to build and install the wheel", allow_module_level=True)


def clean_environment() -> dict:
    """Without the build folder's deepjit."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built with the tools of this environment.

    The build folder lies as deep as build/dev and has the same settings, so that the compiler cache serves both.
    """
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder]
    command += ["-C", f"build-dir={ROOT / '.cache' / 'wheel-build'}", *same_settings(), ROOT]
    run(*command, env=clean_environment(), timeout=1500)
    (made,) = folder.glob("deepjit-*.whl")
    return made


def test_contents(wheel):
    names = [n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n]
    assert {n for n in names if n.endswith(".py")} == {"deepjit/__init__.py", "deepjit/_error.py"}
    assert [n for n in names if not n.endswith(".py")] == [n for n in names if n.startswith("deepjit/_core.")]


def test_installed_module_works(wheel, tmp_path):
    """In an environment of its own; NumPy and oneDNN are the ones of this environment, linked into it."""
    environment = tmp_path / "env"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    (packages,) = environment.glob("lib/python3*/site-packages")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", packages, wheel)
    for package in ("numpy", "numpy.libs"):
        (packages / package).symlink_to(Path(np.__file__).parents[1] / package)
    for library in Path(sys.prefix).glob("lib/libdnnl.so*"):
        (environment / "lib" / library.name).symlink_to(library)
    (tmp_path / "m.onnx").write_bytes(conv_relu().SerializeToString())
    np.save(tmp_path / "x.npy", image())
    files = [tmp_path / name for name in ("m.onnx", "x.npy", "y.npy")]
    printed = run(environment / "bin" / "python", "-c", USE, *files, env=clean_environment(), cwd=tmp_path)
    assert printed.count(".") == 2
    want = reference(conv_relu(), {"x": image()})["y"]
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, rtol=1e-5, atol=1e-5)
