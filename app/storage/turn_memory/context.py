"""The index rows of a view, and the assistant signals of a user: each is one call of a function, one round trip."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mnema_wire.blocks import format_time

from app.domain.principal import Principal
from app.domain.turn_memory.active_set import parse_active_set
from app.domain.turn_memory.artifacts import Conversation, parse_index
from app.domain.turn_memory.views import ContextRows
from app.storage.statements import load_statements
from app.storage.uow import Row, UnitOfWork

_SQL = load_statements("turn_memory/context.sql")


@dataclass(frozen=True, slots=True)
class ContextLimits:
    """The number of rows of each part of a view.

    `window`: the newest fingerprints; `most`: these and those that are not reconciled yet. `always_window`: the window
    is read even if turns are selected. Rows made before `since` are not read.
    """

    since: datetime
    logs: int
    window: int
    most: int
    always_window: bool
    reactions: int
    signals: int


class ContextStorage:
    """Statements that read what the views show. They read no blob."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def read_context(
        self,
        principal: Principal,
        conversation: Conversation,
        turn_id: str | None,
        selection: Sequence[str] | None,
        limits: ContextLimits,
    ) -> ContextRows:
        """Return the rows of a view. `selection`: the selected turns; None: those of the active set."""
        named = None if selection is None else list(selection)
        rows = await self._uow.call_anywhere(
            principal,
            _SQL["context"],
            *conversation,
            turn_id,
            named,
            limits.since,
            limits.always_window,
            limits.logs,
            limits.window,
            limits.most,
            limits.reactions,
            limits.signals,
        )
        return _context_of(rows)

    async def list_signals(
        self, principal: Principal, user_id: str, since: datetime, limit: int, tag: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the newest fingerprints of the user with assistant signals, each with its `conversation_id`.

        `tag`: only those with this tag.
        """
        rows = await self._uow.call_anywhere(principal, _SQL["signals"], user_id, since, limit, tag)
        return [_signals_of(row) for row in rows]


def _context_of(rows: Sequence[Row]) -> ContextRows:
    parts: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        parts[row["part"]].append(row)
    objects = {part: [json.loads(row["content"]) for row in found] for part, found in parts.items() if part in _PLAIN}
    active_set, current_log, current = (
        next(iter(objects.get(part, ())), None) for part in ("active_set", "current_log", "current")
    )
    return ContextRows(
        active_set=None if active_set is None else parse_active_set(active_set),
        logs=objects.get("log", ()),
        window=objects.get("window", ()),
        named=objects.get("named", ()),
        current_log=current_log,
        current=current,
        feedback=[_reaction_of(row) for row in parts["reaction"]],
        signals=[_signals_of(row) for row in parts["signal"]],
    )


_PLAIN = frozenset({"active_set", "log", "window", "named", "current_log", "current"})


def _reaction_of(row: Row) -> dict[str, Any]:
    """Return a reaction, with the turn and the time of its row."""
    place = {"turn_id": row["turn_id"], "ts": format_time(row["made_at"])}
    return {**parse_index(row["content"]), **place}


def _signals_of(row: Row) -> dict[str, Any]:
    return {**json.loads(row["content"]), "conversation_id": row["conversation_id"]}
