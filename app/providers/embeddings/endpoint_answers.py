"""The answers of embedding endpoints: vectors in the order of the texts, and what a refusal says about its cause."""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import httpx2
import numpy as np
import orjson
from numpy.typing import NDArray

from app.providers.bounded_http import REFUSED

Row: TypeAlias = list[Any] | NDArray[np.float32]
"""The numbers of a vector, not checked yet."""

READ_BYTES: Final = 1024
"""The bytes of a refusal that are read."""
_LARGE: Final = r"too (?:long|large|big|many)|exceed|longer than|maximum|max\b|limit"
_TEXTS: Final = r"token|context|length|sequence|input|batch|character"
_TOO_LARGE: Final = re.compile(rf"(?:{_LARGE}).{{0,80}}(?:{_TEXTS})|(?:{_TEXTS}).{{0,80}}(?:{_LARGE})", re.DOTALL)
_TOO_LONG: Final = re.compile(r"(?:input|prompt|text|length|context).{0,40}(?:too (?:long|large)|exceeds)", re.DOTALL)
_TOO_MANY: Final = re.compile(r"batch.?size|too many (?:inputs|items|texts)|number of (?:inputs|items|texts)|array")
_PARAMETERS: Final = {"dimensions": re.compile(r"dimension"), "encoding_format": re.compile(r"encoding[_ ]format")}


@dataclass(frozen=True, slots=True)
class Refusal:
    """The cause of a refused request, read from its answer. It has no text of the answer, which may quote a secret.

    `parameters` are the members of the request that the answer names, `too_large` and `too_many` tell about its texts.
    """

    status: int
    parameters: frozenset[str] = frozenset()
    too_large: bool = False
    too_many: bool = False


def read_refusal(answer: httpx2.Response) -> Refusal:
    """Return the cause of an answer that is no success."""
    told = answer.content[:READ_BYTES].decode("utf-8", "replace").lower()
    if answer.status_code not in REFUSED:
        # llama.cpp answers 500 to a text that is too long; gateways tell of other limits with that status.
        return Refusal(answer.status_code, too_large=answer.status_code == 500 and bool(_TOO_LONG.search(told)))
    too_many = bool(_TOO_MANY.search(told))
    too_large = answer.status_code == 413 or too_many or bool(_TOO_LARGE.search(told))
    named = (name for name, pattern in _PARAMETERS.items() if pattern.search(told))
    return Refusal(answer.status_code, frozenset(named), too_large, too_many)


def read_vectors(content: bytes, count: int) -> list[Row]:
    """Return the rows of an answer in text order. Raise ValueError, KeyError or TypeError if they are not `count`."""
    items = _parse_json(content)["data"]
    if not isinstance(items, list) or len(items) != count:
        raise ValueError("the number of vectors is not that of the texts")
    if all("index" not in item for item in items):  # some servers send no indices, but keep the order
        return [_read_vector(item["embedding"]) for item in items]
    rows = {item["index"]: item["embedding"] for item in items}
    if rows.keys() != set(range(count)):
        raise ValueError("the answer's indices are not those of the request")
    return [_read_vector(rows[index]) for index in range(count)]


def longest_row(rows: Sequence[Row]) -> int:
    """Return the length of the longest row."""
    return max(map(len, rows))


def _parse_json(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        # Servers in Python write NaN and Infinity, which are no JSON.
        return orjson.loads(
            content.replace(b"NaN", b"null").replace(b"-Infinity", b"null").replace(b"Infinity", b"null")
        )


def _read_vector(row: object) -> Row:
    """Return a row of numbers. Some servers send base64 of 32-bit floats, asked or not."""
    if isinstance(row, str):
        return np.frombuffer(base64.b64decode(row, validate=True), "<f4")
    if not isinstance(row, list):
        raise TypeError("a vector is missing")
    return row
