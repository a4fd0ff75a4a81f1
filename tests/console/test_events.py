"""The page Events and usage: the chart, the usage by day and by user, and the list with its filters."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from mnema_client import AsyncMnema
from nicegui import ui
from nicegui.testing import User

from app.bootstrap import Application
from console.widgets.chart import bar_paths, scale_lines
from console.widgets.svg import SvgText
from console.words import OPERATIONS, name_word
from tests.api.calls import sql
from tests.conftest import Database
from tests.console.people import People, press, sees
from tests.factories import Caller, make_caller

ATTACK = "<script>alert(1)</script>:x"


@pytest.fixture
async def busy(memory: AsyncMnema) -> None:
    """Write for two users, and ask once."""
    await memory.remember("Maya drinks oat milk.", user_id="maya", category="preferences", thread_id="kitchen")
    await memory.remember("Noor plays the violin.", user_id="noor", category="interests")
    await memory.query("What does Maya drink?", agent="stylist", filters={"user_id": "maya"})


def chart_series(user: User) -> dict[str, int]:
    """Return the sums of the series of the chart of events, as its tooltips of days name them; {} while it loads."""
    elements = user.client.elements.values() if user.client else ()
    found = [e for e in elements if e.tag == "svg" and str(e.props.get("aria-label")).startswith("Events by day")]
    sums: Counter[str] = Counter()
    for tip in (part for chart in found for part in chart.descendants() if isinstance(part, SvgText)):
        for line in tip.text.splitlines()[1:]:
            name, _colon, number = line.rpartition(": ")
            sums[name] += int(number.replace(",", ""))
    return dict(sums)


async def draws(user: User, expected: dict[str, int]) -> None:
    """Wait until the chart of events shows these sums."""
    for _ in range(100):
        if chart_series(user) == expected:
            return
        await asyncio.sleep(0.1)
    assert chart_series(user) == expected


async def test_the_chart_counts_events_by_day_as_chosen(person: User, memory: AsyncMnema, busy: None) -> None:
    await person.open("/events")
    await sees(person, "events in 30 days")
    counts = {count.group["op"]: count.count for count in await memory.event_counts(["op"])}
    await draws(person, {name_word(OPERATIONS, op): count for op, count in counts.items()})
    assert counts["create"] == 2
    person.find("Grouped by").click()
    person.find("Category").click()
    by_category = {count.group["category"] or "none": count.count for count in await memory.event_counts(["category"])}
    await draws(person, by_category)


async def test_events_of_a_day_before_the_period_are_not_counted(
    person: User, memory: AsyncMnema, busy: None, database: Database
) -> None:
    await sql(database, "UPDATE events SET ts = ts - interval '40 days' WHERE user_id = 'noor'")
    await person.open("/events")
    await sees(person, "events in 30 days")
    assert chart_series(person)["Write"] == 1


@pytest.mark.parametrize(
    ("largest", "lines"),
    [(0, [0, 1]), (1, [0, 1]), (4, [0, 1, 2, 3, 4]), (5, [0, 2, 4, 6]), (24, [0, 10, 20, 30]), (1000, [0, 500, 1000])],
)
def test_the_lines_of_a_chart_are_round_and_few(largest: int, lines: list[int]) -> None:
    assert scale_lines(largest) == lines


def test_bars_stand_on_each_other() -> None:
    paths = bar_paths({"write": [1, 0], "search": [3, 2], "none": [0, 0]}, 4)
    assert paths["write"] == "M1 1000V750h8V1000z"
    assert paths["search"] == "M1 750V0h8V750zM11 1000V500h8V1000z"
    assert paths["none"] == ""


async def test_the_picture_is_summed_up_and_has_a_bar_for_each_group(person: User, busy: None) -> None:
    await person.open("/events")
    await sees(person, "events in 30 days")
    assert person.client is not None
    [chart] = [
        e for e in person.client.elements.values() if str(e.props.get("aria-label")).startswith("Events by day:")
    ]
    total, today = sum(chart_series(person).values()), datetime.now(UTC).date()
    assert f"{total} from {today - timedelta(days=29)} to {today}, most on {today}" in chart.props["aria-label"]
    assert chart.props["role"] == "img"
    bars = [part for part in chart.descendants() if "series" in part.classes]
    assert len(bars) == len(chart_series(person))
    assert len({str(part.classes) for part in bars}) == len(bars), "each group has a colour of its own"


async def test_the_list_filters_and_its_address_holds_the_filters(person: User, busy: None) -> None:
    await person.open("/events?user_id=maya&op=create")
    await sees(person, "1 shown, all of them")
    await person.should_see("kitchen")
    person.find("filter-user_id").clear().type("nobody").trigger("keydown.enter")
    await sees(person, "Nothing matches")


async def test_the_last_day_of_the_list_is_part_of_it(person: User, busy: None) -> None:
    today = datetime.now(UTC).date()
    await person.open(f"/events?op=create&since={today - timedelta(days=1)}&until={today}")
    await sees(person, "2 shown, all of them")


async def test_an_unknown_filter_is_explained_in_place(person: User) -> None:
    await person.open("/events?since=soon")
    await sees(person, "The request is not valid")
    await sees(person, "No events in this period")


async def test_usage_is_shown_by_day_and_by_user(person: User, memory: AsyncMnema, busy: None) -> None:
    async def used() -> bool:
        return any(found.queries for found in [usage async for usage in memory.usage("day")])

    for _ in range(100):  # a receipt follows its answer in about a second
        if await used():
            break
        await asyncio.sleep(0.1)
    await person.open("/events")
    await sees(person, "tokens answered")
    await sees(person, "noor")
    [day] = [usage async for usage in memory.usage("day")]
    users = {usage.user_id: usage async for usage in memory.usage("user")}
    assert (day.writes, users["maya"].writes, users["noor"].writes) == (2, 1, 1)
    await person.should_see(f"{day.tokens:,}")


@pytest.mark.long
async def test_names_of_callers_stay_texts(person: User, memory: AsyncMnema) -> None:
    await memory.remember("Maya drinks oat milk.", user_id=ATTACK, category="preferences", thread_id=ATTACK)
    client = await person.open("/events")
    await sees(person, ATTACK)
    assert not [e for e in client.elements.values() if isinstance(e, ui.html | ui.markdown)]


async def test_a_bound_key_sees_events_of_its_categories_and_no_usage(
    app: Application, people: People, caller: Caller, busy: None
) -> None:
    bound = await people.sign_in((await make_caller(app, ["query"], ["researcher"], caller)).key)
    await bound.open("/events")
    await sees(bound, "noor")
    await bound.should_not_see("kitchen")
    await bound.should_not_see("Usage by user")
    await press(bound, "Search")
    await sees(bound, "noor")
