"""The consent inbox of one person: proposals with their evidence, approve and reject."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import cast
from uuid import UUID

from mnema_client import NotAllowed, NotFound, consent
from mnema_wire.bases import Page
from mnema_wire.consent import Proposal, ProposalState
from nicegui import ui

from console.context import PageContext
from console.texts import shorten_text
from console.widgets.keyset import KeysetList
from console.widgets.section import heading
from console.widgets.states import show_note
from console.widgets.text import show_line, show_link, show_text, show_time
from console.widgets.words import show_mark, show_word
from console.words import MEMORY_TYPES, PROPOSAL_STATES, name_word

PAGE_ITEMS = 10
MOST_EVIDENCE = 3
STATES = {**{state: name_word(PROPOSAL_STATES, state) for state in PROPOSAL_STATES}, "": "All"}


@dataclass(frozen=True)
class Case:
    """A proposal and the texts of the memories that support it. A text is missing if the key may not see it."""

    proposal: Proposal
    texts: Mapping[UUID, str]


class ConsentInbox:
    """The proposals of one person. `on_decided`: loads what a decision changes."""

    def __init__(self, page: PageContext, user_id: str, on_decided: Callable[[], Awaitable[None]]) -> None:
        self._page = page
        self._user = user_id
        self._on_decided = on_decided
        with ui.element("section").classes("section").props("aria-label=Consent"):
            heading("Consent")
            if not page.key.allows("approve"):
                show_note("Your key may not decide: it has no scope approve.", "warning")
            with ui.element("div").classes("filters"):
                self._state = ui.select(STATES, label="Proposals", value="pending", on_change=self.refresh)
                self._state.props("dense outlined options-dense").mark("proposal-state")
            self._list = KeysetList(
                page,
                self._fetch,
                build_entry=self._show_case,
                label="Proposals, newest first",
                empty=("No proposals", "Agents propose values with POST /users/{user_id}/context/patches."),
            )

    async def refresh(self) -> None:
        """Load the newest proposals again."""
        await self._list.refresh()

    async def _fetch(self, cursor: str | None) -> Page[Case]:
        state = cast(ProposalState, self._state.value) if self._state.value else None
        try:
            call = consent.proposals(self._user, state=state, limit=PAGE_ITEMS, cursor=cursor)
            found = await self._page.memory.send(call)
        except NotFound:  # of this user nothing is stored
            return Page(items=[])
        wanted = {signal.memory_id for item in found.items for signal in item.signals[:MOST_EVIDENCE]}
        read = await asyncio.gather(*(self._read_text(memory_id) for memory_id in wanted))
        texts = {memory_id: text for memory_id, text in zip(wanted, read, strict=True) if text}
        return Page(items=[Case(item, texts) for item in found.items], next_cursor=found.next_cursor)

    async def _read_text(self, memory_id: UUID) -> str:
        try:
            return (await self._page.memory.get(memory_id)).text
        except (NotFound, NotAllowed):
            return ""

    def _show_case(self, case: Case) -> None:
        proposal = case.proposal
        with ui.element("div").classes("row"):
            show_mark(PROPOSAL_STATES, proposal.state)
            if proposal.sensitive:
                ui.label("sensitive").classes("chip warn")
            ui.label(shorten_text(proposal.field, 60)).classes("soft")
        show_text(proposal.value).classes("memory-text")
        _show_origin(proposal)
        _show_evidence(case)
        if proposal.state == "pending" and self._page.key.allows("approve"):
            self._show_decision(proposal)

    def _show_decision(self, proposal: Proposal) -> None:
        about = f"{shorten_text(proposal.field, 60)} {shorten_text(proposal.value, 60)}"
        with ui.element("div").classes("row"):
            approve = ui.button("Approve", on_click=lambda: self._decide(proposal, approved=True))
            approve.props["aria-label"] = f"Approve {about}"
            reject = ui.button("Reject", on_click=lambda: self._decide(proposal, approved=False)).props("outline")
            reject.props["aria-label"] = f"Reject {about}"

    async def _decide(self, proposal: Proposal, *, approved: bool) -> None:
        api = self._page.memory
        call = api.approve(self._user, proposal.id) if approved else api.reject(self._user, proposal.id)
        if await self._page.attempt(call, "Approved" if approved else "Rejected"):
            await self.refresh()
            await self._on_decided()


def _show_origin(proposal: Proposal) -> None:
    with ui.element("div").classes("row"):
        show_line(f"by {proposal.actor}", 80).classes("soft")
        show_time(proposal.created_at)
        if proposal.thread_id:
            show_link(proposal.thread_id, "/threads", thread_id=proposal.thread_id, user_id=proposal.user_id)
        if proposal.state == "pending":
            ui.label("expires").classes("soft")
            show_time(proposal.expires_at)
        elif proposal.decided_at is not None:
            show_line(f"decided by {proposal.decided_by or proposal.way or 'Mnema'}", 80).classes("soft")
            show_time(proposal.decided_at)
    if proposal.question is not None:
        show_text(f"Asked: {proposal.question.question}")


def _show_evidence(case: Case) -> None:
    signals = case.proposal.signals
    if not signals:
        ui.label("No evidence was given.").classes("soft")
        return
    ui.label(f"Evidence ({len(signals)})").classes("soft")
    with ui.element("ul").classes("evidence"):
        for signal in signals[:MOST_EVIDENCE]:
            with ui.element("li"), ui.element("div").classes("row"):
                text = case.texts.get(signal.memory_id)
                show_link(
                    text or "a memory that is deleted or that your key may not see", f"/memories/{signal.memory_id}"
                )
                show_word(MEMORY_TYPES, signal.kind).classes("chip")
                if signal.confidence is not None:
                    ui.label(f"confidence {signal.confidence:.2f}").classes("soft")
                show_time(signal.at)
    if len(signals) > MOST_EVIDENCE:
        ui.label(f"and {len(signals) - MOST_EVIDENCE} more").classes("soft")
