"""The sessions that have open pages: each has one client of the API, shared by its pages and by nobody else."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from urllib.parse import urlencode

from mnema_client import AsyncMnema, AsyncMnemaOperator, MnemaError, NotFound, Unauthenticated
from nicegui import Client, background_tasks

from console.keys import PersonKey, describe_key, describe_operator
from console.session import Session, read_clock
from console.sockets import SessionSockets
from console.uploads import UploadSlots

log = logging.getLogger("console")
SIGN_IN = "/sign-in"
WATCHER = "watch the key of a session"
"""The name of the task that does it, one for each session with open pages."""
MOST_PAGES = 30
"""Open pages of a session. The next one closes the oldest."""
ENDINGS = {
    "revoked": "Your key is no longer valid. Sign in with another one.",
    "over": "Your session has ended. Sign in again.",
    "out": "You are signed out.",
}
"""Messages of the sign-in page, by the reason that its address gives."""


class OpenSession:
    """A session with open pages. `pages`: their clients of NiceGUI, by id.

    Its client of the API is `operator` in a session of the operator, and `memory` in any other.
    """

    def __init__(self, session: Session, memory: AsyncMnema, operator: AsyncMnemaOperator) -> None:
        self.session = session
        self.memory = memory
        self.operator = operator
        self.key = PersonKey()
        self.pages: dict[str, Client] = {}
        self.is_described = False
        self.watcher: asyncio.Task[None] | None = None

    async def describe(self) -> PersonKey:
        """Return the key's description; ask the API once. Raise MnemaError."""
        if not self.is_described:
            self.key = await self._ask_key()
            self.is_described = True
        return self.key

    async def is_revoked(self) -> bool:
        """Ask the API whether the key is revoked or expired. Raise MnemaError if the API does not say."""
        try:
            await self._ask_key()
        except Unauthenticated:
            return True
        except NotFound:  # the API has no operator key any more
            return self.session.is_operator
        return False

    async def _ask_key(self) -> PersonKey:
        return await (describe_operator(self.operator) if self.session.is_operator else describe_key(self.memory))

    async def close(self) -> None:
        """Close the clients of the API."""
        await self.memory.close()
        await self.operator.close()


class SessionRegistry:
    """The open sessions of this process, and the ids of sessions that ended before their hours were over.

    `check_s`: seconds between two checks of a session's key, while it has open pages.
    """

    def __init__(
        self,
        connect: Callable[[str], AsyncMnema],
        connect_operator: Callable[[str], AsyncMnemaOperator],
        check_s: float,
    ) -> None:
        self.uploads = UploadSlots()
        self.sockets = SessionSockets()
        self._connect = connect
        self._connect_operator = connect_operator
        self._check_s = check_s
        self._open: dict[str, OpenSession] = {}
        self._ended: dict[str, datetime] = {}

    def open_page(self, session: Session, client: Client) -> OpenSession:
        """Register a page of this session; return the session with its client of the API."""
        opened = self._open.get(session.id)
        if opened is None:
            clients = self._connect(session.api_key), self._connect_operator(session.api_key)
            opened = self._open[session.id] = OpenSession(session, *clients)
            opened.watcher = background_tasks.create(self._watch_key(opened), name=WATCHER)
        while len(opened.pages) >= MOST_PAGES:
            next(iter(opened.pages.values())).delete()
        opened.pages[client.id] = client
        client.on_delete(lambda: self._close_page(session.id, client.id))
        return opened

    def owns_page(self, session: Session, client_id: str) -> bool:
        """Tell whether this page belongs to this session."""
        opened = self._open.get(session.id)
        return opened is not None and client_id in opened.pages

    def is_ended(self, session: Session) -> bool:
        """Tell whether the session was ended: signed out, or its key was revoked."""
        return session.id in self._ended

    def end_session(self, session: Session, reason: str, now: datetime) -> None:
        """End a session: its cookie is refused from now on, and its open pages go to the sign-in page.

        `reason`: a key of ENDINGS. Only the first end of a session counts.
        """
        if self.is_ended(session):
            return
        self._ended = {i: end for i, end in self._ended.items() if end > now}
        self._ended[session.id] = session.expires_at
        opened = self._open.get(session.id)
        for client in list(opened.pages.values()) if opened else ():
            client.open(f"{SIGN_IN}?{urlencode({'reason': reason})}")
        self.sockets.end_sockets(session.id)

    async def _watch_key(self, opened: OpenSession) -> None:
        """Check the key of a session from time to time, until it ends. The end of its last page cancels this."""
        session = opened.session
        while not self.is_ended(session):
            await asyncio.sleep(self._check_s)
            try:
                if await opened.is_revoked():
                    self.end_session(session, "revoked", read_clock())
            except MnemaError as error:  # the pages themselves show that the API does not answer
                log.warning("the check of a session's key failed: %s", error.code)

    def _close_page(self, session_id: str, client_id: str) -> None:
        opened = self._open.get(session_id)
        if opened is None:
            return
        opened.pages.pop(client_id, None)
        if not opened.pages:
            del self._open[session_id]
            if opened.watcher is not None:
                opened.watcher.cancel()
            background_tasks.create(opened.close(), name="close the clients of a session")
