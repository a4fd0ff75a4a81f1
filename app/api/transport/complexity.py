"""A bound on how many values a body may hold, checked before it is decoded.

A decoder makes an object of each value and stops every other request until it is done: ten megabytes of empty lists
take seconds and a gigabyte. A thread alone does not help, for the decoders keep the interpreter's lock.
"""

import re

from app.api.errors import BodyTooComplex

FREE = 64 << 10
"""Bodies up to this many bytes are not looked at: they cannot hold enough."""
MAX_VALUES = 100_000
"""Values, and keys of objects, of one body."""
MAX_STATE_VALUES = 400_000
"""The same of a checkpoint: more than the largest that its route takes."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A JSON string, or the rest of the text after a quote that nothing closes: so no byte is read twice."""

_BYTES, _LISTS, _MAPS, _FIXED = "bytes", "list", "map", "fixed"
_WIDE: dict[int, tuple[str, int]] = {
    **{0xC4 + i: (_BYTES, 1 << i) for i in range(3)},
    **{0xD9 + i: (_BYTES, 1 << i) for i in range(3)},
    **{0xDC + i: (_LISTS, 2 << i) for i in range(2)},
    **{0xDE + i: (_MAPS, 2 << i) for i in range(2)},
    **{0xC7 + i: ("extension", 1 << i) for i in range(3)},
    **{0xD4 + i: (_FIXED, 1 + (1 << i)) for i in range(5)},
    **{0xCC + i: (_FIXED, 1 << i) for i in range(4)},
    **{0xD0 + i: (_FIXED, 1 << i) for i in range(4)},
    0xCA: (_FIXED, 4),
    0xCB: (_FIXED, 8),
}
"""MessagePack's first bytes that a size or a number follows: what it is, and how many bytes that takes."""


def check_json(body: bytes, most: int = MAX_VALUES) -> None:
    """Raise BodyTooComplex for a JSON text of more than `most` values. Linear; what is no JSON may pass."""
    if len(body) > FREE and _count_separators(body) > most and _count_separators(_STRING.sub(b"", body)) > most:
        raise BodyTooComplex(_limit_text(most))


def check_msgpack(body: bytes, most: int = MAX_VALUES) -> None:
    """Raise BodyTooComplex for MessagePack of more than `most` values. Reads at most so many; what is none may pass."""
    if len(body) <= FREE:
        return
    at, values, end = 0, 0, len(body)
    while at < end:
        values += 1
        if values > most:
            raise BodyTooComplex(_limit_text(most))
        at += _value_length(body, at)


def _count_separators(body: bytes) -> int:
    return sum(body.count(mark) for mark in (b",", b":", b"[", b"{"))


def _value_length(body: bytes, at: int) -> int:
    """How many bytes the value that begins at `at` takes, without what a list or a map holds."""
    first = body[at]
    if 0xA0 <= first <= 0xBF:
        return 1 + (first & 0x1F)
    kind, width = _WIDE.get(first, (_FIXED, 0))
    if kind in (_FIXED, _LISTS, _MAPS):
        return 1 + width
    size = int.from_bytes(body[at + 1 : at + 1 + width], "big")
    return 1 + width + size + (kind == "extension")


def _limit_text(most: int) -> str:
    return f"a body may hold {most} values and keys"
