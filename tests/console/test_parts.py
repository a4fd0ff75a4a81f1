"""Parts of a page that fail in an unforeseen way say so in their place, and the log has the reason."""

import asyncio

import pytest
from mnema_client import AsyncMnema
from nicegui import Client, ui
from nicegui.testing import User

from tests.console.people import sees


def fail(*_args: object, **_kwargs: object) -> None:
    """Fail as a fault of the console does."""
    raise RuntimeError("of the test")


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "failing"),
    [
        ("/", "mnema_client.AsyncMnema.health"),
        ("/", "console.pages.home._show_health"),
        ("/people", "mnema_client.AsyncMnema.user_page"),
        ("/people", "console.pages.people.show_user"),
    ],
)
async def test_a_fault_is_shown_in_its_place(
    person: User,
    memory: AsyncMnema,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    path: str,
    failing: str,
) -> None:
    await memory.remember("Maya drinks oat milk.", user_id="maya", category="preferences")
    monkeypatch.setattr(failing, fail)
    await person.open(path)
    await sees(person, "RuntimeError")
    await sees(person, "Try again")
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["of the test"]
    caplog.clear()  # the error is the expected one


LONGEST_STATE = 130
LIVE = ("polite", "assertive")


def live_texts(client: Client) -> list[str]:
    """Return what screen readers are told of each live part of a page that belongs to a section."""
    found = [
        element
        for element in client.elements.values()
        if element.props.get("role") == "status" or element.props.get("aria-live") in LIVE
    ]
    return [
        "".join(part.text for part in element.descendants(include_self=True) if isinstance(part, ui.label))
        for element in found
    ]


@pytest.mark.parametrize("path", ["/", "/people?user_id=maya", "/rules", "/jobs", "/graph?user_id=maya"])
async def test_screen_readers_are_told_states_and_not_contents(person: User, memory: AsyncMnema, path: str) -> None:
    for number in range(5):
        await memory.remember(f"Maya plans trip {number}. " * 10, user_id="maya", category="tasks")
    client = await person.open(path)
    for _ in range(100):
        texts = live_texts(client)
        if texts and all("loading" not in text.lower() for text in texts):
            break
        await asyncio.sleep(0.1)
    assert [text for text in texts if len(text) > LONGEST_STATE or "trip" in text] == []
    assert [text for text in texts if text.endswith(": loaded")]


async def test_an_error_is_an_alert_and_no_state_beside_it(
    person: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mnema_client.AsyncMnema.tenant_config", fail)
    client = await person.open("/rules")
    await sees(person, "Try again")
    alerts = [element for element in client.elements.values() if element.props.get("role") == "alert"]
    assert alerts
    assert not [text for text in live_texts(client) if text.endswith("loaded")]
    caplog.clear()  # the error is the expected one
