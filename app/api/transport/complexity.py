"""A limit on the number of values in a body, checked before the body is decoded.

A decoder makes an object for each value, and every other request waits until it ends. Ten megabytes of empty lists take
seconds and a gigabyte of memory. A thread does not help, because the decoders hold the interpreter's lock.
"""

import re

from app.api.errors import BodyTooComplex

FREE = 64 << 10
"""Bytes. Smaller bodies are not checked, because they cannot hold too many values."""
MAX_VALUES = 100_000
"""Maximum number of values, and of keys of objects, in one body."""
MAX_STATE_VALUES = 400_000
"""Maximum number of values in the body of a checkpoint: more than the largest allowed checkpoint can hold."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A JSON string, or the rest of the text after an unclosed quote. The pattern reads no byte twice."""

_BYTES = "bytes"
_LISTS = "list"
_MAPS = "map"
_FIXED = "fixed"
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
"""The kind of value by its first byte in MessagePack, with the number of bytes of the size or number that follows."""


def check_json(body: bytes, most: int = MAX_VALUES) -> None:
    """Raise BodyTooComplex if a JSON text has more than `most` values. Takes linear time; invalid JSON may pass."""
    if len(body) > FREE and _count_separators(body) > most and _count_separators(_STRING.sub(b"", body)) > most:
        raise BodyTooComplex(_limit_text(most))


def check_msgpack(body: bytes, most: int = MAX_VALUES) -> None:
    """Raise BodyTooComplex if a MessagePack body has more than `most` values. Invalid MessagePack may pass."""
    if len(body) <= FREE:
        return
    at = 0
    values = 0
    end = len(body)
    while at < end:
        values += 1
        if values > most:
            raise BodyTooComplex(_limit_text(most))
        at += _value_length(body, at)


def _count_separators(body: bytes) -> int:
    return sum(body.count(mark) for mark in (b",", b":", b"[", b"{"))


def _value_length(body: bytes, at: int) -> int:
    """Return the length in bytes of the value that begins at `at`, without the contents of a list or a map."""
    first = body[at]
    if 0xA0 <= first <= 0xBF:
        return 1 + (first & 0x1F)
    kind, width = _WIDE.get(first, (_FIXED, 0))
    if kind in (_FIXED, _LISTS, _MAPS):
        return 1 + width
    size = int.from_bytes(body[at + 1 : at + 1 + width], "big")
    return 1 + width + size + (kind == "extension")


def _limit_text(most: int) -> str:
    return f"a body may hold at most {most} values and keys"
