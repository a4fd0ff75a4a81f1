"""Categories that new rules lack: refuse the rules while they hold memories, or move the memories."""

from collections.abc import Collection, Mapping, Sequence

from app.domain.categories import PROCEDURAL, CategoryPolicy
from app.domain.changes import ChangeKind, MemoryChange, Observation
from app.domain.facts.fact import FactOperation, FactStatement
from app.domain.memory.memory import MemoryState
from app.domain.memory.transitions import Transition, superseding_fields, transition_meta
from app.domain.principal import Principal
from app.domain.tenancy.rules import MAX_MOVED, CategoryInUse, InvalidConfig
from app.ports import Clock
from app.storage.journal import Journal
from app.storage.memory.batches import BatchStorage
from app.storage.tenancy.configs import MovingMemory, TenantConfigStorage
from app.storage.uow import WriteTx

BATCH = 200
MAX_SHOWN = 20


def check_moves(categories: CategoryPolicy, moves: Mapping[str, str]) -> None:
    """Raise InvalidConfig for a move from a category that stays, or to one that does not exist."""
    for old, new in moves.items():
        if PROCEDURAL in (old, new):
            raise InvalidConfig(f"move: procedures cannot change their category {PROCEDURAL!r}")
        if old in categories.categories:
            raise InvalidConfig(
                f"move: the new rules have the category {old[:100]!r}; only one that they lack can move"
            )
        if new not in categories.categories:
            shown = ", ".join(list(categories.categories)[:MAX_SHOWN])
            raise InvalidConfig(f"move: unknown category {new[:100]!r}; the new rules have: {shown}")


def refuse_held(held: Mapping[str, Mapping[str, int]], moves: Mapping[str, str], dropped: Collection[str]) -> None:
    """Raise CategoryInUse for a dropped category that holds rows and does not move, and for too many to move.

    `held`: rows by category and kind.
    """
    kept = {name: rows for name, rows in held.items() if name in dropped and name not in moves and any(rows.values())}
    placed = {name: rows for name, rows in held.items() if name in moves and rows.get("sources")}
    if kept or placed:
        wrong = [f"{name!r} holds {describe_rows(rows)}" for name, rows in sorted((kept | placed).items())]
        way = "remove its sources first" if placed else "keep it, or move them: ?move=old:new"
        counts = {name: sum(rows.values()) for name, rows in (kept | placed).items()}
        raise CategoryInUse(
            f"category {'; '.join(wrong[:MAX_SHOWN])}; {way}", categories=sorted(kept | placed), counts=counts
        )
    total = sum(sum(rows.values()) for name, rows in held.items() if name in moves)
    if total > MAX_MOVED:
        raise CategoryInUse(
            f"{total} memories and facts would move, at most {MAX_MOVED} at once; edit memories first",
            categories=sorted(moves),
            counts={name: sum(held[name].values()) for name in moves if name in held},
        )


def describe_rows(rows: Mapping[str, int]) -> str:
    """Return what a category holds: `3 memories, 1 facts`."""
    return ", ".join(f"{count} {kind}" for kind, count in rows.items() if count)


class MoveCategories:
    """The step that moves a category's memories to another one, each as a journaled change."""

    def __init__(self, storage: TenantConfigStorage, batches: BatchStorage, journal: Journal, clock: Clock) -> None:
        self._storage = storage
        self._batches = batches
        self._journal = journal
        self._clock = clock

    async def lock_categories(self, tx: WriteTx, principal: Principal, categories: Collection[str]) -> None:
        """Lock what the moves of these categories change: users, then memories, then threads, as every writer does."""
        ids, users = await self._storage.list_moving(tx, principal, categories)
        await self._storage.lock_users(tx, principal, users)
        await self._batches.lock_memories(tx, principal, ids)

    async def move_memories(self, tx: WriteTx, principal: Principal, category: str, target: str) -> None:
        """Move memories in any state and facts. A memory whose text is active there already is superseded by it."""
        after = None
        while batch := await self._storage.lock_memories(tx, principal, category, target, after, BATCH):
            changes = [self._move_change(principal, moving, target) for moving in batch]
            await self._journal.record(principal, changes, tx=tx)
            after = batch[-1].memory.id
        moved = await self._storage.move_facts(tx, principal, category, target)
        statements = [self._retelling(user_id, topics, target) for user_id, topics in moved]
        for start in range(0, len(statements), BATCH):
            await self._journal.record(principal, [], facts=statements[start : start + BATCH], tx=tx)

    def _retelling(self, user_id: str, topics: Sequence[str], category: str) -> FactStatement:
        """Return the statement that moves the memories of a user's facts behind the facts."""
        operations = tuple(FactOperation("retell", topic) for topic in topics)
        return FactStatement(user_id, None, category, operations, self._clock.now())

    def _move_change(self, principal: Principal, moving: MovingMemory, target: str) -> MemoryChange:
        memory = moving.memory
        now = self._clock.now()
        meta = {"reason": "rules", "from_category": memory.category}
        fields = {"category": target, "updated_at": now}
        if moving.same is not None:
            fields |= superseding_fields(
                now,
                successor=moving.same,
                ends_at=now,
                valid_from=memory.valid_from,
                valid_to=memory.valid_to,
            )
            meta |= transition_meta(Transition.supersede)
        told = moving.same is None and memory.state is MemoryState.active
        event = Observation("hotpath", "update", "ok", memory.user_id, memory.thread_id, memory.id, target)
        return MemoryChange(
            kind=ChangeKind.updated if told else ChangeKind.superseded,
            memory_id=memory.id,
            user_id=memory.user_id,
            actor=principal.actor_name,
            fields=fields,
            threads=(memory.thread_id,) if told and memory.thread_id is not None else (),
            new_ref=str(moving.same) if moving.same else None,
            history_meta=meta,
            observations=(event,),
        )
