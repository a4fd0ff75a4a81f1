"""Parts of a page that fail in an unforeseen way say so in their place, and the log has the reason."""

import pytest
from mnema_client import AsyncMnema
from nicegui.testing import User

from tests.console.people import sees


def fail(*_args: object, **_kwargs: object) -> None:
    """Fail as a fault of the console does."""
    raise RuntimeError("of the test")


@pytest.mark.parametrize(
    ("path", "failing"),
    [
        ("/", "mnema_client.AsyncMnema.health"),
        ("/", "console.pages.home._show_health"),
        ("/people", "mnema_client.AsyncMnema.user_page"),
        ("/people", "console.pages.people.show_link"),
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
