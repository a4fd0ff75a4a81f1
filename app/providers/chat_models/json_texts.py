"""The JSON values in a model's text: fenced, in prose, with trailing commas or comments, or cut off.

`json` reads what is valid, also with raw line breaks in strings. `pyjson5` reads JavaScript's notation and returns what
stands before an error. Both are linear. `json-repair` reads more but is quadratic: 16 KiB can take 12 seconds.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pyjson5

from app.domain.text_rules import replace_halves

MAX_TEXT: Final = 64 << 10
"""The most characters that are parsed: several times the longest answer that a prompt allows."""
MAX_STARTS: Final = 40
"""The most places that are tried as the beginning of a value."""
MAX_DEPTH: Final = 12
_START: Final = re.compile(r"[{\[]")
_DECODER: Final = json.JSONDecoder(strict=False)
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_CLOSERS: Final = ("}", "]", "]}", "}]", "}]}", "]}]}", "}}")


@dataclass(frozen=True, slots=True)
class FoundValue:
    """A value in a text. `is_cut`: an error or the end of the text came before its end; its last part is left out."""

    value: Any
    is_cut: bool = False


def find_json(text: str) -> Iterator[FoundValue]:
    """Yield the objects and arrays in a text, in order. Of a text above MAX_TEXT the beginning is read.

    A value that cannot be read is tried again from the next bracket in it, at most MAX_STARTS times in all. Escapes of
    half a character, which no database stores, become the replacement character.
    """
    for found in _find_values(text):
        try:
            value = _mend_halves(found.value)
        except (ValueError, RecursionError):  # a number of thousands of digits, or too many brackets
            continue
        yield replace(found, value=value)


def _find_values(text: str) -> Iterator[FoundValue]:
    text = _unquote(text.strip().removeprefix("\ufeff")[:MAX_TEXT])
    at = 0
    for _ in range(MAX_STARTS):
        start = _START.search(text, at)
        if start is None:
            return
        at = start.start()
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            found = _read_tolerantly(text[at:])
            at += 1
            if found is None:
                continue
            yield found
            if not found.is_cut:
                return
        else:
            yield FoundValue(value)


def _mend_halves(value: Any) -> Any:
    written = json.dumps(value, ensure_ascii=False)
    whole = replace_halves(written)
    return value if whole is written else json.loads(whole)


def _unquote(text: str) -> str:
    """Return the content of a text that is one JSON string, else the text."""
    if text.startswith('"'):
        try:
            value = _DECODER.decode(text)
        except ValueError:
            return text
        return str(value)
    return text


def _read_tolerantly(text: str) -> FoundValue | None:
    """Return the value at the start of `text`, without the part at which reading it failed."""
    best = None
    for variant in dict.fromkeys((text, _CONTROL.sub(" ", text))):  # a raw line break ends a comment, or a string
        try:
            return FoundValue(pyjson5.decode(variant, MAX_DEPTH, True))
        except pyjson5.Json5EOF as error:
            found = _close(variant) or _drop_last(error.result)
        except pyjson5.Json5DecoderException as error:
            found = _drop_last(error.result)
        if found is not None and (best is None or len(str(found.value)) > len(str(best.value))):
            best = found
    return best


def _close(text: str) -> FoundValue | None:
    """Return the value of a text that ends behind a complete part of it, with the missing brackets added."""
    text = text.rstrip().rstrip(",").rstrip()
    if not text.endswith(("}", "]", '"')):  # the last part may be half of a number or of a word
        return None
    for closer in _CLOSERS:
        try:
            return FoundValue(pyjson5.decode(text + closer, MAX_DEPTH), is_cut=True)
        except pyjson5.Json5DecoderException:
            continue
    return None


def _drop_last(value: Any) -> FoundValue | None:
    """Return the part of a broken value that stands before its last item, or before its last field."""
    if isinstance(value, list) and value:
        return FoundValue(value[:-1], is_cut=True)
    if isinstance(value, dict) and value:
        *_, last = value
        kept = _drop_last(value[last])
        rest = {name: part for name, part in value.items() if name != last}
        return FoundValue(rest if kept is None else rest | {last: kept.value}, is_cut=True)
    return None
