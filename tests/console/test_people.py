"""The page People: users with counts, context, consent, export and erase."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import pytest
from mnema_client import AsyncMnema, consent
from nicegui import ui
from nicegui.testing import User

from app.bootstrap import Application
from console.widgets.download import BreakableStream, FileBroken, safe_name
from tests.console.people import People, buttons, press, sees
from tests.factories import Caller, make_caller

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
async def maya(memory: AsyncMnema) -> str:
    """Return the id of a user with a memory."""
    await memory.remember("Maya drinks oat milk.", user_id="maya", category="preferences", thread_id="kitchen")
    return "maya"


@pytest.fixture
async def proposal(memory: AsyncMnema, maya: str) -> consent.Proposed:
    """Return a proposal with a turn as its evidence."""
    turn = await memory.add_turn("Please call me Ana.", user_id=maya, thread_id="talk", role="user")
    return await memory.propose(maya, "preferred_name", "Ana", evidence=turn.id, thread_id="talk")


async def test_people_are_listed_with_counts(person: User, memory: AsyncMnema, maya: str) -> None:
    await memory.remember("Ben plays chess.", user_id="ben", category="interests")
    await person.open("/people")
    await sees(person, "maya")
    await sees(person, "ben")
    await person.open("/people?prefix=ma")
    await sees(person, "maya")
    await person.should_not_see("ben")


async def test_a_tenant_without_people_is_told_how_to_begin(person: User) -> None:
    await person.open("/people")
    await sees(person, "No users")


async def test_a_person_of_whom_nothing_is_stored(person: User, maya: str) -> None:
    await person.open("/people?user_id=may")  # the beginning of a user's name is not that user
    await sees(person, "Nothing is stored")
    await sees(person, "Nothing is known")
    await sees(person, "No proposals")
    assert not buttons(person) & {"Export", "Erase"}


async def test_a_proposal_shows_its_evidence_and_is_approved(
    person: User, memory: AsyncMnema, proposal: consent.Proposed
) -> None:
    await person.open("/people?user_id=maya")
    for shown in ("Ana", "sensitive", "Please call me Ana.", "Evidence (1)"):
        await sees(person, shown)
    await press(person, "Approve")
    await sees(person, "Preferred name: Ana")
    await sees(person, "No proposals")
    assert (await memory.context("maya")).profile == "Preferred name: Ana"


async def test_a_proposal_is_rejected_and_found_among_the_rejected(
    person: User, memory: AsyncMnema, proposal: consent.Proposed
) -> None:
    await person.open("/people?user_id=maya")
    await sees(person, "Reject")
    await press(person, "Reject")
    await sees(person, "No proposals")
    assert [found.id async for found in memory.proposals("maya", state="rejected")] == [proposal.id]
    for state in person.find(kind=ui.select, marker="proposal-state").elements:
        state.value = "rejected"
    await sees(person, "Ana")


async def test_a_value_is_withdrawn(person: User, memory: AsyncMnema, proposal: consent.Proposed) -> None:
    await memory.approve("maya", proposal.id)
    await person.open("/people?user_id=maya")
    await sees(person, "Withdraw")
    await press(person, "Withdraw")
    await sees(person, "Withdraw preferred_name?")
    person.find(marker="confirm").click()
    await sees(person, "Nothing is known")
    assert (await memory.context("maya")).values == []


async def test_a_key_without_the_scope_approve_does_not_decide(
    app: Application, people: People, caller: Caller, proposal: consent.Proposed
) -> None:
    reader = await people.sign_in((await make_caller(app, ["query"], None, caller)).key)
    await reader.open("/people?user_id=maya")
    await sees(reader, "Please call me Ana.")
    await sees(reader, "Your key may not decide: it has no scope approve.")
    assert not buttons(reader) & {"Approve", "Reject", "Erase"}


async def test_evidence_that_the_key_may_not_see_stays_hidden(
    app: Application, people: People, caller: Caller, memory: AsyncMnema, maya: str
) -> None:
    fact = await memory.remember("Maya likes jazz.", user_id=maya, category="interests")
    await memory.propose(maya, "preferred_name", "Ana", evidence=fact.id)
    bound = await people.sign_in((await make_caller(app, ["query", "approve"], ["supervisor"], caller)).key)
    await bound.open("/people?user_id=maya")
    await sees(bound, "Consent")
    await bound.should_not_see("Maya likes jazz.")


@pytest.mark.long
async def test_an_export_has_every_record(
    person: User, memory: AsyncMnema, maya: str, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(30):
        await memory.remember(f"Maya plans trip {number}. 🙂", user_id=maya, category="event", type="episodic")
    await person.open("/people?user_id=maya")
    await sees(person, "Export")
    await press(person, "Export")
    answer = await person.download.next(timeout=60)
    records = [json.loads(line) for line in answer.content.splitlines()]
    assert records == [record async for record in memory.export(maya)]
    assert answer.headers["content-disposition"] == 'attachment; filename="mnema-maya.ndjson"'
    await sees(person, f"Exported: {len(records):,} records.")
    assert (await person.http_client.get(answer.request.url)).status_code == 404, "the address works once"
    caplog.clear()  # NiceGUI warns of addresses that it does not know


@pytest.mark.long
async def test_an_export_stops_after_its_key_is_revoked(
    app: Application,
    people: People,
    caller: Caller,
    maya: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent: list[int] = []
    has_begun = asyncio.Event()

    async def endless(_client: AsyncMnema, _user_id: str) -> AsyncIterator[dict[str, Any]]:
        while True:
            sent.append(1)
            has_begun.set()
            yield {"kind": "memory"}
            await asyncio.sleep(0.02)

    monkeypatch.setattr(AsyncMnema, "export", endless)
    extra = await make_caller(app, ["admin"], None, caller)
    person = await people.sign_in(extra.key)
    await person.open(f"/people?user_id={maya}")
    await sees(person, "Export")
    await press(person, "Export")
    await has_begun.wait()
    assert extra.scope.key_id is not None
    await app.tenancy.tenants.revoke_key(extra.scope.tenant_id, extra.scope.key_id)
    await sees(person, "The export is incomplete.", seconds=30)
    count = len(sent)
    await asyncio.sleep(0.3)
    assert len(sent) == count
    caplog.clear()  # the simulated browser misses the end of the file


async def test_an_export_that_breaks_sends_no_end_of_the_file() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"one\n"
        raise FileBroken

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await BreakableStream(chunks()).stream_response(send)
    assert [message.get("more_body") for message in sent] == [None, True]


def test_names_of_files_hold_no_text_of_a_caller() -> None:
    assert safe_name('../a"b\r\nc\u202e.exe') == "___a_b__c__exe"
    assert len(safe_name("x" * 1000)) == 60


async def test_erase_needs_the_typed_name(person: User, memory: AsyncMnema, maya: str) -> None:
    await person.open("/people?user_id=maya")
    await sees(person, "Erase")
    await press(person, "Erase")
    await sees(person, "Type maya to confirm")
    person.find(marker="confirm").click()  # disabled
    await person.should_not_see("Erased")
    assert (await memory.page(user_id=maya)).items
    for field in person.find(kind=ui.input, marker="confirmation").elements:
        field.value = "maya"
    person.find(marker="confirm").click()
    await sees(person, "Erased at")
    await sees(person, "Nothing is stored")
    assert not (await memory.page(user_id=maya)).items


async def test_names_and_values_are_shown_as_text(person: User, memory: AsyncMnema) -> None:
    await memory.remember("Hello.", user_id=SCRIPT, category="preferences")
    turn = await memory.add_turn(f"{SCRIPT} \u202eevil\u202c", user_id=SCRIPT, thread_id="talk", role="user")
    await memory.propose(SCRIPT, "preferred_name", SCRIPT, evidence=turn.id)
    await person.open("/people")
    await sees(person, SCRIPT)
    client = await person.open(f"/people?{urlencode({'user_id': SCRIPT})}")
    await sees(person, "Evidence (1)")
    labels = "".join(element.text for element in client.elements.values() if isinstance(element, ui.label))
    assert labels.count(SCRIPT) >= 3, "the name, the value and the evidence"
    assert "\u202e" not in labels
    assert not [element for element in client.elements.values() if isinstance(element, ui.html | ui.markdown)]
