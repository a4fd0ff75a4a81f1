"""The page Keys: the person's own key, and tenants with their keys for the operator."""

from pathlib import Path

import pytest
from mnema_client import AsyncMnema, AsyncMnemaOperator, Unauthenticated
from nicegui import ui
from nicegui.testing import User, UserInteraction

from app.bootstrap import Application
from app.config.settings import Settings
from tests.console.people import People, press, sees
from tests.factories import Caller, make_caller

KEY = "operator-0123456789abcdef0123456789abcdef"
ATTACK = "<script>alert(1)</script> [acme](javascript:alert(1))"
pytestmark = pytest.mark.usefixtures("own")


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """Settings of an installation with an operator key."""
    file = tmp_path / "operator.key"
    file.write_text(f"{KEY}\n")
    return settings.model_copy(update={"operator_key_file": str(file)})


@pytest.fixture
async def operator(people: People) -> User:
    """Return a person who is signed in with the operator's key."""
    return await people.sign_in(KEY)


def labels(user: User) -> str:
    """Return all texts of the page."""
    return "\n".join(label.text for label in user.find(ui.label).elements)


async def test_a_key_is_described_without_its_secret(
    app: Application, people: People, person: User, caller: Caller
) -> None:
    await person.open("/keys")
    await sees(person, "Your key")
    await sees(person, str(caller.scope.key_id))
    await person.should_see("not bound: it may speak for every agent")
    assert caller.key not in labels(person)
    bound = await people.sign_in((await make_caller(app, ["query"], ["planner"], caller)).key)
    await bound.open("/keys")
    await sees(bound, "planner")
    await bound.should_see("projects")


@pytest.mark.long
async def test_the_operator_creates_a_tenant_and_a_key_that_is_shown_once(
    operator: User, server: str, people: People
) -> None:
    client = await operator.open("/keys")
    await sees(operator, "No tenants yet")
    operator.find("Name of the tenant").type("acme")
    await press(operator, "Create tenant")
    await sees(operator, "No keys yet")
    operator.find("Name of the key").clear().type("agents")
    await press(operator, "Create key")
    await sees(operator, "Copy the key now.")
    [shown] = operator.find(marker="plain-key").elements
    assert isinstance(shown, ui.label)
    plain = shown.text
    async with AsyncMnema(server, plain) as memory:
        told = await memory.describe_key()
    assert (told.name, told.scopes, told.agents) == ("agents", ["query"], None)
    await press(operator, "I have copied it")
    await operator.should_not_see(plain, retries=50)
    reopened = await operator.open(f"/keys?tenant_id={told.tenant_id}")
    await sees(operator, "agents")
    assert plain not in labels(operator)
    assert client is not reopened


@pytest.mark.long
async def test_the_operator_revokes_a_key_after_a_confirmation(operator: User, server: str, caller: Caller) -> None:
    await operator.open(f"/keys?tenant_id={caller.scope.tenant_id}")
    await sees(operator, "valid")
    await press(operator, "Revoke")
    await sees(operator, "Revoke the key test?")
    operator.find(marker="confirm").click()
    await sees(operator, "Revoked")
    async with AsyncMnema(server, caller.key) as memory:
        with pytest.raises(Unauthenticated):
            await memory.describe_key()


@pytest.mark.long
async def test_a_key_without_a_scope_or_with_a_wrong_day_is_not_created(
    operator: User, server: str, caller: Caller
) -> None:
    await operator.open(f"/keys?tenant_id={caller.scope.tenant_id}")
    await sees(operator, "Create a key")
    operator.find("Last day").type("soon")
    await press(operator, "Create key")
    await sees(operator, "The last day is a date")
    operator.find("query").click()
    await press(operator, "Create key")
    await sees(operator, "Choose at least one scope.")
    async with AsyncMnemaOperator(server, KEY) as client:
        assert len([key async for key in client.list_keys(caller.scope.tenant_id)]) == 1


async def test_names_of_tenants_stay_texts(operator: User, app: Application) -> None:
    await app.tenancy.tenants.create_tenant(ATTACK)
    client = await operator.open("/keys")
    await sees(operator, ATTACK)
    assert not [e for e in client.elements.values() if isinstance(e, ui.html | ui.markdown)]


async def test_the_operator_sees_no_tenants_data(operator: User, memory: AsyncMnema) -> None:
    await memory.remember("Maya drinks oat milk.", user_id="maya", category="preferences")
    for address in ("/", "/memories", "/people", "/jobs", "/rules"):
        await operator.open(address)
        await sees(operator, "The operator's key opens tenants and their keys")
        await operator.should_not_see("Maya drinks oat milk.")
        await operator.should_not_see("Threads")


async def test_a_wrong_key_is_not_the_operators_and_a_tenants_key_sees_no_tenants(people: People, person: User) -> None:
    browser = people.open_browser()
    assert (await people.send_key(browser, f"{KEY[:-1]}0")).status_code == 401
    await person.open("/keys")
    await sees(person, "Your key")
    await person.should_not_see("Create tenant")


async def test_an_administrator_creates_and_revokes_keys_of_the_tenant(
    person: User, people: People, server: str, memory: AsyncMnema
) -> None:
    await person.open("/keys")
    await sees(person, "your key")
    person.find("Name of the key").clear().type("agents")
    await press(person, "Create key")
    await sees(person, "Copy the key now.")
    [shown] = person.find(marker="plain-key").elements
    assert isinstance(shown, ui.label)
    async with AsyncMnema(server, shown.text) as made:
        told = await made.describe_key()
        assert (told.name, told.scopes) == ("agents", ["query"])
        reader = await people.sign_in(shown.text)
        await reader.open("/keys")
        await sees(reader, "Your key may not see other keys: it has no scope admin.")
        await press(person, "I have copied it")
        [button] = [b for b in person.find(ui.button).elements if told_of(b, shown.text[:12])]
        UserInteraction(person, {button}, None).click()
        await sees(person, "Revoke the key agents?")
        person.find(marker="confirm").click()
        await sees(person, "Revoked")
        with pytest.raises(Unauthenticated):
            await made.describe_key()
    assert [key.name async for key in memory.list_keys()] == ["test", "agents"]


def told_of(button: ui.element, prefix: str) -> bool:
    """Tell whether a button revokes the key that begins so."""
    return str(button.props.get("aria-label")).startswith(f"Revoke {prefix}")
