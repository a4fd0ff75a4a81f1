"""The labels by which an index finds the numbers of metadata in a range.

An index of lists knows equality alone. So each number gets a code of 24 bits, which is never less than that of a
smaller number: a 32-bit float without its last 8 bits. Its labels are the first 6, 12, 18 and 24 bits of the code. A
range of codes is a few labels of each length. The database function `number_labels()` gives the numbers their labels.
"""

import struct
from collections.abc import Iterator
from typing import Final, Literal

Limit = Literal["gt", "gte", "lt", "lte"]

STEP: Final = 6
"""The bits by which each label of a number is longer than the one before."""
LENGTHS: Final = 4
OFFSET: Final = 1 << STEP * LENGTHS
"""Labels of the n-th length begin at so many times n, so that no two lengths share one."""
EXACT: Final = LENGTHS
"""The number of the length under which codes stand whose number is exactly the first one that has the code."""
MANY: Final = -1
"""The label of a key if it has, or its memory has, too many numbers to label each."""
_LARGEST: Final = 1e37
_SMALLEST: Final = 1e-37


def labels_within(operator: Limit, limit: float) -> list[int]:
    """Return labels of which every number within the limit has one; few numbers beyond it have one of them."""
    code = _code_of(limit)
    partly: list[int] = []
    if not _is_first_of_code(limit):
        reach = 1  # the database rounds once and Python twice, so the code may be one off
    elif operator in ("gte", "lte"):
        reach = 0
    else:
        reach = -1
        partly = [(LENGTHS - 1) * OFFSET + code]  # all of its code but the limit itself
    if operator in ("gt", "gte"):
        return [MANY, *partly, *_cover(max(code - reach, 0), OFFSET - 1)]
    return [MANY, *partly, *_cover(0, min(code + reach, OFFSET - 1))]


def _cover(low: int, high: int) -> Iterator[int]:
    """Yield the fewest labels that all codes from `low` to `high` have, and no others."""
    last = (1 << STEP) - 1
    for length in range(LENGTHS - 1, 0, -1):
        while low <= high and low & last:
            yield from _labels_of(length, low)
            low += 1
        while low <= high and high & last != last:
            yield from _labels_of(length, high)
            high -= 1
        low, high = low >> STEP, high >> STEP
    yield from range(low, high + 1)


def _labels_of(length: int, bits: int) -> Iterator[int]:
    """Yield the label of the first bits of a code; two of a whole code."""
    yield length * OFFSET + bits
    if length == LENGTHS - 1:
        yield EXACT * OFFSET + bits


def _code_of(number: float) -> int:
    """Return the code of a number."""
    near = 0.0 if abs(number) < _SMALLEST else float(min(max(number, -_LARGEST), _LARGEST))
    [bits] = struct.unpack(">I", struct.pack(">f", abs(near)))
    middle: int = OFFSET // 2
    code: int = bits >> 8
    return middle + code if near >= 0 else middle - 1 - code


def _is_first_of_code(number: float) -> bool:
    """Return True for numbers that need no more bits than a code has: integers of 16 bits, and eighths of them."""
    if abs(number) >= 1 << 16:
        return False
    return number == int(number) or (abs(number) < 1 << 13 and number * 8 == int(number * 8))
