"""The tools `memory.forget` and `memory.correct`."""

from app.bootstrap import Application
from tests.api import calls
from tests.factories import Caller, make_caller
from tests.mcp.connections import answered, by_http, refused, text

MAYA = {"user_id": "maya"}


async def test_forgetting_shows_first_and_then_does_it(server: str, caller: Caller) -> None:
    async with caller.client(server) as http, by_http(server, caller.key) as client:
        studio = (await calls.remember(http, "Maya rents a studio by the river."))["id"]
        shown = await client.call_tool("memory.forget", MAYA | {"description": "the studio by the river"})
        assert [memory["id"] for memory in answered(shown)["matches"]] == [studio]
        assert text(shown).splitlines()[0].startswith("Nothing is forgotten yet.")
        assert "Maya rents a studio by the river." in text(shown)
        assert studio in text(shown)
        gone = await client.call_tool("memory_forget", MAYA | {"confirm": [studio]})
        assert text(gone).splitlines()[0] == "Forgotten:"
        assert (await http.get(f"/memory/{studio}")).json()["state"] == "soft_deleted"
        nothing = await client.call_tool("memory.forget", MAYA | {"description": "the studio by the river"})
        assert text(nothing) == "No stored memory matches."
        refused(await client.call_tool("memory.forget", {"user_id": "ben", "id": studio}), "not_found")
        refused(await client.call_tool("memory.forget", MAYA), "invalid_request")


async def test_a_correction_ends_the_old_text(server: str, caller: Caller) -> None:
    async with caller.client(server) as http, by_http(server, caller.key) as client:
        old = (await calls.remember(http, "Maya lives in Porto."))["id"]
        right = MAYA | {"id": old, "text": "Maya lives in Braga.", "was": "wrong"}
        done = await client.call_tool("memory.correct", right)
        assert answered(done)["state"] == "retracted"
        assert text(done) == f"stored {answered(done)['id']}; {old} is retracted now"
        assert [memory["text"] for memory in await calls.listed(http)] == ["Maya lives in Braga."]
        refused(await client.call_tool("memory.correct", right | {"text": "Maya lives here."}), "invalid_state")


async def test_a_key_that_only_writes_learns_no_text(app: Application, server: str, caller: Caller) -> None:
    async with caller.client(server) as http:
        mine = (await calls.remember(http, "Maya lives in Porto."))["id"]
    key = await make_caller(app, ["write"], tenant=caller)
    async with by_http(server, key.key) as client:
        shown = await client.call_tool("memory.forget", MAYA | {"id": mine})
        assert "Porto" not in text(shown) + str(answered(shown))
        refused(await client.call_tool("memory.forget", MAYA | {"description": "Porto"}), "scope_required")
