"""The lock of the watch: one process of a worker watches, and another takes over from one that is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

FORKS = """
import os, sys, threading, time
from workers import watcher
watcher.AGAIN_S = 0.1
class Told:
    def run_on_loop(self, work):
        print(os.getpid(), flush=True)
        time.sleep(60)
made = watcher.Watcher(Told())
pids = []
for _ in range(3):
    if not (pid := os.fork()):
        made.start()
        time.sleep(60)
        os._exit(0)
    pids.append(pid)
print(*pids, flush=True)
time.sleep(60)
"""


def test_one_process_watches_and_another_takes_over(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKS]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(tmp_path)}
    ) as one:
        assert one.stdout is not None
        lines = iter(one.stdout.readline, "")
        told = [next(lines).split(), next(lines).split()]
        pids = max(told, key=len)
        [watching] = min(told, key=len)
        try:
            assert watching in pids
            os.kill(int(watching), signal.SIGKILL)
            [heir] = next(lines).split()
            assert heir in set(pids) - {watching}
            assert list(tmp_path.iterdir()) == []
        finally:
            for pid in pids:
                os.kill(int(pid), signal.SIGKILL)
            one.kill()
