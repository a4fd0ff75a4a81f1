"""The CPU time of work on hostile texts, and whether it grows faster than the texts."""

import contextlib
import re
import signal
import time
import unicodedata
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

from mnema_cli.mirror.rules.front_matter import BrokenFile

from app.domain.errors import MnemaError

Work = Callable[[str], object]
Build = Callable[[int], str]
"""Returns a hostile text of about so many characters."""

SUSPICIOUS: Final = 12
"""A call is a suspect if it takes so many times the CPU of the yardstick for a text of the same length."""
GROWTH: Final = 1.5
"""The exponent of the most growth: the time of linear work grows with exponent 1, that of quadratic work with 2."""
ENDLESS: Final = 30
"""The seconds after which a call ends that should take some milliseconds."""
ENDS: Final = ("\x00", "y", "z")


class Endless(BaseException):
    """A call was still running after ENDLESS seconds. No handler of errors in the work catches it."""


@contextlib.contextmanager
def end_endless_calls() -> Iterator[None]:
    """Raise Endless in calls that do not end, while this context is open."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise Endless

    before = signal.signal(signal.SIGALRM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)


def measure_cpu(work: Work, text: str) -> float:
    """Return the CPU seconds of one call, infinite if it does not end. A refusal is a result like any other."""
    # a timer of CPU time would make the kernel count this process's time in coarse steps
    others = signal.setitimer(signal.ITIMER_REAL, ENDLESS)
    start = time.process_time()
    try:
        with contextlib.suppress(MnemaError, BrokenFile):
            work(text)
        return time.process_time() - start
    except Endless:
        return float("inf")
    finally:
        signal.setitimer(signal.ITIMER_REAL, *others)  # the time limit of the test goes on


def measure_least(work: Work, text: str) -> float:
    """Return the least CPU time of three calls. Each has a text of its own: functions keep results of known texts."""
    least = measure_cpu(work, text + ENDS[0])
    if least == float("inf"):
        return least
    return min(least, *(measure_cpu(work, text + end) for end in ENDS[1:]))


def grows_too_fast(work: Work, build: Build, size: int, times: int = 4) -> bool:
    """Tell whether some times the text takes far more than so many times the time.

    Work that stops growing at a limit of its own is found linear: the longer text has `times` times `size` characters.
    """
    small, longer = measure_least(work, build(size)), build(times * size)
    if small == float("inf"):
        return True
    allowed = times**GROWTH * small
    return measure_cpu(work, longer + ENDS[0]) > allowed and measure_least(work, longer) > allowed


def measure_yardstick(size: int) -> float:
    """Return the CPU seconds that plain linear work on `size` characters takes here, about 0.01 s for 16 Ki.

    The work is like that of the functions: a walk over the words, their normal forms and a pattern.
    """
    text = "a word, " * (size // 8)
    pattern = re.compile(r"[\w'-]+")

    def walk(text: str) -> None:
        for _ in range(8):
            for word in pattern.findall(text):
                unicodedata.normalize("NFKC", word).casefold().strip("'-")

    return min(measure_cpu(walk, text) for _ in range(5))
