"""No pure function that reads a caller's text takes the square of its length.

Steps of a regular expression cannot be counted from Python, and a ratio of two short times is noise on a busy machine.
So a process of its own calls every function with hostile texts, and a timer of the CPU time that it uses itself, not of
the clock, ends it in a call that takes far more than linear work can: at 32 KiB, linear functions took at most 0.1 s
here, those that were quadratic from 3 s to minutes, and may take 1 s; at 16 KiB, a half and a quarter of that, and may
take 0.25 s. The deep profile tries 32 KiB, MNEMA_TEST_TEXT_BYTES any length; all texts as one are 32 times as long.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.effort import DEEP

USUAL, LONG = 1 << 14, 1 << 15
BYTES = int(os.environ.get("MNEMA_TEST_TEXT_BYTES", LONG if DEEP else USUAL))
CPU_S = 0.25 if BYTES == USUAL else BYTES / LONG


def test_hostile_texts_take_linear_time() -> None:
    command = [sys.executable, "-m", "tests.adversarial", str(BYTES), str(CPU_S)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["done"], f"{done.stdout.splitlines()[-1:]} {done.stderr}"
