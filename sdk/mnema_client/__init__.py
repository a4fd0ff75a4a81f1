"""The Python client of Mnema: long-term memory for agents, stored in PostgreSQL.

with Mnema() as memory:
    memory.remember("Maya deploys on Thursdays.", user_id="maya", category="tasks")
    print(memory.query("when do we deploy?", agent="planner", filters={"user_id": "maya"}).prompt())
"""

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
    Conflict,
    CursorOfOtherDatabase,
    InvalidRequest,
    LimitReached,
    MnemaError,
    NoAnswer,
    NoChatModel,
    NotAllowed,
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
