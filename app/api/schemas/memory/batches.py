"""Conversions between the bodies of /memory/batches and the domain."""

from mnema_wire import batches as wire
from mnema_wire.recall import RowFilters

from app.api.schemas.memory.memories import memory_body
from app.domain.filters import Filters
from app.domain.memory.batches import BatchEdit
from app.domain.memory.listing import MemoryListing, parse_metadata
from app.domain.where.parsing import parse_where
from app.usecases.memory.batch_plans import MatchingBatch
from app.usecases.memory.batches import BatchResult


def _to_listing(body: wire.BatchFilters) -> MemoryListing:
    """Return the list that the batch matches. Raise InvalidInput for an empty range."""
    names = (*RowFilters.model_fields, "thread_id", "tag", "created_after", "created_before")
    where = parse_where(body.where, "filters.where")
    return MemoryListing(
        filters=Filters(**{name: getattr(body, name) for name in names}, where=where),
        words=body.q,
        categories=tuple(body.category or ()),
        types=tuple(body.type or ()),
        metadata=tuple(map(parse_metadata, body.metadata or ())),
    )


def _to_edit(body: wire.BatchChanges) -> BatchEdit:
    """Return the domain object. Raise InvalidInput for a tag that is both added and removed."""
    return BatchEdit(
        category=body.category,
        importance=body.importance,
        pinned=body.pinned,
        add_tags=tuple(dict.fromkeys(body.add_tags)),
        remove_tags=tuple(dict.fromkeys(body.remove_tags)),
        metadata=body.metadata,
    )


def batch_done_body(result: BatchResult, *, dry_run: bool = False) -> wire.BatchDone:
    """Return the body for a result."""
    return wire.BatchDone(
        batch_id=result.batch_id,
        action=result.action.value,
        undoes=result.undoes,
        dry_run=dry_run,
        matched=result.matched,
        changed=result.changed,
        skipped=dict(result.skipped),
        left=[wire.LeftMemory.model_validate({"id": memory_id, "reason": reason}) for memory_id, reason in result.left],
        sample=[memory_body(memory) for memory in result.sample],
    )


def matching_batch(body: wire.BatchRequest) -> MatchingBatch:
    """Return the domain object of a body. Raise InvalidInput if `set` does not fit the action."""
    edit = _to_edit(body.changes or wire.BatchChanges()) if body.action == "edit" else None
    return MatchingBatch(_to_listing(body.filters), edit, body.expected)
