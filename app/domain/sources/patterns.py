"""Patterns of paths, a part of those of `.gitignore`: which files of a folder count.

Names are matched without backtracking, so that no pattern and no name can make a scan slow.
"""

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

from mnema_wire.limits import MAX_PATTERN, MAX_PATTERNS

from app.domain.errors import InvalidInput

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
