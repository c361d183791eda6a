"""The fusion tests' models as CUDA kernels, without a GPU.

Every kernel that is offered for them is compiled by the host's compiler under cuda_emulation.h and run against the
reference, on random data and on special values; and by NVRTC for all architectures.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PROGRAM = TESTS.parent / "build" / "dev" / "tests" / "deepjit_cuda_models"
sys.path.insert(0, str(TESTS / "gpu"))

from export_cases import export  # noqa: E402

TIMEOUT_S = 900
PARTS = 2  # processes that share the cases


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("cases")
    export(folder)
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} is missing (build it with ./dev build)", pytrace=False)
    command = [PROGRAM, folder]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([*command, str(part), str(PARTS)], **pipes) for part in range(PARTS)]
    cases, ends = [], []
    for process in started:
        stdout, stderr = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, stdout[-2000:] + stderr[-4000:]
        *own, end = [json.loads(line) for line in stdout.splitlines()]
        cases += own
        ends.append(end)
    totals = {"all": sum(end["all"] for end in ends), "nvrtc": all(end["nvrtc"] for end in ends)}
    return {"cases": cases, "known": known_faults(folder), **totals}


def known_faults(folder: Path) -> set[str]:
    return {case["name"] for case in json.loads((folder / "cases.json").read_text())["cases"] if case["known_fault"]}


def test_kernels_agree_with_the_reference(results):
    faults = {
        case["name"]: [*case["faults"][:3], case.get("text", "")]
        for case in results["cases"]
        if case["faults"] and case["name"] not in results["known"]
    }
    assert not faults, "\n\n".join(f"{name}: " + "\n".join(told) for name, told in faults.items())


def test_every_model_has_kernels(results):
    assert [case["name"] for case in results["cases"] if case["kernels"] == 0] == []
    assert results["all"] > 100


def test_kernels_that_share_launches_are_among_them(results):
    assert sum(case["combos"] for case in results["cases"]) >= 10


def test_nvrtc_takes_them_for_every_architecture(results):
    if not results["nvrtc"]:
        pytest.skip("NVRTC is not installed (pip install nvidia-cuda-nvrtc)")
