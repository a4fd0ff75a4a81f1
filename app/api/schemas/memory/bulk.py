"""Bodies of POST /memory/bulk and of the users' routes."""

from datetime import datetime

from mnema_wire.fields import Identifier
from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.memory.memories import MemoryIn


class BulkLineIn(MemoryIn):
    """One input line: a memory, and optionally its own idempotency key."""

    idempotency_key: Identifier | None = None


class ReceiptOut(BaseModel):
    """A receipt for an erasure."""

    model_config = ConfigDict(from_attributes=True)
    user_id: str
    erased_at: datetime
    counts: dict[str, int] = Field(
        description="rows deleted (memories, relations, events, …), rows blanked (history, changes), and tombstones",
        examples=[{"memories": 41, "history_blanked": 96, "changes_blanked": 12, "tombstones": 57}],
    )
