"""Parts of gpu_test.py about the device itself and the kernels: devices, conformance, libraries, cases."""

import json

from gpu_session import TESTS, TOOL, Session


def devices(session: Session) -> None:
    """What is here, and how fast it copies."""
    code, text = session.run("devices", [TOOL, "devices", "--measure", "--json"])
    found = json.loads(text) if code == 0 else {}
    here = [d for d in found.get("devices", []) if d["found"] and d["name"].startswith(session.device)]
    session.results["devices"] = found
    summary = ", ".join(f"{d['name']} {d['model']} copies {d.get('copy_gb_s', 0):.0f} GB/s" for d in here)
    session.finish("devices", code == 0 and bool(here), exit_code=code, summary=summary or "no such device here")


def gtest(session: Session, part: str, pattern: str) -> None:
    report = session.out / f"{part}.json"
    command = [TESTS / "deepjit_gpu_tests", f"--gtest_filter={pattern}", f"--gtest_output=json:{report}"]
    code, _ = session.run(part, command)
    tests = []
    if report.exists():
        tests = [t for suite in json.loads(report.read_text())["testsuites"] for t in suite["testsuite"]]
    skipped = [t["name"] for t in tests if t.get("result") == "SKIPPED"]
    failed = [t["name"] for t in tests if t.get("failures")]
    passed = len(tests) - len(skipped) - len(failed)
    summary = f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped"
    ok = code == 0 and passed > 0
    session.finish(part, ok, exit_code=code, summary=summary, failed=failed, skipped=skipped)


def conformance(session: Session) -> None:
    """The device's promises."""
    gtest(session, "conformance", f"Kinds/*/{session.device.split(':')[0]}")


def libraries(session: Session) -> None:
    """What cuBLASLt and cuDNN offer, where they are installed."""
    gtest(session, "libraries", "LibrariesTest.*-LibrariesTest.Times*")


def cases(session: Session) -> None:
    """Every model of the fusion tests against the CPU."""
    gtest(session, "cases", "Generated.*:Cases.*")
