"""A user's consented context and the proposals to change it. The journal writes their history."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final
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
_SQL: Final = load_statements("consent/patches.sql", columns=_COLUMNS)


class ConsentStorage:
    """Statements on proposals and context. The caller of a write must hold the lock on the user's row."""

    async def is_known_user(self, tx: ReadTx, principal: Principal, user_id: str) -> bool:
        """Tell whether anything is stored about the user that this key may know of.

        In a write transaction, lock the user's row, so that decisions about one user run one after the other.
        """
        if isinstance(tx, WriteTx) and await tx.fetchrow(_SQL["lock_user"], principal.tenant_id, user_id) is None:
            return False
        return bool(await tx.fetchval(_SQL["known"], principal.tenant_id, user_id, principal.category_list))

    async def ensure_user(self, tx: WriteTx, principal: Principal, user_id: str) -> None:
        """Store the user if they are new, and lock their row. Raise WriteContention if an erasure got in between."""
        await tx.execute(_SQL["ensure_user"], principal.tenant_id, user_id)
        if await tx.fetchrow(_SQL["lock_user"], principal.tenant_id, user_id) is None:
            raise WriteContention

    async def is_erased(self, tx: WriteTx, principal: Principal, hashes: Sequence[bytes]) -> bool:
        """Tell whether one of these hashes is a tombstone."""
        return bool(await tx.fetchval(_SQL["erased"], principal.tenant_id, list(hashes)))

    async def load_signals(
        self, tx: WriteTx, principal: Principal, patch: Patch, memory_ids: Sequence[UUID], now: datetime
    ) -> list[Signal]:
        """Return memories as signals for a proposal.

        Leave out memories that say nothing about this user, and those that the key may not see.
        """
        rows = await tx.fetch(
            _SQL["signals"], principal.tenant_id, patch.user_id, list(memory_ids), principal.category_list
        )
        return [_signal_from_memory(patch, row, principal.actor_name, now) for row in rows]

    async def load_patch(self, tx: ReadTx, principal: Principal, user_id: str, patch_id: UUID) -> Patch | None:
        """Return a proposal, or None; lock its row if the transaction may write."""
        if isinstance(tx, WriteTx):
            await tx.fetchval(_SQL["lock_patch"], principal.tenant_id, user_id, patch_id)
        row = await tx.fetchrow(_SQL["patch"], principal.tenant_id, user_id, patch_id)
        return _patch_from_row(row) if row else None

    async def find_same_value(
        self, tx: WriteTx, principal: Principal, user_id: str, name: str, value: str
    ) -> tuple[Patch, bool] | None:
        """Return the newest proposal of the same value and whether it is the current value, or None."""
        row = await tx.fetchrow(_SQL["same_value"], principal.tenant_id, user_id, name, value_key(value))
        return (_patch_from_row(row), row["stands"]) if row else None

    async def count_existing(
        self, tx: WriteTx, principal: Principal, user_id: str, name: str, now: datetime
    ) -> tuple[int, int]:
        """Return the number of the user's pending proposals and the number of the field's values."""
        row = await tx.fetchrow(_SQL["count_existing"], principal.tenant_id, user_id, name, now)
        assert row is not None
        return row["pending"], row["values"]

    async def insert_patch(self, tx: WriteTx, principal: Principal, patch: Patch) -> None:
        """Store a new proposal."""
        key = value_key(patch.value)
        signals = [_signal_row(s) for s in patch.signals]
        await tx.execute(
            _SQL["insert_patch"],
            principal.tenant_id,
            patch.id,
            patch.user_id,
            patch.field,
            patch.value,
            key,
            patch.sensitive,
            signals,
            patch.actor,
            patch.thread_id,
            patch.created_at,
            patch.expires_at,
            list(patch.keys),
        )

    async def update_signals(self, tx: WriteTx, principal: Principal, patch: Patch) -> None:
        """Store the current signals and proposing keys of a proposal."""
        signals = [_signal_row(s) for s in patch.signals]
        await tx.execute(_SQL["update_signals"], principal.tenant_id, patch.id, signals, list(patch.keys))

    async def close_patch(
        self,
        tx: WriteTx,
        principal: Principal,
        patch: Patch,
        state: PatchState,
        now: datetime,
        by: str,
        way: DecisionWay,
        answer: UUID | None = None,
    ) -> None:
        """Store the decision on a proposal and delete its question. `answer`: the turn that decides it in a chat.

        Raise WrongState if it was decided before.
        """
        await tx.execute(_SQL["close"], principal.tenant_id, patch.id, state, now, by, way, answer)
        await tx.execute(_SQL["delete_question"], principal.tenant_id, patch.id)

    async def put_value(
        self, tx: WriteTx, principal: Principal, patch: Patch, now: datetime
    ) -> tuple[str, UUID] | None:
        """Store the proposed value; return the value it replaces and that one's proposal, or None."""
        where = principal.tenant_id, patch.user_id, patch.field, value_item(patch.field, patch.value)
        before = await tx.fetchrow(_SQL["value"], *where)
        await tx.execute(_SQL["put_value"], *where, patch.value, patch.id, now)
        return (before["value"], before["patch_id"]) if before else None

    async def load_values(self, tx: ReadTx, principal: Principal, user_id: str) -> list[ContextValue]:
        """Return all values of the user, oldest first."""
        return [ContextValue(**dict(row)) for row in await tx.fetch(_SQL["values"], principal.tenant_id, user_id)]

    async def delete_values(
        self, tx: WriteTx, principal: Principal, user_id: str, name: str, value: str | None
    ) -> list[tuple[str, UUID]]:
        """Delete all values of a field, or only `value`; return the deleted values and their proposals."""
        item = None if value is None else value_item(name, value)
        rows = await tx.fetch(_SQL["delete_values"], principal.tenant_id, user_id, name, item)
        return [(row["value"], row["patch_id"]) for row in rows]

    async def has_field(self, tx: ReadTx, principal: Principal, user_id: str, name: str) -> bool:
        """Tell whether a value of this field was ever proposed for the user."""
        return bool(await tx.fetchval(_SQL["has_field"], principal.tenant_id, user_id, name))

    async def load_page(
        self,
        tx: ReadTx,
        principal: Principal,
        user_id: str,
        state: PatchState | None,
        now: datetime,
        after: Position | None,
        limit: int,
    ) -> list[Patch]:
        """Return the proposals behind `after`, newest first, at most `limit`."""
        rows = await tx.fetch(_SQL["page"], principal.tenant_id, user_id, state, now, *(after or (None, None)), limit)
        return [_patch_from_row(row) for row in rows]

    async def newest_turn(self, tx: WriteTx, principal: Principal, user_id: str, thread_id: str) -> ThreadTurn | None:
        """Return the thread's newest turn, or None if it changed or is another user's; block new turns meanwhile."""
        await tx.fetchval(_SQL["lock_thread"], principal.tenant_id, thread_id)
        row = await tx.fetchrow(_SQL["newest_turn"], principal.tenant_id, thread_id, user_id, principal.category_list)
        return ThreadTurn(**dict(row)) if row else None

    async def store_question(self, tx: WriteTx, principal: Principal, question: Question) -> None:
        """Store the question that the user is asked in this thread. It replaces an earlier question."""
        await self.delete_question(tx, principal, question.patch_id)
        await tx.execute(
            _SQL["store_question"],
            principal.tenant_id,
            question.thread_id,
            question.user_id,
            question.patch_id,
            question.question,
            question.rev,
            question.asked_at,
            question.turn_id,
            question.key_id,
        )
        if question.key_id is not None:
            await tx.execute(_SQL["bar_key"], principal.tenant_id, question.patch_id, question.key_id)

    async def is_turn_unchanged(self, tx: WriteTx, principal: Principal, question: Question) -> bool:
        """Tell whether the assistant's turn that asks is unchanged."""
        return bool(await tx.fetchval(_SQL["turn_unchanged"], principal.tenant_id, question.turn_id))

    async def delete_question(self, tx: WriteTx, principal: Principal, patch_id: UUID) -> None:
        """Delete the proposal's question: it is no longer open."""
        await tx.execute(_SQL["delete_question"], principal.tenant_id, patch_id)

    async def load_question(self, tx: ReadTx, principal: Principal, thread_id: str) -> Question | None:
        """Return the open question of a thread, or None."""
        row = await tx.fetchrow(_SQL["question"], principal.tenant_id, thread_id)
        return Question(**dict(row)) if row else None

    async def load_changes(
        self, tx: WriteTx, principal: Principal, question: Question, limit: int
    ) -> list[ThreadChange]:
        """Return what happened in the thread since the question was asked, oldest first."""
        rows = await tx.fetch(_SQL["changes"], principal.tenant_id, question.thread_id, question.rev, limit)
        return [ThreadChange(**dict(row)) for row in rows]

    async def lock_due_patches(self, tx: WriteTx, principal: Principal, now: datetime, limit: int) -> list[Patch]:
        """Return pending proposals that are past their time, with their rows locked."""
        return [_patch_from_row(row) for row in await tx.fetch(_SQL["due"], principal.tenant_id, now, limit)]

    async def count_due(self, tx: ReadTx, principal: Principal, now: datetime) -> int:
        """Return the number of pending proposals that are past their time."""
        return int(await tx.fetchval(_SQL["count_due"], principal.tenant_id, now))


