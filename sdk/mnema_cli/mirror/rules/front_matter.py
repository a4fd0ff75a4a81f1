"""YAML front matter, read line by line: single values of known keys; all other lines are kept as they are.

The lines of other keys may hold any YAML. They are neither read nor changed. So nothing that a person or an editor adds
is lost, and no YAML can be a bomb.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

FENCE: Final = "---"


class BrokenFile(Exception):
    """A file that cannot be read as an entry. The message says why, as a sentence for people."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """Front matter: the values of the known keys, None for an empty one, and all other lines."""

    values: Mapping[str, str | None]
    other_lines: tuple[str, ...]


def split_content(content: str) -> tuple[list[str] | None, str]:
    """Return the lines of the front matter, or None if there is none, and all after its closing line.

    Raise BrokenFile if it is not closed.
    """
    end = _line_end(content, 0)
    if content[:end].rstrip() != FENCE:
        return None, content
    lines: list[str] = []
    while end < len(content):
        start, end = end, _line_end(content, end)
        line = content[start:end].removesuffix("\n").removesuffix("\r")
        if line.rstrip() == FENCE:
            return lines, content[end:]
        lines.append(line)
    raise BrokenFile(f"the front matter has no closing line `{FENCE}`")


def _line_end(content: str, start: int) -> int:
    found = content.find("\n", start)
    return len(content) if found < 0 else found + 1


def read_front_matter(lines: Sequence[str], known: Sequence[str]) -> FrontMatter:
    """Return the values of the keys `known`. Raise BrokenFile for lines that are no YAML mapping."""
    values: dict[str, str | None] = {}
    other: list[str] = []
    key = None
    for number, line in enumerate(lines, 2):  # line 1 is the opening one
        if not line.strip() or line.lstrip().startswith("#"):
            other.append(line)
            continue
        if line[0] in " \t-]}":
            if key is None or key in known:
                raise BrokenFile(f"line {number}: write the value of each of {', '.join(known)} on the line of its key")
            other.append(line)
            continue
        key, value = _split_key(line, number)
        if key in values:
            raise BrokenFile(f"line {number}: the key `{key}` is there twice")
        if key in known:
            values[key] = read_scalar(value, key)
        else:
            other.append(line)
    return FrontMatter(values, tuple(other))


_COLON: Final = re.compile(r":(?=[ \t]|\Z)")


def _split_key(line: str, number: int) -> tuple[str, str]:
    colon = _COLON.search(line)
    if colon is None or colon.start() == 0:
        raise BrokenFile(f"line {number} of the front matter is not `key: value`")
    return line[: colon.start()].strip().strip("\"'"), line[colon.end() :]


_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_SINGLE: Final = re.compile(r"'((?:[^']|'')*)'\s*(?:#.*)?\Z")
_DOUBLE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?\Z')
_COMMENT: Final = re.compile(r"\s#")
_ESCAPE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_SHORT: Final = dict(zip('0abt\tnvfre "/\\N_LP', '\0\a\b\t\t\n\v\f\r\x1b "/\\\x85\xa0\u2028\u2029', strict=True))


def read_scalar(value: str, key: str) -> str | None:
    """Return the text of a YAML scalar on one line, None if it is null. Raise BrokenFile if it is not one."""
    value = value.strip()
    if match := _SINGLE.match(value):
        return match[1].replace("''", "'")
    if match := _DOUBLE.match(value):
        return _ESCAPE.sub(lambda found: _unescape(found, key), match[1])
    comment = 0 if value.startswith("#") else match.start() if (match := _COMMENT.search(value)) else len(value)
    value = value[:comment].rstrip()
    if value in _NULL:
        return None
    if value[0] in "\"'&*!|>%@`[{,]}?" or value.startswith("- ") or ": " in value or value.endswith(":"):
        raise BrokenFile(f'the value of `{key}` cannot be read; write it in double quotes: {key}: "…"')
    return value


def _unescape(found: re.Match[str], key: str) -> str:
    if found[4] is not None:
        if found[4] not in _SHORT:
            raise BrokenFile(f"the value of `{key}` has the unknown escape `{found[0]}`")
        return _SHORT[found[4]]
    code = int(found[1] or found[2] or found[3], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise BrokenFile(f"the value of `{key}` has `{found[0]}`, which is no character")
    return chr(code)


_BARE: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9_]*(?:[-/.][A-Za-z0-9_]+)*\Z"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)\Z",
    re.ASCII,
)
_WORDS: Final = _NULL | {"true", "false", "yes", "no", "on", "off", "y", "n"}


def write_scalar(value: str) -> str:
    """Return `value` as a YAML scalar on one line."""
    if _BARE.match(value) and value.lower() not in _WORDS:
        return value
    return f'"{"".join(map(_escape, value))}"'


def _escape(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
