"""The page Ask: the answer that an agent would get, in its exact words, and why each item is in it or was left out."""

from typing import Final

from mnema_client import overview
from mnema_wire.bases import Page
from mnema_wire.recall import Answer, Dropped, Item
from nicegui import background_tasks, ui

from console.context import PageContext
from console.widgets.bars import show_bars
from console.widgets.keyset import KeysetList, cut_page
from console.widgets.moments import MomentField
from console.widgets.section import Section, heading
from console.widgets.states import show_empty_state, show_note
from console.widgets.text import show_chips, show_line, show_link, show_text
from console.widgets.user_field import add_user_field
from console.words import DROP_REASONS, SCORE_PARTS, name_word

MOST_ITEMS: Final = 10
BUDGET_TOKENS: Final = 2048
MOST_AGENTS: Final = 200
PAGE_DROPPED: Final = 20
LONGEST_QUESTION: Final = 8000
REASONS_TOLD: Final = 2
"""Parts of a score that are told in words; the bars have them all."""


def show(page: PageContext) -> None:
    """Show the page."""
    if not page.key.allows("query"):
        show_note("Your key may not ask: it has no scope query.", "warning")
        return
    AskForm(page)


class AskForm:
    """The form of a question and its answer."""

    def __init__(self, page: PageContext) -> None:
        self._page = page
        with ui.element("section").classes("section").props("aria-label=Ask"):
            show_note("The answer counts as a retrieval, as an agent's does. It moves no thread's header.")
            with ui.element("div").classes("filters"):
                self._agent = ui.select([], label="Agent").props("outlined dense options-dense")
                self._user = add_user_field(page, value=page.params.get("user_id", ""))
            self._question = ui.input("Question", value=page.params.get("q", "")[:LONGEST_QUESTION])
            self._question.props(f"outlined autocomplete=off data-search maxlength={LONGEST_QUESTION} clearable")
            self._question.classes("wide").on("keydown.enter", self._ask)
            with ui.expansion("As of another time").classes("wide"), ui.element("div").classes("filters"):
                self._as_of = MomentField(page, "As Mnema knew it at", self._read_user)
                self._valid_at = MomentField(page, "What was so at", self._read_user)
            with ui.element("div").classes("row"):
                ui.button("Ask", on_click=self._ask)
        self._answer = Section(page, self._fetch, self._show_answer, title="Answer", at_once=False)
        self._answer.element.set_visibility(False)
        background_tasks.create(self._load_agents(), name="load agents")

    async def _load_agents(self) -> None:
        """Fill the drop-down of the agents that the key may name; choose the one of the address, or the first."""
        page = self._page
        found = await page.attempt(page.memory.send(overview.agent_page(limit=MOST_AGENTS)))
        if found is None or page.client.is_deleted:
            return
        names = [agent.agent for agent in found.items]
        wanted = page.params.get("agent", "")
        self._agent.set_options(names, value=wanted if wanted in names else next(iter(names), None))

    def _read_user(self) -> str:
        return (self._user.value or "").strip()

    async def _ask(self) -> None:
        if not self._question.value or not self._agent.value:
            ui.notify("Give an agent and a question.", type="warning")
            return
        self._answer.element.set_visibility(True)
        await self._answer.refresh()

    async def _fetch(self) -> Answer:
        return await self._page.memory.query(
            self._question.value,
            agent=str(self._agent.value),
            filters={"user_id": self._read_user()} if self._read_user() else None,
            top_k=MOST_ITEMS,
            budget_tokens=BUDGET_TOKENS,
            explain=True,
            as_of=self._as_of.value or None,
            valid_at=self._valid_at.value or None,
        )

    def _show_answer(self, answer: Answer) -> None:
        if answer.degraded:
            show_note(f"Part of the search was not available: {answer.degraded}.", "warning")
        told = answer.prompt()
        if not told:
            show_empty_state("Nothing was found", "Ask in other words, or check which categories the agent may see.")
        else:
            ui.label(f"{answer.tokens} tokens, {answer.took_ms:.0f} ms").classes("soft")
            heading("What the agent reads", 3)
            show_text(told, "code block").mark("exact-text")
        for hidden in answer.hidden or ():
            show_note(f"{hidden.message[:1].upper()}{hidden.message[1:]}.", "warning")
        if answer.query_id is not None:
            show_link("Open the receipt", f"/answers/{answer.query_id}")
        if answer.items:
            heading("Why these", 3)
            with ui.element("ol").classes("stack plain"):
                for item in answer.items:
                    with ui.element("li").classes("entry"):
                        _show_item(item)
        if answer.dropped:
            self._show_dropped(answer.dropped)

    def _show_dropped(self, dropped: list[Dropped]) -> None:
        heading(f"What was left out ({len(dropped):,})", 3)

        async def fetch(cursor: str | None) -> Page[Dropped]:
            return cut_page(dropped, cursor, PAGE_DROPPED)

        KeysetList(
            self._page,
            fetch,
            {
                "Memory": lambda one: show_link(f"{str(one.id)[:8]}…", f"/memories/{one.id}"),
                "Category": lambda one: show_line(one.category, 60),
                "Why it was left out": lambda one: ui.label(name_word(DROP_REASONS, one.reason)),
            },
            label="What was left out",
            empty=("Nothing was left out", ""),
        )


def explain_score(parts: dict[str, float]) -> str:
    """Return in words what speaks most for an item, such as `It is pinned, and it is recent.`; "" if nothing does."""
    best = sorted((name for name, part in parts.items() if part > 0), key=lambda name: -parts[name])[:REASONS_TOLD]
    told = ", and ".join(name_word(SCORE_PARTS, name) for name in best)
    return f"{told[:1].upper()}{told[1:]}." if told else ""


def _show_item(item: Item) -> None:
    show_link(item.text, f"/memories/{item.id}")
    with ui.element("div").classes("row"):
        show_chips([item.category])
        if item.relevance is not None:
            ui.label(f"{item.relevance:.0%} likely to help").classes("soft")
    if item.score is None:
        ui.label("Its category comes whole in every answer.").classes("soft")
        return
    if reason := explain_score(item.score.parts):
        ui.label(reason)
    with ui.expansion("The score in numbers").classes("wide"):
        show_bars({**item.score.parts, "total": item.score.total}, label="Parts of the score")
        if item.score.similarity is not None:
            ui.label(f"cosine similarity {item.score.similarity:.3f}").classes("soft")
