"""The turns of a thread in order, and between them what agents were told."""

from collections.abc import Sequence
from datetime import datetime

from mnema_client import citations
from mnema_wire.bases import Page
from mnema_wire.recall import ThreadTurn
from mnema_wire.receipts import QueryReceipt
from nicegui import ui

from console.context import PageContext
from console.pages.thread_answer import show_answer
from console.texts import shorten_text
from console.widgets.keyset import KeysetList
from console.widgets.section import heading
from console.widgets.states import show_note
from console.widgets.text import show_line, show_link, show_text, show_time

PAGE_TURNS = 25
MOST_ANSWERS = 50
"""Answers beside a page of turns: with them, a message stays below 200 KB."""

Moment = ThreadTurn | QueryReceipt


class Story:
    """The turns, oldest first. An answer stands after the turns that were stored before it."""

    def __init__(self, page: PageContext, thread_id: str, user_id: str) -> None:
        self._page = page
        self._thread = thread_id
        self._user = user_id or None
        self._begins: dict[str | None, datetime | None] = {None: None}
        """The time at which the answers of a page begin, by the page's cursor."""
        with ui.element("section").classes("section").props('aria-label="Turns and answers"'):
            heading("Turns, and what agents were told")
            self._notes = ui.element("div").classes("stack")
            KeysetList(
                page,
                self._fetch,
                build_entry=self._show_moment,
                label="Turns and answers, oldest first",
                empty=("No turns", "Agents store turns with POST /turns. Each answered query leaves a receipt here."),
            )

    async def _fetch(self, cursor: str | None) -> Page[Moment]:
        turns = await self._read_turns(cursor)
        begin = self._begins.get(cursor)
        end = _latest(begin, turns.items) if turns.next_cursor else None
        if turns.next_cursor:
            self._begins[turns.next_cursor] = end
        answers = await self._page.memory.query_page(
            thread_id=self._thread, user_id=self._user, since=begin, until=end, limit=MOST_ANSWERS
        )
        if answers.next_cursor and not self._notes.is_deleted:
            self._notes.clear()
            with self._notes:
                show_note(f"Between some turns there were more than {MOST_ANSWERS} answers. The oldest are left out.")
        return Page(items=place_answers(turns.items, answers.items), next_cursor=turns.next_cursor)

    async def _read_turns(self, cursor: str | None) -> Page[ThreadTurn]:
        call = citations.thread_turns(self._thread, user_id=self._user, limit=PAGE_TURNS, cursor=cursor)
        return await self._page.memory.send(call)

    def _show_moment(self, moment: Moment) -> None:
        if isinstance(moment, ThreadTurn):
            _show_turn(moment)
        else:
            show_answer(self._page, moment)


def place_answers(turns: Sequence[ThreadTurn], answers: Sequence[QueryReceipt]) -> list[Moment]:
    """Return the turns in their order. An answer stands before the first turn from which on all are newer than it."""
    waiting = sorted(answers, key=lambda answer: answer.ts, reverse=True)
    backwards: list[Moment] = []
    for turn in reversed(turns):
        while waiting and waiting[0].ts >= turn.created_at:
            backwards.append(waiting.pop(0))
        backwards.append(turn)
    backwards += waiting
    return backwards[::-1]


def _latest(begin: datetime | None, turns: Sequence[ThreadTurn]) -> datetime | None:
    moments = [turn.created_at for turn in turns]
    return max([begin, *moments] if begin is not None else moments, default=None)


def _show_turn(turn: ThreadTurn) -> None:
    with ui.element("div").classes("row"):
        show_line(turn.role or "turn", 40).classes("chip")
        if turn.seq is not None:
            ui.label(f"#{turn.seq}").classes("soft")
        show_line(turn.actor_id or turn.user_id, 60).classes("soft")
        show_time(turn.created_at)
        link = show_link("Open", f"/memories/{turn.id}")
        link.props["aria-label"] = f"Open this turn of {shorten_text(turn.role or 'the thread', 40)}"
    show_text(turn.content)
