"""A query as an agent: the answer that it would get, with the parts of each score as bars."""

from mnema_wire.recall import Answer, Dropped, Item
from nicegui import ui

from console.context import PageContext
from console.widgets.bars import show_bars
from console.widgets.moments import MomentField
from console.widgets.section import Section, heading
from console.widgets.states import show_empty_state, show_note
from console.widgets.text import show_chips, show_link, show_text

MOST_ITEMS = 10
BUDGET_TOKENS = 2048


def show_query(page: PageContext) -> None:
    """Show the form and, after a question, the answer."""
    QueryForm(page)


class QueryForm:
    """The form of a query and its answer."""

    def __init__(self, page: PageContext) -> None:
        self._page = page
        with ui.element("section").classes("section").props('aria-label="Ask as an agent"'):
            heading("Ask as an agent")
            show_note("The answer counts as a retrieval, as an agent's does. It moves no thread's header.")
            with ui.element("div").classes("filters"):
                known = page.key.agents[0] if page.key.agents else ""
                self._agent = ui.input("As agent", value=known).props("dense outlined autocomplete=off")
                self._user = ui.input("About user").props("dense outlined autocomplete=off")
                self._question = ui.input("Question").props("dense outlined autocomplete=off")
            with ui.element("div").classes("filters"):
                self._as_of = MomentField(page, "As Mnema knew it at", lambda: self._user.value or "")
                self._valid_at = MomentField(page, "What was so at", lambda: self._user.value or "")
            for field in (self._agent, self._user, self._question):
                field.on("keydown.enter", self._ask)
            with ui.element("div").classes("row"):
                ui.button("Ask", on_click=self._ask)
            self._answer = Section(page, self._fetch, _show_answer, at_once=False)
            self._answer.element.classes(remove="section")

    async def _ask(self) -> None:
        if not self._question.value or not self._agent.value:
            ui.notify("Give an agent and a question.", type="warning")
            return
        await self._answer.refresh()

    async def _fetch(self) -> Answer:
        return await self._page.memory.query(
            self._question.value,
            agent=self._agent.value.strip(),
            filters={"user_id": self._user.value.strip()} if self._user.value.strip() else None,
            top_k=MOST_ITEMS,
            budget_tokens=BUDGET_TOKENS,
            returns="full",
            explain=True,
            as_of=self._as_of.value or None,
            valid_at=self._valid_at.value or None,
        )


def _show_answer(answer: Answer) -> None:
    if answer.degraded:
        show_note(f"Part of the search was not available: {answer.degraded}.", "warning")
    if answer.fact_answer is not None and answer.fact_answer.answered:
        heading("From facts", 3)
        show_text(answer.fact_answer.text)
    if not answer.items:
        show_empty_state("Nothing was found", "Ask in other words, or check which categories the agent may see.")
    else:
        ui.label(f"{len(answer.items)} items, {answer.tokens} tokens, {answer.took_ms:.0f} ms").classes("soft")
        with ui.element("ul").classes("stack plain"):
            for item in answer.items:
                with ui.element("li").classes("entry"):
                    _show_item(item)
    if answer.related:
        heading("Related to these", 3)
        with ui.element("ul").classes("stack plain"):
            for item in answer.related:
                with ui.element("li").classes("entry"):
                    show_link(item.text, f"/memories/{item.id}")
    if answer.dropped:
        _show_dropped(answer.dropped)


def _show_item(item: Item) -> None:
    show_link(item.text, f"/memories/{item.id}")
    with ui.element("div").classes("row"):
        show_chips([word for word in (item.category, item.type, item.user_id) if word])
        if item.relevance is not None:
            ui.label(f"relevance {item.relevance:.2f}").classes("soft")
    if item.score is not None:
        show_bars({**item.score.parts, "total": item.score.total}, label="Parts of the score")
        if item.score.similarity is not None:
            ui.label(f"cosine similarity {item.score.similarity:.3f}").classes("soft")


def _show_dropped(dropped: list[Dropped]) -> None:
    title = f"{len(dropped)} candidates were left out"
    with ui.expansion(title).classes("wide"), ui.element("ul").classes("stack plain"):
        for candidate in dropped:
            with ui.element("li").classes("row"):
                show_link(str(candidate.id), f"/memories/{candidate.id}")
                show_chips([candidate.category, candidate.reason])
