"""What is known of a user with their consent, and what is proposed to be. History is the journal's."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from app.domain.consent.answers import ThreadChange, ThreadTurn
from app.domain.consent.patches import (
    MULTI_VALUE_SUFFIX,
    ContextValue,
    DecisionWay,
    Patch,
    PatchState,
    Question,
    Signal,
    erasure_text,
    states_field_value,
    value_key,
)
from app.domain.outages import WriteContention
from app.domain.paging import Position
from app.domain.principal import Principal
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, WriteTx

_PLAIN = (
    "id, user_id, field, value, sensitive, state, actor, created_at, expires_at, signals, thread_id, decided_at, "
    "decided_by, way, keys"
)
_COLUMNS = ", ".join(f"p.{name}" for name in _PLAIN.split(", ")) + (
    ", q.thread_id AS asked_in, q.question, q.rev, q.asked_at, q.turn_id, q.key_id"
)


class ConsentStorage:
    """Each method is part of a transaction that holds the user's row, but for what only reads."""

    async def is_known_user(self, tx: ReadTx, scope: Principal, user_id: str) -> bool:
        """Whether anything is held of a user that this key may know of; their row is locked if this transaction may
        decide about them: whoever else does is waited for."""
        if (
            isinstance(tx, WriteTx)
            and await tx.fetchrow(_format_statement("lock_user"), scope.tenant_id, user_id) is None
        ):
            return False
        return bool(await tx.fetchval(_format_statement("known"), scope.tenant_id, user_id, scope.category_list))

    async def ensure_user(self, tx: WriteTx, scope: Principal, user_id: str) -> None:
        """Make the user known, as a write of a memory does, and lock their row. Raises WriteContention when an erasure
        was in the way."""
        await tx.execute(_format_statement("know_user"), scope.tenant_id, user_id)
        if await tx.fetchrow(_format_statement("lock_user"), scope.tenant_id, user_id) is None:
            raise WriteContention

    async def is_erased(self, tx: WriteTx, scope: Principal, hashes: Sequence[bytes]) -> bool:
        """Whether one of these was erased."""
        return bool(await tx.fetchval(_format_statement("erased"), scope.tenant_id, list(hashes)))

    async def load_signals(
        self, tx: WriteTx, scope: Principal, patch: Patch, memory_ids: Sequence[UUID], now: datetime
    ) -> list[Signal]:
        """Memories as signals for a proposal, without those that tell nothing of this user or that the key may not
        see."""
        rows = await tx.fetch(
            _format_statement("evidence"), scope.tenant_id, patch.user_id, list(memory_ids), scope.category_list
        )
        return [_signal_from_memory(patch, row, scope.actor_name, now) for row in rows]

    async def load_patch(self, tx: ReadTx, scope: Principal, user_id: str, patch_id: UUID) -> Patch | None:
        """A proposal; its row is locked if this transaction may change it."""
        if isinstance(tx, WriteTx):
            await tx.fetchval(_format_statement("lock_patch"), scope.tenant_id, user_id, patch_id)
        row = await tx.fetchrow(_format_statement("patch"), scope.tenant_id, user_id, patch_id)
        return _patch_from_row(row) if row else None

    async def find_same_value(
        self, tx: WriteTx, scope: Principal, user_id: str, name: str, value: str
    ) -> tuple[Patch, bool] | None:
        """The newest proposal of the same value, and whether it is what is known now."""
        row = await tx.fetchrow(_format_statement("same"), scope.tenant_id, user_id, name, value_key(value))
        return (_patch_from_row(row), row["stands"]) if row else None

    async def count_existing(
        self, tx: WriteTx, scope: Principal, user_id: str, name: str, now: datetime
    ) -> tuple[int, int]:
        """How many proposals of the user wait, and how many values the field has."""
        row = await tx.fetchrow(_format_statement("room"), scope.tenant_id, user_id, name, now)
        assert row is not None
        return row["pending"], row["values"]

    async def insert_patch(self, tx: WriteTx, scope: Principal, patch: Patch) -> None:
        """Store a proposal."""
        key, signals = value_key(patch.value), [_signal_row(s) for s in patch.signals]
        values = (patch.id, patch.user_id, patch.field, patch.value, key, patch.sensitive, signals, patch.actor)
        times = (patch.thread_id, patch.created_at, patch.expires_at)
        await tx.execute(_format_statement("propose"), scope.tenant_id, *values, *times, list(patch.keys))

    async def update_signals(self, tx: WriteTx, scope: Principal, patch: Patch) -> None:
        """Store the signals and the proposing keys it has now."""
        signals = [_signal_row(s) for s in patch.signals]
        await tx.execute(_format_statement("join"), scope.tenant_id, patch.id, signals, list(patch.keys))

    async def close_patch(
        self,
        tx: WriteTx,
        scope: Principal,
        patch: Patch,
        state: PatchState,
        now: datetime,
        by: str,
        way: DecisionWay,
        answer: UUID | None = None,
    ) -> None:
        """Decide; its question is answered with that. `answer`: the turn that decides it in a chat.

        Raises WrongState when it was decided before.
        """
        await tx.execute(_format_statement("close"), scope.tenant_id, patch.id, state, now, by, way, answer)
        await tx.execute(_format_statement("unask"), scope.tenant_id, patch.id)

    async def put_value(self, tx: WriteTx, scope: Principal, patch: Patch, now: datetime) -> tuple[str, UUID] | None:
        """Make it known; the value it takes the place of, and that one's proposal."""
        where = scope.tenant_id, patch.user_id, patch.field, value_item(patch.field, patch.value)
        before = await tx.fetchrow(_format_statement("value"), *where)
        await tx.execute(_format_statement("put_value"), *where, patch.value, patch.id, now)
        return (before["value"], before["patch_id"]) if before else None

    async def load_values(self, tx: ReadTx, scope: Principal, user_id: str) -> list[ContextValue]:
        """All that is known, oldest first."""
        return [
            ContextValue(**dict(row)) for row in await tx.fetch(_format_statement("values"), scope.tenant_id, user_id)
        ]

    async def delete_values(
        self, tx: WriteTx, scope: Principal, user_id: str, name: str, value: str | None
    ) -> list[tuple[str, UUID]]:
        """Forget a field's values, or the one that is given; what they were, and their proposals."""
        item = None if value is None else value_item(name, value)
        rows = await tx.fetch(_format_statement("withdraw"), scope.tenant_id, user_id, name, item)
        return [(row["value"], row["patch_id"]) for row in rows]

    async def load_page(
        self,
        tx: ReadTx,
        scope: Principal,
        user_id: str,
        state: PatchState | None,
        now: datetime,
        after: Position | None,
        limit: int,
    ) -> list[Patch]:
        """Newest first, at most `limit`, starting behind `after`."""
        rows = await tx.fetch(
            _format_statement("page"), scope.tenant_id, user_id, state, now, *(after or (None, None)), limit
        )
        return [_patch_from_row(row) for row in rows]

    async def newest_turn(self, tx: WriteTx, scope: Principal, user_id: str, thread_id: str) -> ThreadTurn | None:
        """The newest turn of a thread, if it is this user's and unchanged; no turn is stored there meanwhile."""
        await tx.fetchval(_format_statement("lock_thread"), scope.tenant_id, thread_id)
        row = await tx.fetchrow(
            _format_statement("newest_turn"), scope.tenant_id, thread_id, user_id, scope.category_list
        )
        return ThreadTurn(**dict(row)) if row else None

    async def store_question(self, tx: WriteTx, scope: Principal, question: Question) -> None:
        """Note what the user is asked, in this thread alone."""
        await self.delete_question(tx, scope, question.patch_id)
        where = scope.tenant_id, question.thread_id, question.user_id, question.patch_id
        how = question.question, question.rev, question.asked_at, question.turn_id, question.key_id
        await tx.execute(_format_statement("ask"), *where, *how)
        if question.key_id is not None:
            await tx.execute(_format_statement("bar"), scope.tenant_id, question.patch_id, question.key_id)

    async def is_turn_unchanged(self, tx: WriteTx, scope: Principal, question: Question) -> bool:
        """Whether the assistant's turn that asks is still as it was."""
        return bool(await tx.fetchval(_format_statement("stands"), scope.tenant_id, question.turn_id))

    async def delete_question(self, tx: WriteTx, scope: Principal, patch_id: UUID) -> None:
        """The question is not open any more."""
        await tx.execute(_format_statement("unask"), scope.tenant_id, patch_id)

    async def load_question(self, tx: ReadTx, scope: Principal, thread_id: str) -> Question | None:
        """The open question of a thread."""
        row = await tx.fetchrow(_format_statement("question"), scope.tenant_id, thread_id)
        return Question(**dict(row)) if row else None

    async def load_changes(self, tx: WriteTx, scope: Principal, question: Question, limit: int) -> list[ThreadChange]:
        """What happened in the thread since it was asked, oldest first."""
        rows = await tx.fetch(_format_statement("told"), scope.tenant_id, question.thread_id, question.rev, limit)
        return [ThreadChange(**dict(row)) for row in rows]

    async def lock_due_patches(self, tx: WriteTx, scope: Principal, now: datetime, limit: int) -> list[Patch]:
        """Proposals that nobody decided in time, locked."""
        return [_patch_from_row(row) for row in await tx.fetch(_format_statement("due"), scope.tenant_id, now, limit)]

    async def count_due(self, tx: ReadTx, scope: Principal, now: datetime) -> int:
        """How many there are."""
        return int(await tx.fetchval(_format_statement("count_due"), scope.tenant_id, now))


