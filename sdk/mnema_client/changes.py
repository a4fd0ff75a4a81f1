"""The stream of changes: a page of it, and an iterator that goes on where a broken stream ended."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
from mnema_wire.changes import ChangeEvent, ChangesEnd
from pydantic import BaseModel

from mnema_client.calls import query_params, where_text
from mnema_client.errors import BrokenOff, error_from_problem
from mnema_client.methods import AsyncClient, Method, SyncClient
from mnema_client.streams import EVENTS, Event
from mnema_client.transport import Call

AGAIN_S: Final = 1.0
"""The longest wait before a broken stream is opened again."""


class ChangesPage(BaseModel):
    """Events, oldest first, and the last line of their page."""

    events: list[ChangeEvent]
    end: ChangesEnd


def changes_page(
    user_id: str | None = None,
    *,
    where: Mapping[str, Any] | str | None = None,
    after: str | None = None,
    memory: bool = False,
    limit: int | None = None,
) -> Call[ChangesPage]:
    """Return the changes behind a cursor: `after` is the id of the last event, or the `next_cursor` of a page.

    `where`: only the changes of memories that match, after the change or before it. Without a cursor the page has no
    events and says where changes begin now; `start` is before the first change. With
    `memory`, each event has the memory as it is now. Raise CursorOfOtherDatabase after a restore: then list all
    memories again, and begin without a cursor.
    """
    whose = {"user_id": user_id, "where": where_text(where)}
    params = query_params(**whose, after=after, memory=memory or None, limit=limit)
    return Call("GET", "/changes", _read_page, params)


def _read_page(response: httpx.Response) -> ChangesPage:
    *events, end = [json.loads(line) for line in response.content.split(b"\n") if line.strip()]
    return ChangesPage.model_validate({"events": events, "end": end})


@dataclass
class FollowedChanges:
    """A stream that is opened again when it breaks. `after`: the cursor of all that was read."""

    user_id: str | None
    where: Mapping[str, Any] | str | None
    after: str | None
    memory: bool
    headers: dict[str, str] = field(default_factory=lambda: {"Accept": EVENTS})

    def build_call(self) -> Call[None]:
        """Return the call that opens the stream behind what was read."""
        whose = {"user_id": self.user_id, "where": where_text(self.where)}
        params = query_params(**whose, after=self.after, memory=self.memory or None)
        return Call("GET", "/changes", lambda _response: None, params, headers=self.headers)

    def read_event(self, event: Any) -> ChangeEvent | None:
        """Return a change, None for a heartbeat. Raise the error that the server tells of."""
        if not isinstance(event, Event):
            return None
        if event.name == "error":
            raise error_from_problem(event.data)
        self.after = str(event.data["id"])
        return None if event.name == "heartbeat" else ChangeEvent.model_validate(event.data)


class ChangeMethods:
    """The method of both clients on changes."""

    changes_page = Method(changes_page)


class SyncChangeMethods(SyncClient):
    """The method of `Mnema` that follows changes."""

    def changes(
        self,
        user_id: str | None = None,
        *,
        where: Mapping[str, Any] | str | None = None,
        after: str | None = None,
        memory: bool = False,
    ) -> Iterator[ChangeEvent]:
        """Yield the changes behind `after` as they come, without end. Without it, begin now.

        Keep the `id` of the last event that you dealt with, and pass it as `after` to go on later. A stream that
        breaks is opened again; MnemaError is raised if that fails for longer than `retry` allows. With `memory`, each
        event has the memory as it is now; `where`: only the changes of memories that match. After CursorOfOtherDatabase
        list all memories again.
        """
        followed = FollowedChanges(user_id, where, after, memory)
        while True:
            try:
                for event in self._sender.stream_documents(followed.build_call()):
                    if (change := followed.read_event(event)) is not None:
                        yield change
            except BrokenOff:
                pass
            time.sleep(random.uniform(0, AGAIN_S))


class AsyncChangeMethods(AsyncClient):
    """The method of `AsyncMnema` that follows changes."""

    async def changes(
        self,
        user_id: str | None = None,
        *,
        where: Mapping[str, Any] | str | None = None,
        after: str | None = None,
        memory: bool = False,
    ) -> AsyncIterator[ChangeEvent]:
        """Yield the changes behind `after` as they come, without end, as `Mnema.changes` does."""
        followed = FollowedChanges(user_id, where, after, memory)
        while True:
            try:
                async for event in self._sender.stream_documents(followed.build_call()):
                    if (change := followed.read_event(event)) is not None:
                        yield change
            except BrokenOff:
                pass
            await asyncio.sleep(random.uniform(0, AGAIN_S))
