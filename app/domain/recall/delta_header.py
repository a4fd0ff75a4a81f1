"""The delta header: the net changes in a thread in at most three bullets (docs/contract.md, Recall)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from mnema_wire.marks import ROLES, TagNames

from app.domain.rendering.lines import ChangeKind, header_bullet, header_title, merged_bullet
from app.domain.rendering.model_text import ModelText, join_lines
from app.domain.text_rules import normalise_text

MAX_BULLETS: Final = 3


@dataclass(frozen=True, slots=True)
class DeltaEntry:
    """The net change of one memory since a revision, as an agent may see it. `rev` is the memory's newest.

    `combined` is the number of memories that a merge joined; `text` is then the text of the merged memory. `version` is
    the memory's version; None for a fact and for a deleted memory. `user_pk` is the internal key of its user.
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

    lines: tuple[ModelText, ...]
    shown: int
    more: int

    @property
    def text(self) -> ModelText:
        """The lines as one block."""
        return join_lines(self.lines)


def render_header(
    since_rev: int, entries: Sequence[DeltaEntry], max_bullets: int = MAX_BULLETS, names: TagNames = ROLES
) -> Header | None:
    """Render the most important changes, the latest first among equals.

    `names` are the tags that lines of ours may have; a text that imitates one is defused.
    Return None if there are no entries or `max_bullets` is below 1. At most MAX_BULLETS are shown.
    """
    shown = shown_entries(entries, max_bullets)
    if not shown:
        return None
    lines = (header_title(since_rev), *(_render_bullet(entry, names) for entry in shown))
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
    if label and (clean := normalise_text(label)):
        return clean
    return " ".join(word[:1].upper() + word[1:] for word in category.replace("_", " ").split())


def _render_bullet(entry: DeltaEntry, names: TagNames) -> ModelText:
    if entry.kind == "merged" and entry.combined is not None:
        return merged_bullet(entry.combined, entry.text, names)
    return header_bullet(entry.kind, category_label(entry.category, entry.label), entry.text, entry.importance, names)