async def consent_texts(tx: WriteTx, scope: Principal, user_id: str) -> list[str]:
    """What tombstones of a person's context are made of."""
    rows = await tx.fetch(_format_statement("texts"), scope.tenant_id, user_id)
    return [erasure_text(row["field"], row["value"]) for row in rows]


async def erase_consent(tx: WriteTx, scope: Principal, user_id: str) -> dict[str, int]:
    """Remove a person's context, in the transaction of their erasure; how much. History stays without text."""
    counts: dict[str, int] = await tx.fetchval(_format_statement("erase"), scope.tenant_id, user_id, scope.actor_name)
    return counts


def value_item(name: str, value: str) -> str:
    """Which of a field's values it is; most fields have one only."""
    return value_key(value).hex() if name.endswith(MULTI_VALUE_SUFFIX) else ""


@cache
def _format_statement(name: str) -> str:
    return load_statements("consent/patches.sql")[name].format(columns=_COLUMNS)


def _patch_from_row(row: Mapping[str, Any]) -> Patch:
    values = {name: row[name] for name in _PLAIN.split(", ")}
    asked = None
    if row["question"] is not None:
        where = row["id"], row["user_id"], row["asked_in"]
        asked = Question(*where, row["question"], row["rev"], row["asked_at"], row["turn_id"], row["key_id"])
    signals = tuple(_signal_from_row(s) for s in row["signals"])
    told = {"state": PatchState(row["state"]), "signals": signals, "question": asked, "keys": tuple(row["keys"])}
    return Patch(**{**values, **told})


def _signal_from_memory(patch: Patch, row: Mapping[str, Any], actor: str, now: datetime) -> Signal:
    says = states_field_value(patch.field, patch.value, row["said"])
    return Signal(row["id"], row["root"], row["kind"], row["confidence"], actor, now, says)


def _signal_row(signal: Signal) -> dict[str, Any]:
    return asdict(signal) | {"memory_id": str(signal.memory_id), "at": signal.at.isoformat()}


def _signal_from_row(row: Mapping[str, Any]) -> Signal:
    return Signal(**{**row, "memory_id": UUID(row["memory_id"]), "at": datetime.fromisoformat(row["at"])})
