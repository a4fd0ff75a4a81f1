"""The page Graph: relations of a user as a picture and as a table."""

from typing import Any
from uuid import UUID

import pytest
from mnema_client import AsyncMnema
from nicegui import ui
from nicegui.testing import User

from app.bootstrap import Application
from console.pages.graph_chart import chart_options
from tests.console.people import People, sees
from tests.factories import Caller, make_caller

TEXTS = (
    "Maya presents the launch plan to Victor on Monday.",
    "Maya presents the launch plan to Victor on Monday in the big hall.",
    "Maya presents the launch plan to Victor on Monday, with slides.",
)
SCRIPT = "<script>alert(1)</script> {a|b}"


@pytest.fixture
async def related(memory: AsyncMnema) -> list[UUID]:
    """Return the ids of three memories with relations."""
    written = [await memory.remember(text, user_id="maya", category="tasks", importance=4) for text in TEXTS]
    return [answer.id for answer in written if answer.id is not None]


def click_chart(person: User, **event: Any) -> None:
    """Send the event of a click, as the browser does."""
    sent = {"componentType": "series", "seriesType": "graph", "seriesIndex": 0, "seriesName": "", "name": ""}
    person.find(ui.echart).trigger("componentClick", sent | {"dataIndex": 0, "value": 4, "dataType": "node"} | event)


async def test_without_a_user_it_asks_for_one(person: User, related: list[UUID]) -> None:
    await person.open("/graph")
    await sees(person, "Choose a user")
    await sees(person, "maya")


async def test_a_user_without_relations(person: User, memory: AsyncMnema) -> None:
    await memory.remember("Ben plays chess.", user_id="ben", category="interests")
    await person.open("/graph?user_id=ben")
    await sees(person, "No relations")


async def test_relations_are_drawn_and_listed(person: User, memory: AsyncMnema, related: list[UUID]) -> None:
    await person.open("/graph?user_id=maya")
    await sees(person, "The same as a table")
    await sees(person, "3 shown, all of them")
    for text in TEXTS:
        await sees(person, text)
    found = await memory.relations("maya")
    await sees(person, f"{found.edges[0].strength:.2f}")
    [chart] = person.find(ui.echart).elements
    [series] = chart.options["series"]
    assert {node["id"] for node in series["data"]} == {str(memory_id) for memory_id in related}
    assert [(line["source"], line["target"]) for line in series["links"]] == [
        (str(edge.from_id), str(edge.to_id)) for edge in found.edges
    ]


async def test_a_click_opens_the_memory(person: User, related: list[UUID]) -> None:
    await person.open("/graph?user_id=maya")
    await sees(person, "The same as a table")
    click_chart(person, data={"id": "../sign-out"})
    click_chart(person, data={"source": "x"}, dataType="edge")
    await person.should_see("The same as a table")
    click_chart(person, data={"id": str(related[0])})
    await sees(person, "Timeline")


async def test_weak_relations_can_be_left_out(person: User, memory: AsyncMnema, related: list[UUID]) -> None:
    await person.open("/graph?user_id=maya")
    await sees(person, "3 shown, all of them")
    strong = [edge for edge in (await memory.relations("maya")).edges if edge.strength >= 0.9]
    assert len(strong) < 3
    for choice in person.find(kind=ui.select, marker="min-strength").elements:
        choice.value = 0.9
    await sees(person, f"{len(strong)} shown, all of them" if strong else "Nothing matches")


async def test_a_bound_key_sees_relations_of_its_categories(
    app: Application, people: People, caller: Caller, memory: AsyncMnema, related: list[UUID]
) -> None:
    bound = await people.sign_in((await make_caller(app, ["query"], ["stylist"], caller)).key)
    await bound.open("/graph?user_id=maya")
    await sees(bound, "No relations")


async def test_texts_are_only_values_of_the_chart(memory: AsyncMnema) -> None:
    for ending in (" Again.", " Once more."):
        await memory.remember(f"{SCRIPT} {TEXTS[0]}{ending}", user_id="maya", category="tasks")
    found = await memory.relations("maya")
    assert found.edges
    options = chart_options(found)
    pending: list[Any] = [options]
    keys: set[str] = set()
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            keys |= set(part)
            pending += part.values()
        elif isinstance(part, list):
            pending += part
    assert not [key for key in keys if key.startswith(":")], "NiceGUI runs such values as code"
    [series] = options["series"]
    assert "{" not in "".join(node["tooltip"]["formatter"] for node in series["data"])
