"""The Python client of Mnema: long-term memory for agents, stored in PostgreSQL.

with Mnema() as memory:
    memory.remember("Maya deploys on Thursdays.", user_id="maya", category="tasks")
    print(memory.query("when do we deploy?", agent="planner", filters={"user_id": "maya"}).prompt())
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mnema_wire.batches import Batch, BatchDone
    from mnema_wire.changes import ChangeEvent
    from mnema_wire.facts import Fact, FactReply, MemoryActions, NewFact, StoredFacts
    from mnema_wire.memory import Memory, NewMemory, Turn, Written
    from mnema_wire.recall import Answer, Citation, Filters, SearchAnswer, SearchResult, ThreadTurn
    from mnema_wire.receipts import MemoryUse, QueryReceipt, ToldItem, ToldQuery, Usage
    from mnema_wire.sources import DocumentSource, IndexJob, SourceFile, UploadedFile
    from mnema_wire.turn_trace import TurnTrace

    from mnema_client.batches import BatchFilters
    from mnema_client.bulk import BulkResult
    from mnema_client.client import AsyncMnema, Mnema
    from mnema_client.errors import (
        ApiError,
        BrokenOff,
        CannotBeSent,
        CannotConnect,
        Conflict,
        CursorOfOtherDatabase,
        InvalidRequest,
        LimitReached,
        MnemaError,
        NoAnswer,
        NoChatModel,
        NotAllowed,
        NotConfigured,
        NotFound,
        ServerError,
        TimedOut,
        Unauthenticated,
        Unavailable,
        UnexpectedAnswer,
        VersionConflict,
    )
    from mnema_client.operator import AsyncMnemaOperator, MnemaOperator
    from mnema_client.recall import AsyncRecallValve, RecallPolicy, RecallValve
    from mnema_client.transport import Retry

_NAMES_OF = {
    "mnema_wire.batches": ("Batch", "BatchDone"),
    "mnema_wire.changes": ("ChangeEvent",),
    "mnema_wire.facts": ("Fact", "FactReply", "MemoryActions", "NewFact", "StoredFacts"),
    "mnema_wire.memory": ("Memory", "NewMemory", "Turn", "Written"),
    "mnema_wire.recall": ("Answer", "Citation", "Filters", "SearchAnswer", "SearchResult", "ThreadTurn"),
    "mnema_wire.receipts": ("MemoryUse", "QueryReceipt", "ToldItem", "ToldQuery", "Usage"),
    "mnema_wire.sources": ("DocumentSource", "IndexJob", "SourceFile", "UploadedFile"),
    "mnema_wire.turn_trace": ("TurnTrace",),
    "mnema_client.batches": ("BatchFilters",),
    "mnema_client.bulk": ("BulkResult",),
    "mnema_client.client": ("AsyncMnema", "Mnema"),
    "mnema_client.errors": (
        "ApiError",
        "BrokenOff",
        "CannotBeSent",
        "CannotConnect",
        "Conflict",
        "CursorOfOtherDatabase",
        "InvalidRequest",
        "LimitReached",
        "MnemaError",
        "NoAnswer",
        "NoChatModel",
        "NotAllowed",
        "NotConfigured",
        "NotFound",
        "ServerError",
        "TimedOut",
        "Unauthenticated",
        "Unavailable",
        "UnexpectedAnswer",
        "VersionConflict",
    ),
    "mnema_client.operator": ("AsyncMnemaOperator", "MnemaOperator"),
    "mnema_client.recall": ("AsyncRecallValve", "RecallPolicy", "RecallValve"),
    "mnema_client.transport": ("Retry",),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}

__all__ = [
    "Answer",
    "ApiError",
    "AsyncMnema",
    "AsyncMnemaOperator",
    "AsyncRecallValve",
    "Batch",
    "BatchDone",
    "BatchFilters",
    "BrokenOff",
    "BulkResult",
    "CannotBeSent",
    "CannotConnect",
    "ChangeEvent",
    "Citation",
    "Conflict",
    "CursorOfOtherDatabase",
    "DocumentSource",
    "Fact",
    "FactReply",
    "Filters",
    "IndexJob",
    "InvalidRequest",
    "LimitReached",
    "Memory",
    "MemoryActions",
    "MemoryUse",
    "Mnema",
    "MnemaError",
    "MnemaOperator",
    "NewFact",
    "NewMemory",
    "NoAnswer",
    "NoChatModel",
    "NotAllowed",
    "NotConfigured",
    "NotFound",
    "QueryReceipt",
    "RecallPolicy",
    "RecallValve",
    "Retry",
    "SearchAnswer",
    "SearchResult",
    "ServerError",
    "SourceFile",
    "StoredFacts",
    "ThreadTurn",
    "TimedOut",
    "ToldItem",
    "ToldQuery",
    "Turn",
    "TurnTrace",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedAnswer",
    "UploadedFile",
    "Usage",
    "VersionConflict",
    "Written",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: errors and the transport load no model of a body."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(globals().keys() | _MODULE_OF.keys())
