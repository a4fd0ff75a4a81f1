"""Lines that a model reads, made of raw texts. Each raw text is put on one line and defused here, and nowhere else."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal, TypeAlias
from uuid import UUID

from mnema_wire.marks import ROLES, TagNames, collect_tag_names, defuse_marks, defuse_tag, fold_text

from app.domain.rendering.model_text import ModelText
from app.domain.text_rules import ELLIPSIS, cut_at_word, normalise_text, one_line

ChangeKind = Literal["created", "updated", "merged", "deleted", "soft_deleted", "restored"]

IDENTITY_TOKENS: Final = 40
"""About the tokens that day and id add to a line."""
DAY_TOKENS: Final = 8
"""About the tokens that a day adds to a line."""

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
Days: TypeAlias = tuple[datetime, datetime | None]
"""The time of a memory's last change, and the end of its span."""
BULLET_CHARS: Final = 120
"""Maximum length of the text in a bullet of a header, ellipsis included."""
_IMPORTANCE: Final = re.compile(r"[(（]?\b[iｉ][mｍ][pｐ]\s*[=＝﹦]\s*(\d*)[)）]?", re.IGNORECASE)
_PARTING_FACTS: Final = re.compile(r"\( {0,9}thread\b|#\d{1,9} {0,9}:")
_NUMBERED: Final = re.compile(r", {0,9}\d{1,9}\)")
_NAMED_ID: Final = re.compile(r"\bid(?=\W{0,9}[0-9a-f]{8}\W[0-9a-f]{4}\W)")


def plain_line(text: str, names: TagNames = ROLES) -> ModelText:
    """Return a raw text as a line of its own."""
    return ModelText(_defuse(text, names))


def bullet(category: str, text: str, names: TagNames = ROLES) -> ModelText:
    """Return `[<category>] <text>`."""
    return ModelText(f"[{_tag(category)}] {_defuse(text, names)}")


def dated_line(line: ModelText, changed_at: datetime, valid_to: datetime | None = None) -> ModelText:
    """Return `<line> (2026-01-26)` with the day of the change, or `<line> (until 2026-03-01)` if its span ends."""
    return ModelText(f"{line.text} ({_day_of(changed_at, valid_to)})")


def identified_line(
    line: ModelText, memory_id: UUID, changed_at: datetime, valid_to: datetime | None = None
) -> ModelText:
    """Return `<line> (2026-01-26, id <memory id>)`. No other id of the line is called one."""
    return ModelText(f"{without_named_ids(line)} ({_day_of(changed_at, valid_to)}, id {memory_id})")


def _day_of(changed_at: datetime, valid_to: datetime | None) -> str:
    return changed_at.date().isoformat() if valid_to is None else f"until {valid_to.date().isoformat()}"


def without_named_ids(line: ModelText) -> ModelText:
    """Return a line in which nothing that looks like a memory's id is called one: `id` before it becomes `no`."""
    parts: list[str] = []
    at = 0
    for found in _NAMED_ID.finditer(fold_text(line.text)):
        parts += (line.text[at : found.start()], "no")
        at = found.end()
    return ModelText("".join((*parts, line.text[at:])))


def citation_mark(number: int) -> str:
    """Return the mark of the `number`-th source, from 1."""
    return f"M{number}"


def citation_line(
    number: int, text: str, names: TagNames = ROLES, *, category: str | None = None, label: Sequence[str] = ()
) -> ModelText:
    """Return `[M<number>] [<category>] <label>: <text>`, without what is not given.

    The label has parts, such as a path, a page and a heading.
    """
    tag = "" if category is None else f"[{_tag(category)}] "
    place = ", ".join(_defuse(part, names) for part in label)
    shown = _defuse(text, names, leading=not place)
    return ModelText(f"[{citation_mark(number)}] {tag}{f'{place}: ' if place else ''}{shown}")


def header_title(since_rev: int) -> ModelText:
    """Return the first line of a delta header."""
    return ModelText(f"Memory updates since rev {since_rev}:")


def header_bullet(kind: ChangeKind, label: str, text: str, importance: int, names: TagNames = ROLES) -> ModelText:
    """Return `- +created: [<label>] <text> (imp=<importance>)`; only a created memory has its importance there."""
    shown = f"(imp={importance})" if kind == "created" else ""
    tag = _tag(_defuse(_defuse_importance(label), names, leading=False))
    parts = (f"[{tag}]", _shorten(text, names, leading=True), shown)
    return ModelText(f"- {SIGNS[kind]}: " + " ".join(part for part in parts if part))