async def consent_texts(tx: WriteTx, principal: Principal, user_id: str) -> list[str]:
    """Return the texts that become tombstones when the user is erased."""
    rows = await tx.fetch(_SQL["texts"], principal.tenant_id, user_id)
    return [erasure_text(row["field"], row["value"]) for row in rows]


async def erase_consent(tx: WriteTx, principal: Principal, user_id: str) -> dict[str, int]:
    """Delete the user's context in the transaction of their erasure; return counts by table.

    History rows stay, without text.
    """
    counts: dict[str, int] = await tx.fetchval(_SQL["erase"], principal.tenant_id, user_id, principal.actor_name)
    return counts


def value_item(name: str, value: str) -> str:
    """Return the key of a value within its field; empty for a field with a single value."""
    return value_key(value).hex() if name.endswith(MULTI_VALUE_SUFFIX) else ""


def _patch_from_row(row: Mapping[str, Any]) -> Patch:
    values = {name: row[name] for name in _PLAIN.split(", ")}
    question = None
    if row["question"] is not None:
        question = Question(
            row["id"],
            row["user_id"],
            row["asked_in"],
            row["question"],
            row["rev"],
            row["asked_at"],
            row["turn_id"],
            row["key_id"],
        )
    signals = tuple(_signal_from_row(s) for s in row["signals"])
    parsed = {"state": PatchState(row["state"]), "signals": signals, "question": question, "keys": tuple(row["keys"])}
    return Patch(**{**values, **parsed})


def _signal_from_memory(patch: Patch, row: Mapping[str, Any], actor: str, now: datetime) -> Signal:
    supports = states_field_value(patch.field, patch.value, row["said"])
    return Signal(row["id"], row["root"], row["kind"], row["confidence"], actor, now, supports)


def _signal_row(signal: Signal) -> dict[str, Any]:
    return asdict(signal) | {"memory_id": str(signal.memory_id), "at": signal.at.isoformat()}


def _signal_from_row(row: Mapping[str, Any]) -> Signal:
    return Signal(**{**row, "memory_id": UUID(row["memory_id"]), "at": datetime.fromisoformat(row["at"])})
