"""The delta header: the net changes in a thread in at most three bullets (docs/contract.md, Recall)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal
from uuid import UUID

from app.domain.text_rules import ELLIPSIS, cut_at_word, normalise_text, one_line

ChangeKind = Literal["created", "updated", "merged", "deleted", "soft_deleted", "restored"]

SIGNS: Final[Mapping[ChangeKind, str]] = MappingProxyType(
    {
        "created": "+created",
        "updated": "↑updated",
        "merged": "↔merged",
        "deleted": "\N{MINUS SIGN}deleted",
        "soft_deleted": "~soft_deleted",
        "restored": "↺restored",
    }
)
MAX_BULLETS: Final = 3
BULLET_CHARS: Final = 120
"""Maximum length of the text in a bullet, ellipsis included."""
_IMPORTANCE: Final = re.compile(r"[(（]?\b[iｉ][mｍ][pｐ]\s*[=＝﹦]\s*(\d*)[)）]?", re.IGNORECASE)
_SIGN: Final = re.compile(rf"(?:[-*•]\s)?[-+↑↔−~↺](?=(?:{'|'.join(SIGNS)})\s?[:：])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DeltaEntry:
    """The net change of one memory since a revision, as an agent may see it. `rev` is the memory's newest.

    `combined` is the number of memories that a merge joined; `text` is then the text of the merged memory. `version` is
    the memory's; None for a fact and for a memory that is gone. `user_pk` is the internal key of its user.
    """

    rev: int
    kind: ChangeKind
    category: str
    label: str | None
    text: str
    importance: int
    combined: int | None = None
    memory_id: UUID | None = None
    version: int | None = None
    user_pk: int | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """A rendered header: its lines (title and bullets), and the numbers of changes shown and left out (`more`)."""

    lines: tuple[str, ...]
    shown: int
    more: int

    @property
    def text(self) -> str:
        """The lines as one block."""
        return "\n".join(self.lines)


def render_header(since_rev: int, entries: Sequence[DeltaEntry], max_bullets: int = MAX_BULLETS) -> Header | None:
    """Render the most important changes, the latest first among equals.

    Return None if there are no entries or `max_bullets` is below 1. At most MAX_BULLETS are shown.
    """
    shown = shown_entries(entries, max_bullets)
    if not shown:
        return None
    lines = (f"Memory updates since rev {since_rev}:", *(_render_bullet(entry) for entry in shown))
    return Header(lines=lines, shown=len(shown), more=len(entries) - len(shown))


def shown_entries(entries: Sequence[DeltaEntry], max_bullets: int = MAX_BULLETS) -> list[DeltaEntry]:
    """Return the changes that a header shows, in its order: the most important, the latest first among equals."""
    shown = sorted(entries, key=lambda entry: (-entry.importance, -entry.rev))
    return shown[: max(0, min(max_bullets, MAX_BULLETS))]


def shrink_header(header: Header, max_bullets: int) -> Header | None:
    """Return the header with at most `max_bullets` bullets, so that it fits a budget. Return None if none is left."""
    shown = min(header.shown, max_bullets)
    if shown < 1:
        return None
    return Header(lines=header.lines[: shown + 1], shown=shown, more=header.more + header.shown - shown)


def category_label(category: str, label: str | None) -> str:
    """Return the category's label, else its name in title case."""
    if label and (clean := _strip_markers(label)):
        return clean
    return " ".join(word[:1].upper() + word[1:] for word in category.replace("_", " ").split())


def _render_bullet(entry: DeltaEntry) -> str:
    text = _shorten_text(entry.text)
    if entry.kind == "merged" and entry.combined is not None:
        notes = "note" if entry.combined == 1 else "notes"
        about = f" about {text}" if text else ""
        return f"- {SIGNS[entry.kind]}: Combined {entry.combined} {notes}{about}"
    importance = f"(imp={entry.importance})" if entry.kind == "created" else ""
    parts = (f"[{category_label(entry.category, entry.label)}]", text, importance)
    return f"- {SIGNS[entry.kind]}: " + " ".join(part for part in parts if part)


def _strip_markers(text: str) -> str:
    """Return the text on one line with the header's own marks defused.

    "(imp=5)" becomes "imp 5", and "+created:" becomes "created:", so that a text cannot imitate a header.
    """
    return one_line(_SIGN.sub(" ", _IMPORTANCE.sub(r"imp \1", normalise_text(text))))


def _shorten_text(text: str) -> str:
    line = _strip_markers(text)
    if len(line) <= BULLET_CHARS:
        return line
    return cut_at_word(line, BULLET_CHARS - len(ELLIPSIS)).rstrip(" ,;:-") + ELLIPSIS
