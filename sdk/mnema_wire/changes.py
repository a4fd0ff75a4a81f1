"""The stream of changes."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import ConfigDict, Field

from mnema_wire.bases import Answered, words
from mnema_wire.memory import CHANGES, Memory


class ChangeEvent(Answered):
    """A change of a memory. Of a purged or erased memory only the id is left; the other fields are null."""

    model_config = ConfigDict(from_attributes=True)
    id: str = Field(description="the cursor behind this event, also its Last-Event-ID")
    event: Annotated[str, words(*CHANGES)]
    memory_id: str
    category: str | None = Field(description="the category after the change")
    type: str | None
    user_id: str | None
    version: int | None = Field(description="the version of the memory after the change; null if it made none")
    time: datetime = Field(description="when it changed")
    memory: Memory | None = Field(
        default=None, description="the memory as it is now; null unless asked for, or if it is gone or hidden"
    )


class ChangesEnd(Answered):
    """The last line of a page of changes. Pass `next_cursor` as `after` to go on; if `more` is true, do so at once."""

    tenant_id: UUID = Field(description="the key's tenant; a cursor is of its tenant")
    next_cursor: str
    more: bool = Field(description="whether further records follow")
