"""Linear time of the pure functions that read a caller's text.

Python cannot count the steps of a regular expression, and a ratio of two short times is noise on a busy machine. So a
separate process calls every function with hostile texts. A timer of its own CPU time ends a call that takes far longer
than linear work. At 32 KiB, linear functions took at most 0.1 s and may take 1 s; quadratic ones took 3 s to minutes.
At 16 KiB, linear functions took half of that, quadratic ones a quarter, and a call may take 0.25 s. The deep profile
tries 32 KiB; MNEMA_TEST_TEXT_BYTES sets any length. All texts as one are 32 times as long.
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
