"""What the parts of gpu_test.py share: commands under a time limit with a log for each part, and the results."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
TOOL = ROOT / "bin/deepjit"
sys.path.insert(0, str(ROOT / "tools"))

import child_process  # noqa: E402, F401  (for the parts)
import native  # noqa: E402


class Session:
    def __init__(self, out: Path, device: str, limits_s: dict[str, int]):
        self.out, self.device, self.limits_s = out.resolve(), device, limits_s
        self.results: dict = {"parts": {}}
        out.mkdir(parents=True, exist_ok=True)
        self.env = dict(os.environ)
        if folders := native.cuda_folders():
            self.env.setdefault("DEEPJIT_CUDA_PATH", folders)
        self.env |= {"DEEPJIT_CASES": str(TESTS / "cases"), "DEEPJIT_TEST_DEVICE": device}
        self.env |= {"DEEPJIT_LIBRARY": str(ROOT / "lib"), "PYTHONUNBUFFERED": "1"}
        self.env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "tools"), os.environ.get("PYTHONPATH")]))

    def begin(self, part: str) -> None:
        (self.out / f"{part}.log").unlink(missing_ok=True)
        self.began = time.monotonic()

    def left_s(self, part: str) -> float:
        """Of the part's time."""
        return max(1.0, self.limits_s[part] - (time.monotonic() - self.began))

    def run(self, part: str, command: list, limit_s: float | None = None, **env: str) -> tuple[int, str]:
        """Exit code (124 when time was up) and stdout; all output goes to the end of PART.log."""
        with open(self.out / f"{part}.log", "a") as log, tempfile.TemporaryFile("w+") as text:
            print("$", *command, file=log, flush=True)
            words = [str(c) for c in command]
            process = subprocess.Popen(words, stdout=text, stderr=log, env=self.env | env, start_new_session=True)
            try:
                code = process.wait(timeout=limit_s or self.limits_s[part])
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # with its own children
                process.wait()
                code = 124
            text.seek(0)
            stdout = text.read()
            log.write(stdout)
        return code, stdout

    def finish(self, part: str, ok: bool, **facts) -> None:
        self.results["parts"][part] = {"ok": ok, **facts}
        (self.out / "results.json").write_text(json.dumps(self.results, indent=1))
        print(f"{part}: {'ok' if ok else 'FAILED'} {facts.get('summary', '')}", flush=True)
