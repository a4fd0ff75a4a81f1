"""A tenant's own rules: the versions of its document, and the errors of a change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mnema_wire.limits import MAX_IDENTIFIER

from app.domain.errors import InvalidInput, MnemaError

MAX_DOCUMENT_BYTES = 256 << 10
MAX_CATEGORIES = 200
MAX_AGENTS = 500
MAX_MOVES = 200
MAX_NOTE = 500
MAX_MOVED = 10_000
"""The memories and facts that one change of the rules moves at most."""


class InvalidConfig(InvalidInput):
    """The document of the tenant's rules is not valid."""


class CategoryInUse(MnemaError, status=409):
    """The new rules lack a category that holds memories; keep it, or name the category that they move to."""


@dataclass(frozen=True, slots=True)
class RulesVersion:
    """A version of a tenant's document. Version 0 is the defaults alone: an empty document, made by nobody."""

    version: int = 0
    document: Mapping[str, Any] = field(default_factory=dict)
    actor: str | None = None
    note: str | None = None
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RulesChange:
    """The result of a change: the version in force, and the lines of the difference to the one before.

    `moved`: the memories and facts that changed their category, by the former one. `warnings`: what the change makes
    useless.
    """

    version: int
    diff: Sequence[str] = ()
    moved: Mapping[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()


def parse_moves(given: Sequence[str]) -> dict[str, str]:
    """Return the moves of categories that are written as `old:new`. Raise InvalidInput."""
    if len(given) > MAX_MOVES:
        raise InvalidInput(f"move: at most {MAX_MOVES}", param="move")
    moves: dict[str, str] = {}
    for one in given:
        old, colon, new = one.partition(":")
        if not (colon and old and new) or len(one) > 2 * MAX_IDENTIFIER + 1:
            raise InvalidInput("move: use old:new, two names of categories", param="move")
        if moves.setdefault(old, new) != new:
            raise InvalidInput(f"move: {old[:MAX_IDENTIFIER]!r} is given twice", param="move")
    return moves


def check_note(note: str | None) -> str | None:
    """Return the note of a version. Raise InvalidInput unless it is one short line of printable characters."""
    if note is not None and (len(note) > MAX_NOTE or not note.isprintable()):
        raise InvalidInput(f"note: one line of at most {MAX_NOTE} printable characters", param="note")
    return note
