"""Child processes: one that answers over a pipe and is replaced when it dies or hangs, one that is killed at work."""

import multiprocessing
import signal
import subprocess


class Child:
    """Runs serve(connection) in a process of its own."""

    def __init__(self, serve):
        self.serve = serve
        self.start()

    def start(self):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=self.serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def cause_of_death(self) -> str:
        """How it ended, once its end of the pipe is closed: a signal's name or the exit code."""
        self.process.join()
        code = self.process.exitcode or 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def kill(self):
        self.process.kill()
        self.process.join()

    def close(self):
        self.connection.send(None)
        self.process.join(10)
        if self.process.is_alive():
            self.process.kill()


def kill_once_told(command: list, text: str, times: int, **options) -> tuple[int, int]:
    """Kills a program once so many lines of its stderr have the text; returns how many had it, and the exit code."""
    process = subprocess.Popen([str(c) for c in command], stderr=subprocess.PIPE, text=True, **options)
    told = 0
    for line in process.stderr:
        told += text in line
        if told == times:
            break
    process.send_signal(signal.SIGKILL)
    return told, process.wait()
