"""Linear time of the pure functions that read a caller's text.

A separate process calls every function with hostile texts and measures its CPU time. The time that a machine needs says
nothing by itself: a slow call is compared with one on a quarter of the text, in the same process. The text takes four
times as long where the work is linear, and sixteen times where it is quadratic. A call that does not end is killed.
The texts have 16 KiB, in the deep profile 32 KiB; MNEMA_TEST_TEXT_BYTES sets any length. All texts as one are 32 times
as long.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adversarial import grows_too_fast
from tests.effort import DEEP

BYTES = int(os.environ.get("MNEMA_TEST_TEXT_BYTES", 1 << (15 if DEEP else 14)))


@pytest.mark.long
def test_hostile_texts_take_linear_time() -> None:
    command = [sys.executable, "-m", "tests.adversarial", str(BYTES)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["done"], f"{done.stdout.splitlines()[-1:]} {done.stderr}"


def test_the_growth_of_quadratic_work_is_found() -> None:
    text = "a" * 100_000

    def count_quadratic(text: str) -> int:
        return sum(text.count("b", at) for at in range(0, len(text), 20))

    assert grows_too_fast(count_quadratic, text)
    assert not grows_too_fast(lambda text: [count_quadratic(text[:20_000]) for _ in range(len(text) // 2000)], text)
