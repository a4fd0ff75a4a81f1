"""The page Graph: how the memories of a user are related, as a picture and as a table."""

from uuid import UUID

from mnema_wire.bases import Page
from mnema_wire.overview import RelatedMemory, Relation, Relations
from nicegui import ui

from console.context import PageContext
from console.pages.graph_chart import show_picture
from console.texts import shorten_text
from console.widgets.filters import Choice, Filter, FilterForm
from console.widgets.keyset import KeysetList, cut_page
from console.widgets.section import Section, heading
from console.widgets.states import show_empty_state, show_note
from console.widgets.text import show_link, show_time

PAGE_USERS = 50
PAGE_RELATIONS = 20
MOST_RELATIONS = 100
LABEL_LENGTH = 120
STRENGTHS = {"": "All", **{least: f"{least} or more" for least in ("0.3", "0.5", "0.7", "0.9")}}
HINT = "A larger circle is more important, a diamond is pinned, a thicker line is stronger. Select a circle to open it."


def show(page: PageContext) -> None:
    """Show the relations of the user in the address, or the users to choose from."""
    if not page.key.allows("query"):
        show_note("Your key may not read memories: it has no scope query.", "warning")
        return
    GraphPage(page)


class GraphPage:
    """The choice of a user, and the user's graph with the same relations in a table."""

    def __init__(self, page: PageContext) -> None:
        self._page = page
        with ui.element("section").classes("section").props('aria-label="Choose a graph"'):
            filters: dict[str, Filter] = {"user_id": "User", "min_strength": Choice("Strength", STRENGTHS)}
            self._form = FilterForm(page, filters, self._refresh, action="Show the graph")
        self._box = ui.element("div").classes("stack")
        self._build()

    @property
    def _min_strength(self) -> float | None:
        chosen = self._form.values.get("min_strength")
        return float(chosen) if chosen else None

    async def _refresh(self) -> None:
        self._build()

    def _build(self) -> None:
        self._box.clear()
        with self._box:
            if "user_id" in self._form.values:
                Section(self._page, self._fetch, self._show_graph)
            else:
                self._show_users()

    def _show_users(self) -> None:
        with ui.element("section").classes("section").props("aria-label=Users"):
            heading("Choose a user")
            KeysetList(
                self._page,
                lambda cursor: self._page.memory.user_page(limit=PAGE_USERS, cursor=cursor),
                {
                    "User": lambda user: show_link(user.user_id, "/graph", user_id=user.user_id),
                    "Memories": lambda user: ui.label(f"{user.memories:,}").classes("number"),
                    "Last activity": lambda user: show_time(user.last_activity_at),
                },
                label="Users",
                empty=("No users yet", "A user appears with the first memory: POST /memory."),
            )

    async def _fetch(self) -> Relations:
        return await self._page.memory.relations(
            self._form.values.get("user_id", ""), min_strength=self._min_strength, limit=MOST_RELATIONS
        )

    def _show_graph(self, found: Relations) -> None:
        if not found.edges:
            if self._min_strength:
                show_empty_state("Nothing matches", "Allow weaker relations.")
            else:
                show_empty_state("No relations", "Mnema relates similar memories of a user. Write more memories.")
            return
        if found.truncated:
            show_note(f"These are the {len(found.edges):,} strongest relations. There are weaker ones.", "warning")
        show_picture(found)
        ui.label(HINT).classes("soft")
        self._show_table(found)

    def _show_table(self, found: Relations) -> None:
        nodes = {node.id: node for node in found.nodes}
        heading("The same as a table", 3)

        async def fetch(cursor: str | None) -> Page[Relation]:
            return cut_page(found.edges, cursor, PAGE_RELATIONS)

        KeysetList(
            self._page,
            fetch,
            {
                "Memory": lambda edge: _show_end(nodes.get(edge.from_id), edge.from_id),
                "Relation": lambda edge: ui.label(shorten_text(edge.relation_type, 40).replace("_", " ")).classes(
                    "one-line"
                ),
                "Strength": lambda edge: ui.label(f"{edge.strength:.2f}").classes("number"),
                "Related memory": lambda edge: _show_end(nodes.get(edge.to_id), edge.to_id),
            },
            label="Relations, strongest first",
            empty=("No relations", ""),
        )


def _show_end(node: RelatedMemory | None, memory_id: UUID) -> None:
    text = shorten_text(node.text, LABEL_LENGTH) if node else ""
    show_link(text or "(no text)", f"/memories/{memory_id}")
