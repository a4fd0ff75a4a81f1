"""The delta header of a thread, as an agent would get it now."""

from dataclasses import dataclass

from mnema_wire.recall import ThreadDelta
from mnema_wire.receipts import QueryReceipt
from nicegui import ui

from console.context import PageContext
from console.texts import reveal_text, shorten_text
from console.times import format_time
from console.widgets.section import Section, heading
from console.widgets.states import show_empty_state, show_note
from console.widgets.text import show_text

MOST_AGENTS = 200
LATEST_ANSWERS = 50


@dataclass(frozen=True)
class Header:
    """The header of an agent. `told`: the agent's last answer with a header, from whose end on it begins."""

    delta: ThreadDelta
    told: QueryReceipt | None


class NextHeader:
    """The choice of an agent and its header. The agents that have an allowlist are offered."""

    def __init__(self, page: PageContext, thread_id: str, user_id: str) -> None:
        self._page = page
        self._thread = thread_id
        self._user = user_id or None
        with ui.element("section").classes("section").props('aria-label="The next header of an agent"'):
            heading("What an agent would be told next")
            self._choice = Section(page, self._fetch_agents, self._show_choice)
            self._choice.element.classes(remove="section")
            self._header = Section(page, self._fetch_header, self._show_header, at_once=False)
            self._header.element.classes(remove="section")

    async def _fetch_agents(self) -> list[str]:
        if self._page.key.agents is not None:
            return list(self._page.key.agents)
        agents: list[str] = []
        async for agent in self._page.memory.list_agents(limit=MOST_AGENTS):
            agents.append(agent.agent)
            if len(agents) >= MOST_AGENTS:
                break
        return agents

    def _show_choice(self, agents: list[str]) -> None:
        if not agents:
            show_empty_state("No agents", "Give an agent an allowlist on the page Rules.")
            return
        with ui.element("div").classes("filters"):
            options = {agent: reveal_text(agent, 80) for agent in agents}
            self._agent = ui.select(options, label="Agent", value=agents[0]).props("dense outlined options-dense")
            self._agent.mark("header-agent")
        with ui.element("div").classes("row"):
            ui.button("Show the header", on_click=self._header.refresh).props("outline")

    async def _fetch_header(self) -> Header:
        told = await self._find_told()
        user_id = told.user_id if told is not None else self._user
        since_rev = told.header_to if told is not None else 0
        call = self._page.memory.delta(self._thread, since_rev=since_rev, agent=self._agent.value, user_id=user_id)
        return Header(await call, told)

    async def _find_told(self) -> QueryReceipt | None:
        """Return the agent's last answer in this thread that had a header, if it is among the newest ones."""
        found = await self._page.memory.query_page(
            thread_id=self._thread, user_id=self._user, agent=self._agent.value, limit=LATEST_ANSWERS
        )
        return next((receipt for receipt in found.items if receipt.header_to is not None), None)

    def _show_header(self, header: Header) -> None:
        delta, told = header.delta, header.told
        if told is not None:
            about = f" about {shorten_text(told.user_id, 60)}" if told.user_id else ""
            show_note(
                f"Its last answer here{about} was at {format_time(told.ts)} and told it revision {told.header_to:,}. "
                f"The newest that it may see is {delta.rev:,}."
            )
        else:
            show_note(
                f"No header was told to this agent here lately. It would hear of all changes up to {delta.rev:,}."
            )
        if delta.header:
            show_text(delta.header, "code block").mark("next-header")
        else:
            show_empty_state("Nothing new", "No header: nothing that this agent may see has changed since then.")
        if delta.more:
            ui.label(f"{delta.more:,} more changed memories have no line.").classes("soft")
        if delta.truncated:
            show_note("Older changes are no longer kept, so the header may lack some.", "warning")