def merged_bullet(combined: int, text: str, names: TagNames = ROLES) -> ModelText:
    """Return `- ↔merged: Combined <n> notes about <text>`."""
    notes = "note" if combined == 1 else "notes"
    about = _shorten(text, names, leading=False)
    return ModelText(f"- {SIGNS['merged']}: Combined {combined} {notes}{f' about {about}' if about else ''}")


def chat_preface(
    summary: str | None,
    memories: Iterable[tuple[str, str]],
    names: TagNames = ROLES,
    days: Iterable[Days | None] = (),
) -> ModelText:
    """Return the text before a user's message: the summary, and each memory as `- [<role>] <content>`.

    `memories` are roles and contents, the most relevant first. `days`: of each the day of its change and the end of its
    span, which then end its line as in `dated_line`. Empty without a summary and memories.
    """
    told = list(memories)
    ends = [f" ({_day_of(*one)})" if one else "" for one in days] or [""] * len(told)
    names |= collect_tag_names(role for role, _content in told)
    parts = [f"Conversation summary:\n{_defuse(summary, names)}\n\n"] if summary else []
    shown = (f"- [{_tag(role)}] {_defuse(content, names)}" for role, content in told)
    if lines := [f"{line}{end}\n" for line, end in zip(shown, ends, strict=True)]:
        parts.append(f"Long-term memory (most relevant first):\n{''.join(lines)}\n")
    return ModelText(f"{''.join(parts)}Current message: " if parts else "")


def history_line(moment: datetime, event: str, actor: str | None, text: str, names: TagNames = ROLES) -> ModelText:
    """Return one entry of a history: `2026-01-26 15:03:12 ADD by <actor>: <text>`."""
    line = f"{moment:%Y-%m-%d %H:%M:%S} {_defuse(event, names)} by {_defuse(actor or 'system', names)}"
    shown = _defuse(text, names)
    return ModelText(f"{line}: {shown}" if shown else line)


def fact_line(
    topic_key: str, rank: int | None, value: str, thread_id: str | None, names: TagNames = ROLES
) -> ModelText:
    """Return a stored fact: `<topic> #<rank>: <value> (thread <id>)`.

    A value that looks like another rank or thread stands in quotes.
    """
    shown = _defuse(value, names)
    if _PARTING_FACTS.search(fold_text(shown)):
        shown = _quote(shown)
    place = "" if rank is None else f" #{rank}"
    thread = "" if thread_id is None else f" (thread {_defuse(thread_id, names, leading=False)})"
    return ModelText(f"{_defuse(topic_key, names)}{place}: {shown}{thread}")


def fact_value(value: str, names: TagNames = ROLES) -> ModelText:
    """Return the value of a fact as part of a sentence, in quotes if it looks like several numbered ones."""
    shown = _defuse(value, names, leading=False)
    return ModelText(_quote(shown) if _NUMBERED.search(fold_text(shown)) else shown)


def profile_line(values: Iterable[tuple[str, str]], names: TagNames = ROLES) -> ModelText:
    """Return labels and values as one line, the values of a label together: `City: Lisbon; goals: ship v1, rest`."""
    parts_by_label: dict[str, list[str]] = {}
    for label, value in values:
        shown = _defuse(value, names, leading=False).replace(";", ",")  # a ";" could imitate another label
        parts_by_label.setdefault(_defuse(label, names), []).append(shown)
    line = "; ".join(f"{label}: {', '.join(parts)}" for label, parts in parts_by_label.items())
    return ModelText(line[:1].upper() + line[1:])


def cursor_line(cursor: str) -> ModelText:
    """Return the line that leads to the next page."""
    return ModelText(f"more: cursor {_defuse(cursor, ROLES)}")


def _defuse(text: str, names: TagNames, *, leading: bool = True) -> str:
    return defuse_marks(one_line(text), names, leading=leading)


@lru_cache(maxsize=1024)
def _tag(name: str) -> str:
    return defuse_tag(_defuse(name, ROLES, leading=False))


def _defuse_importance(text: str) -> str:
    """Return the text in its stored form without `(imp=5)`, which becomes `imp 5`."""
    return _IMPORTANCE.sub(r"imp \1", normalise_text(text))


def _shorten(text: str, names: TagNames, *, leading: bool) -> str:
    line = _defuse(_defuse_importance(text), names, leading=leading)
    if len(line) <= BULLET_CHARS:
        return line
    return cut_at_word(line, BULLET_CHARS - len(ELLIPSIS)).rstrip(" ,;:-") + ELLIPSIS


def _quote(line: str) -> str:
    return '"' + line.replace('"', "'") + '"'
