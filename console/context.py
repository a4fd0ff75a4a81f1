"""The context of one open page: the person's client of the API, the key, and the handling of errors."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlencode

from mnema_client import AsyncMnema, AsyncMnemaOperator, MnemaError, Unauthenticated
from nicegui import Client, ui

from console.errors import explain_error
from console.keys import PersonKey
from console.registry import OpenSession, SessionRegistry
from console.session import read_clock

T = TypeVar("T")
NO_SCRIPTS = "JavaScript did not respond"
"""The beginning of NiceGUI's error for a browser that does not answer, such as a closed one."""


class SessionOver(Exception):
    """The session's hours are over, or it was signed out on another page."""


@dataclass(frozen=True)
class PageContext:
    """One open page of one person.

    `path`: the page's address below /console. `params`: the values of its path and query string; a person's input.
    """

    path: str
    params: Mapping[str, str]
    opened: OpenSession
    registry: SessionRegistry
    client: Client

    @property
    def memory(self) -> AsyncMnema:
        """The person's client of the API. Raise SessionOver if the session has ended."""
        self.check_session()
        return self.opened.memory

    @property
    def operator(self) -> AsyncMnemaOperator:
        """The operator's client of the API, in a session of the operator. Raise SessionOver if it has ended."""
        self.check_session()
        return self.opened.operator

    def check_session(self) -> None:
        """Raise SessionOver if the session has ended. Long work, such as a download, calls it from time to time."""
        session = self.opened.session
        if self.registry.is_ended(session) or session.is_over(read_clock()):
            raise SessionOver

    @property
    def key(self) -> PersonKey:
        """The description of the person's key."""
        return self.opened.key

    def end_session(self, reason: str) -> None:
        """End the session on all its pages. `reason`: a key of `registry.ENDINGS`."""
        self.registry.end_session(self.opened.session, reason, read_clock())

    def ends_session(self, error: Exception) -> bool:
        """End the session if the error says that it is over. Return True if it was."""
        if isinstance(error, SessionOver):
            self.end_session("over")
        elif isinstance(error, Unauthenticated):
            self.end_session("revoked")
        else:
            return False
        return True

    def report_error(self, error: Exception) -> None:
        """Show an error as a notification that says why. A revoked key ends the session."""
        if isinstance(error, TimeoutError) and str(error).startswith(NO_SCRIPTS):
            return
        if self.ends_session(error) or self.client.is_deleted:
            return
        title, reason = explain_error(error)
        with self.client:
            ui.notify(title, caption=reason, type="negative", multi_line=True, timeout=10_000, close_button="Close")

    async def attempt(self, work: Awaitable[T], done: str = "") -> T | None:
        """Await a call of the API. Return its result, or None after a notification that says why it failed.

        `done`: a notification to show after success.
        """
        try:
            result = await work
        except (MnemaError, SessionOver) as error:
            self.report_error(error)
            return None
        if done and not self.client.is_deleted:
            with self.client:
                ui.notify(done, type="positive")
        return result

    def go_to(self, path: str, **params: str | None) -> None:
        """Open another page of the console, such as `page.go_to("/threads", thread_id=thread)`."""
        with self.client:
            ui.navigate.to(page_address(path, **params))


def page_address(path: str, **params: str | None) -> str:
    """Return the address of a page below /console, with the params that are not None, escaped."""
    given = {name: value for name, value in params.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path
