"""The page Rules: validation, the difference, saving over a version, moves, the history and the way back."""

import pytest
from mnema_client import AsyncMnema
from nicegui import ui
from nicegui.testing import User

from app.bootstrap import Application
from tests.console.people import People, press, sees
from tests.factories import Caller, make_caller

RECIPES = "categories:\n  custom:\n    - name: recipes\nallowlists:\n  cook: [profile, recipes]\n"
WRONG = "allowlists:\n  cook: [profil]\n"
ATTACK = "<script>alert(1)</script>"


async def write_document(user: User, text: str) -> None:
    """Put a text into the editor, when it is there."""
    await sees(user, "Validate")
    [editor] = user.find(ui.codemirror).elements
    editor.value = text


async def test_rules_are_validated_without_a_change_and_saved(person: User, memory: AsyncMnema) -> None:
    await person.open("/rules")
    await sees(person, "Only the defaults so far")
    await write_document(person, RECIPES)
    await press(person, "Validate")
    await sees(person, "The rules are valid. Nothing is changed yet.")
    await person.should_see("recipes")
    assert (await memory.tenant_config()).version == 0
    await press(person, "Save")
    await sees(person, "Version 1 is saved.")
    await person.should_not_see("Copies in former homes")  # there are no clusters
    rules = await memory.tenant_config()
    assert (rules.version, rules.effective.allowlists["cook"]) == (1, ["profile", "recipes"])
    await sees(person, "1 shown, all of them")


async def test_a_refused_document_says_why_and_changes_nothing(person: User, memory: AsyncMnema) -> None:
    await person.open("/rules")
    await write_document(person, WRONG)
    for action in ("Validate", "Save"):
        await press(person, action)
        await sees(person, "The rules are not valid")
        await sees(person, "profile")  # did you mean
    await write_document(person, "allowlists: [")
    await press(person, "Save")
    await sees(person, "The rules are not valid")
    assert (await memory.tenant_config()).version == 0


async def test_rules_that_somebody_else_saved_are_not_overwritten(person: User, memory: AsyncMnema) -> None:
    await person.open("/rules")
    await write_document(person, "query: {top_k: 5}\n")
    await memory.put_tenant_config(RECIPES)
    await press(person, "Save")
    await sees(person, "Somebody else changed this meanwhile")
    assert (await memory.tenant_config()).effective.allowlists["cook"] == ["profile", "recipes"]
    await press(person, "Compare with the newest version")
    await sees(person, "Version 1 is in force now. Save replaces it with your document.")
    await sees(person, "cook")  # a removed line; the document itself does not name it
    await press(person, "Save")
    await sees(person, "Version 2 is saved.")


@pytest.mark.long
async def test_memories_of_a_removed_category_move(person: User, memory: AsyncMnema) -> None:
    await memory.put_tenant_config(RECIPES)
    written = await memory.remember("Maya bakes bread with rye.", user_id="maya", category="recipes")
    assert written.id is not None
    await person.open("/rules")
    await write_document(person, "query: {top_k: 5}\n")
    await press(person, "Save")
    await sees(person, "Say above where the memories of a removed category go")
    person.find(marker="moves").type("recipes")
    await press(person, "Save")
    await sees(person, "Write each move as")
    person.find(marker="moves").clear().type("recipes: interests")
    await press(person, "Save")
    await sees(person, "Move memories?")
    person.find(marker="confirm").click()
    await sees(person, "Version 2 is saved.")
    assert (await memory.get(written.id)).category == "interests"


async def test_an_earlier_version_is_compared_and_put_in_force_again(person: User, memory: AsyncMnema) -> None:
    await memory.put_tenant_config(RECIPES, note="for the kitchen")
    await memory.put_tenant_config("query: {top_k: 5}\n")
    await person.open("/rules")
    await sees(person, "for the kitchen")
    await person.open("/rules?version=1")
    await sees(person, "What version 1 changed")
    await sees(person, "Put in force again")
    await person.should_see("cook")
    await press(person, "Put in force again")
    await sees(person, "Put version 1 in force?")
    person.find(marker="confirm").click()
    await sees(person, "for the kitchen")
    rules = await memory.tenant_config()
    assert (rules.version, "cook" in rules.effective.allowlists) == (3, True)


async def test_texts_of_the_document_stay_texts(person: User, memory: AsyncMnema) -> None:
    document = {"categories": {"custom": [{"name": "recipes", "label": ATTACK, "description": ATTACK}]}}
    await memory.put_tenant_config(document)
    for address in ("/rules", "/rules?version=1"):
        client = await person.open(address)
        await sees(person, ATTACK)
        assert not [e for e in client.elements.values() if isinstance(e, ui.html | ui.markdown)]


async def test_an_unknown_version_is_not_found(person: User) -> None:
    await person.open("/rules?version=7")
    await sees(person, "Not found")


async def test_a_key_without_the_scope_is_told(app: Application, people: People, caller: Caller) -> None:
    reader = await people.sign_in((await make_caller(app, ["query", "write"], None, caller)).key)
    await reader.open("/rules")
    await sees(reader, "it has no scope admin")
