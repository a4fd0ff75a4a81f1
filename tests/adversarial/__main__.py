"""Gives each function hostile texts, and names those whose time grows faster than the text.

Each call is first made once, with a text of `size` characters. Only a call that takes far more than plain work on such
a text is looked at again, with four times the text.
"""

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from tests.adversarial.cpu import (
    SUSPICIOUS,
    Build,
    Work,
    end_endless_calls,
    grows_too_fast,
    measure_cpu,
    measure_yardstick,
)
from tests.adversarial.functions import FUNCTIONS
from tests.adversarial.units import COMBINING, UNITS, Hostile, combined_units, single_units

MARKS: Final = 8
"""Combining marks are repeated so many times more often, because sorting them is fast."""
ALL: Final = 32
"""The text of all units is so many times as long."""


def hostile_texts(name: str, rounds: int) -> Iterator[tuple[str, Build]]:
    """Yield the hostile texts of a function, each with its description."""
    for hostile in single_units():
        yield repr(hostile), partial(_build_longer, hostile, MARKS if hostile.units[0] in COMBINING else 1)
    yield "all units", partial(_build_longer, Hostile(UNITS, "blocks"), ALL)
    for hostile in combined_units(name, rounds):
        yield repr(hostile), hostile.build


def _build_longer(hostile: Hostile, times: int, size: int) -> str:
    return hostile.build(times * size)


def find_slow_text(name: str, work: Work, size: int, rounds: int) -> str:
    """Return the description of a text for which the time grows faster than the text; empty if none is found."""
    allowed = SUSPICIOUS * measure_yardstick(size)
    for told, build in hostile_texts(name, rounds):
        text = build(size)
        if measure_cpu(work, text) > allowed * len(text) / size and grows_too_fast(work, build, size):
            return told
    return ""


def main(size: int, rounds: int, names: Sequence[str]) -> None:
    """Print each slow function with a text, and at last the number of functions."""
    with end_endless_calls():
        for name in names or FUNCTIONS:
            if slow := find_slow_text(name, FUNCTIONS[name], size, rounds):
                print(f"{name}: n * {slow} is not linear", flush=True)
    print(f"{len(FUNCTIONS)} functions")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
