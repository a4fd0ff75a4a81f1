"""Paths of files below a source's root: which can be used, how others are shown, and which names are left out.

Patterns of paths, a part of those of `.gitignore`, say which files of a folder count. Names are matched without
backtracking, so that no pattern and no name can make a scan slow.
"""

import fnmatch
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

from mnema_wire.limits import MAX_PATTERN, MAX_PATTERNS

from app.domain.errors import InvalidInput
from app.domain.sources.rejection import Rejection, RejectionReason

MAX_PATH_BYTES: Final = 1_024
MAX_DEPTH: Final = 64
"""The most parts of a path: folders, and the file's name."""
_SHOWN_BYTES: Final = 900
_CONTROLS: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufffd\\\\]"
)
"""Control characters, line breaks, bytes that are not UTF-8 (as surrogates or replaced), direction marks, backslash."""
_LEFT_OUT: Final = frozenset(("node_modules", "__pycache__", "lost+found"))
Step: TypeAlias = "re.Pattern[str] | None"
"""A test of one part of a path. None is `**`: any number of parts."""
_UNUSABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\\\\]")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed pattern. With `only_folders` it matches no file by itself."""

    steps: tuple[Step, ...]
    only_folders: bool

    def match_path(self, parts: Sequence[str], is_folder: bool) -> bool:
        """Tell whether the whole path matches, without regard to what is above it."""
        return (is_folder or not self.only_folders) and _match_steps(self.steps, parts)


@dataclass(frozen=True)
class PathRules:
    """The rules of a source: a path counts if `include` is empty or matches it or a folder above, and `exclude` not."""

    include: tuple[Pattern, ...]
    exclude: tuple[Pattern, ...]

    @cached_property
    def includes_all(self) -> bool:
        """Every path is included."""
        return not self.include

    def includes(self, parts: Sequence[str], is_folder: bool) -> bool:
        """Tell whether this path itself is included. What is below an included folder is included too."""
        return any(pattern.match_path(parts, is_folder) for pattern in self.include)

    def excludes(self, parts: Sequence[str], is_folder: bool) -> bool:
        """Tell whether this path itself is excluded. What is below an excluded folder is excluded too."""
        return any(pattern.match_path(parts, is_folder) for pattern in self.exclude)

    def takes_file(self, parts: Sequence[str]) -> bool:
        """Tell whether a file counts, with regard to all folders above it."""
        above = [parts[:count] for count in range(1, len(parts))]
        included = self.includes_all or self.includes(parts, is_folder=False)
        included = included or any(self.includes(folder, is_folder=True) for folder in above)
        return included and not self.excludes(parts, is_folder=False) and not self.leaves_out(parts[:-1])

    def leaves_out(self, folder: Sequence[str]) -> bool:
        """Tell whether a folder is excluded, by itself or by one above it."""
        return any(self.excludes(folder[:count], is_folder=True) for count in range(1, len(folder) + 1))


def parse_rules(include: Sequence[str], exclude: Sequence[str]) -> PathRules:
    """Return the rules of a source. Raise InvalidInput for a pattern that is not valid, or too many."""
    return PathRules(_parse_patterns("include", include), _parse_patterns("exclude", exclude))


def _parse_patterns(field: str, texts: Sequence[str]) -> tuple[Pattern, ...]:
    if len(texts) > MAX_PATTERNS:
        raise InvalidInput(f"{field}: at most {MAX_PATTERNS} patterns")
    return tuple(_parse_pattern(field, text) for text in texts)


def _parse_pattern(field: str, text: str) -> Pattern:
    inner = text.strip("/") if len(text) <= MAX_PATTERN else ""
    names = inner.split("/")
    if _UNUSABLE.search(inner) or inner.startswith("!") or any(name in ("", ".", "..") for name in names):
        raise InvalidInput(
            f"{field}: a pattern has 1 to {MAX_PATTERN} characters, such as *.md, docs/** or /drafts/; no '!' in "
            "front, no backslash, no part that is empty, '.' or '..'"
        )
    anchored = text.startswith("/") or "/" in inner
    steps: list[Step] = [None] if not anchored else []
    for name in names:
        if name != "**":
            steps.append(re.compile(fnmatch.translate(name)))
        elif not steps or steps[-1] is not None:
            steps.append(None)
    return Pattern(tuple(steps), only_folders=text.endswith("/"))


def _match_steps(steps: Sequence[Step], parts: Sequence[str]) -> bool:
    """Match all parts. Only the last `**` is tried again, which is enough, as for `*` in a name.

    A `**` at the end takes at least one part.
    """
    step = part = 0
    again: tuple[int, int] | None = None
    while part < len(parts):
        test = steps[step] if step < len(steps) else None
        if step < len(steps) and test is None:
            if step == len(steps) - 1:
                return True
            step, again = step + 1, (step + 1, part)
        elif test is not None and test.match(parts[part]):
            step, part = step + 1, part + 1
        elif again is not None:
            step = again[0]
            part = again[1] + 1
            again = step, part
        else:
            return False
    return step == len(steps)


def leaves_out(name: str) -> bool:
    """Tell whether files and folders of this name are never read: hidden ones, caches, copies of editors."""
    return name.startswith((".", "~$")) or name.endswith("~") or name in _LEFT_OUT


def find_path_problem(path: str) -> Rejection | None:
    """Return why a path cannot be stored and shown, None if it can."""
    if _CONTROLS.search(path):
        detail = "it has a control character, a line break, a backslash, a direction mark, or is not UTF-8"
    elif len(path.encode()) > MAX_PATH_BYTES:
        detail = f"the path has more than {MAX_PATH_BYTES} bytes"
    elif path.count("/") >= MAX_DEPTH:
        detail = f"the path has more than {MAX_DEPTH} parts"
    else:
        return None
    return Rejection(RejectionReason.UNUSABLE_NAME, detail)


def show_path(path: str) -> str:
    """Return a path that can be stored and shown. Two paths that differ are shown differently.

    Characters that cannot be used are escaped as in Python. No usable path has a backslash, so none looks escaped. A
    long path ends in a hash.
    """
    if find_path_problem(path) is None:
        return path
    shown = _CONTROLS.sub(_escape_character, path)
    if len(shown.encode()) > MAX_PATH_BYTES or shown.count("/") >= MAX_DEPTH:
        cut = shown.encode()[:_SHOWN_BYTES].decode(errors="ignore")
        digest = hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()
        shown = "/".join((*cut.split("/")[: MAX_DEPTH - 1], f"…\\{digest[:16]}"))
    return shown


def split_path(path: str) -> tuple[str, ...]:
    """Return the parts of a path below a root; the root's own, "", has none. Raise InvalidInput for any other path.

    It is relative, with '/', has no part such as `..`, and nothing that is left out.
    """
    if not path:
        return ()
    if problem := find_path_problem(path):
        raise InvalidInput(f"path: {problem.detail}")
    parts = tuple(path.split("/"))
    if any(part in ("", ".", "..") for part in parts):
        raise InvalidInput("path: must be relative, with '/' between its parts, without '.' or '..'")
    if any(leaves_out(part) for part in parts):
        raise InvalidInput("path: hidden files, caches and copies of editors are not part of a source")
    return parts


def _escape_character(found: re.Match[str]) -> str:
    character = found[0]
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    if "\x80" <= character <= "\x9f":  # not like a byte
        return f"\\u{ord(character):04x}"
    return character.encode("unicode_escape").decode()
