"""The page Graph: relations of a user as a picture and as a table."""

import math
from uuid import UUID

import pytest
from mnema_client import AsyncMnema
from nicegui import ui
from nicegui.testing import User

from app.bootstrap import Application
from console.pages.graph_chart import RADIUS, VIEWS, fit_name, place_names, place_ring
from console.session import COOKIE_PATH
from console.widgets.svg import SvgText
from tests.console.people import People, press, sees
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


def drawn(person: User, tag: str) -> list[ui.element]:
    """Return the elements of this tag in the picture."""
    elements = list(person.client.elements.values()) if person.client else []
    [picture] = [element for element in elements if "graph" in element.classes]
    return [part for part in picture.descendants() if part.tag == tag]


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
    links = {link.props["href"] for link in drawn(person, "a")}
    assert links == {f"{COOKIE_PATH}/memories/{memory_id}" for memory_id in related}
    widths = [float(line.props["stroke-width"]) for line in drawn(person, "path") if "line" in line.classes]
    assert widths == pytest.approx([0.5 + 4 * edge.strength for edge in found.edges], rel=1e-3)


async def test_a_pinned_memory_is_a_diamond(person: User, memory: AsyncMnema, related: list[UUID]) -> None:
    await memory.edit(related[1], pinned=True)
    await person.open("/graph?user_id=maya")
    await sees(person, "The same as a table")
    pinned = [link for link in drawn(person, "a") if any(part.tag == "path" for part in link.descendants())]
    assert [link.props["href"] for link in pinned] == [f"{COOKIE_PATH}/memories/{related[1]}"]
    assert len(drawn(person, "circle")) == 2


async def test_weak_relations_can_be_left_out(person: User, memory: AsyncMnema, related: list[UUID]) -> None:
    await person.open("/graph?user_id=maya")
    await sees(person, "3 shown, all of them")
    strong = [edge for edge in (await memory.relations("maya")).edges if edge.strength >= 0.9]
    assert len(strong) < 3
    for choice in person.find(kind=ui.select, marker="filter-min_strength").elements:
        choice.value = "0.9"
    await press(person, "Show the graph")
    await sees(person, f"{len(strong)} shown, all of them" if strong else "Nothing matches")


async def test_a_bound_key_sees_relations_of_its_categories(
    app: Application, people: People, caller: Caller, memory: AsyncMnema, related: list[UUID]
) -> None:
    bound = await people.sign_in((await make_caller(app, ["query"], ["stylist"], caller)).key)
    await bound.open("/graph?user_id=maya")
    await sees(bound, "No relations")


async def test_texts_are_only_texts_of_the_picture(person: User, memory: AsyncMnema) -> None:
    for ending in (" Again.", " Once more."):
        await memory.remember(f"{SCRIPT} {TEXTS[0]}{ending}", user_id="maya", category="tasks")
    client = await person.open("/graph?user_id=maya")
    await sees(person, "The same as a table")
    titles = [title for title in drawn(person, "title") if isinstance(title, SvgText)]
    assert [title for title in titles if title.text.startswith(SCRIPT)]
    elements = list(client.elements.values())
    assert not [element for element in elements if isinstance(element, ui.html | ui.markdown)]
    props = [prop for element in elements for prop in element.props.items()]
    assert not [name for name, _value in props if name.startswith(":")], "NiceGUI runs such values as code"
    assert not [value for _name, value in props if "alert(1)" in str(value) and "<script" in str(value)]


@pytest.mark.parametrize("count", [1, 2, 3, 16, 64, 200])
def test_circles_are_in_a_ring_and_do_not_touch(count: int) -> None:
    spots = place_ring([1 + place % 5 for place in range(count)])
    assert len(spots) == count
    assert {round(math.hypot(spot.x, spot.y)) for spot in spots} == {round(RADIUS)}
    for place, spot in enumerate(spots):
        other = spots[place - 1]
        if count > 1:
            assert math.dist((spot.x, spot.y), (other.x, other.y)) > spot.size + other.size
    wide, high = VIEWS[place_names(count)]
    assert max(abs(spot.x) + 1.25 * spot.size for spot in spots) < wide
    assert max(abs(spot.y) + 1.25 * spot.size for spot in spots) < high


def test_a_more_important_memory_is_larger() -> None:
    sizes = [spot.size for spot in place_ring([1, 2, 3, 4, 5])]
    assert sizes == sorted(set(sizes))


def test_names_fit_their_room() -> None:
    assert [place_names(count) for count in (1, 16, 17, 64, 65)] == ["beside", "beside", "around", "around", "bare"]
    assert fit_name("tea", 20) == "tea"
    assert fit_name("tea without sugar and milk", 20) == "tea without sugar a…"
    assert fit_name("日" * 30, 20) == "日" * 9 + "…"
