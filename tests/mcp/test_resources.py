"""Resources and prompts: what they hold, and for whom."""

from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.types import PromptReference, ResourceTemplateReference

from app.bootstrap import Application
from tests.api import calls
from tests.factories import Caller, make_caller
from tests.mcp.connections import EVERY_WAY, HANDLE, Connect, by_http, by_stdio

MISSING = "01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11"


@pytest.fixture(params=EVERY_WAY.values(), ids=EVERY_WAY)
def connect(request: pytest.FixtureRequest) -> Connect:
    way: Connect = request.param
    return way


async def read(client: Client, uri: str) -> str:
    """Return the text of a resource."""
    (content,) = (await client.read_resource(uri)).contents
    found: str = content.text
    return found


async def refused(client: Client, uri: str, code: str) -> None:
    """Check that reading is refused with this code."""
    with pytest.raises(MCPError, match=f"^{code}: ") as error:
        await client.read_resource(uri)
    assert error.value.error.data["code"] == code


async def prompt(client: Client, name: str, arguments: dict[str, str]) -> str:
    """Return the text of a prompt."""
    (message,) = (await client.get_prompt(name, arguments)).messages
    assert message.content.type == "text"
    return message.content.text


async def store(server: str, caller: Caller) -> dict[str, Any]:
    """Store memories of maya and of ben."""
    async with caller.client(server) as http:
        await calls.remember(http, "Maya prefers to be called May.", category="profile")
        await calls.remember(http, "Ben is left-handed.", category="profile", user_id="ben")
        await calls.remember(http, "Maya frets.", category="relationships", thread_id="launch")
        return await calls.remember(http, "Maya ships on Friday.", category="tasks", thread_id="launch")


@pytest.mark.long
async def test_a_client_reads_a_profile_a_header_and_a_memory(connect: Connect, server: str, caller: Caller) -> None:
    task = await store(server, caller)
    async with connect(server, caller.key) as client:
        templates = {t.name: t.uri_template for t in (await client.list_resource_templates()).resource_templates}
        assert templates == {
            "memory": "mnema://memories/{memory_id}",
            "user_profile": "mnema://users/{user_id}/profile",
            "thread_header": "mnema://threads/{thread_id}/header",
        }
        assert (await client.list_resources()).resources == []
        assert await read(client, "mnema://users/maya/profile") == "[profile] Maya prefers to be called May."
        for _ in range(2):  # reading marks nothing as seen
            header = await read(client, "mnema://threads/launch/header")
            assert "[Tasks] Maya ships on Friday." in header
        assert '"text":"Maya ships on Friday."' in await read(client, f"mnema://memories/{task['id']}")
        for uri in ("mnema://memories/x", f"mnema://memories/{MISSING}", "mnema://users/maya", "https://example.org"):
            await refused(client, uri, "not_found")
        assert await read(client, "mnema://users/nobody/profile") == "Nothing is known about this user."
        assert (await read(client, "mnema://threads/%2F/header")).startswith("Nothing changed")


@pytest.mark.long
async def test_the_prompts_keep_and_recall(connect: Connect, server: str, caller: Caller) -> None:
    await store(server, caller)
    async with connect(server, caller.key) as client:
        prompts = {p.name: [a.name for a in p.arguments or []] for p in (await client.list_prompts()).prompts}
        assert prompts == {
            "remember_this": ["text", "user_id"],
            "recall": ["question", "agent", "user_id", "thread_id"],
        }
        kept = await prompt(client, "remember_this", {"text": "I like tea.", "user_id": "maya"})
        assert "memory_remember" in kept
        assert "'maya'" in kept
        assert kept.endswith("I like tea.")
        asked = {"question": "When does Maya ship?", "agent": "planner", "user_id": "maya"}
        recalled = await prompt(client, "recall", asked)
        assert HANDLE.sub("", recalled).splitlines()[-1] == "[tasks] Maya ships on Friday."
        assert "frets" not in recalled
        for name, arguments, said in (
            ("recall", {"agent": "planner"}, "missing: question"),
            ("recall", asked | {"colour": "red"}, "unknown argument 'colour'"),
            ("recall", asked | {"agent": "nobody"}, "unknown_agent: .*planner"),
            ("recall", asked | {"question": "x" * 8001}, "query: "),
            ("forget", {}, "this key may use: recall, remember_this"),
        ):
            with pytest.raises(MCPError, match=said):
                await client.get_prompt(name, arguments)


async def test_another_tenant_reads_nothing(app: Application, server: str, caller: Caller) -> None:
    task = await store(server, caller)
    other = await make_caller(app)
    async with by_http(server, other.key) as client:
        await refused(client, f"mnema://memories/{task['id']}", "not_found")
        assert await read(client, "mnema://users/maya/profile") == "Nothing is known about this user."
        assert (await read(client, "mnema://threads/launch/header")).startswith("Nothing changed")
        asked = {"question": "When does Maya ship?", "agent": "planner", "user_id": "maya"}
        assert "Friday" not in await prompt(client, "recall", asked)


@pytest.mark.long
async def test_allowlists_hold_for_resources_and_prompts(app: Application, server: str, caller: Caller) -> None:
    task = await store(server, caller)
    planner = await make_caller(app, ["query"], ["planner"], tenant=caller)
    stylist = await make_caller(app, ["query", "write"], ["stylist"], tenant=caller)
    async with by_http(server, planner.key) as client:
        templates = {t.name for t in (await client.list_resource_templates()).resource_templates}
        assert templates == {"memory", "thread_header"}
        await refused(client, "mnema://users/maya/profile", "agent_not_allowed")
        header = await read(client, "mnema://threads/launch/header")
        assert "ships" in header
        assert "frets" not in header
        assert [p.name for p in (await client.list_prompts()).prompts] == ["recall"]
        recalled = await prompt(client, "recall", {"question": "Does Maya fret or ship?"})
        assert "ships" in recalled
        assert "frets" not in recalled
        with pytest.raises(MCPError, match="agent_not_allowed"):
            await client.get_prompt("recall", {"question": "x", "agent": "supervisor"})
        with pytest.raises(MCPError, match="scope_required"):
            await client.get_prompt("remember_this", {})
    async with by_http(server, stylist.key) as client:
        await refused(client, f"mnema://memories/{task['id']}", "not_found")
        assert (await read(client, "mnema://threads/launch/header")).startswith("Nothing changed")
        assert "profile" not in await prompt(client, "remember_this", {})


async def test_a_key_that_only_writes_reads_no_resource(app: Application, server: str, caller: Caller) -> None:
    task = await store(server, caller)
    writer = await make_caller(app, ["write"], tenant=caller)
    async with by_http(server, writer.key) as client:
        assert (await client.list_resource_templates()).resource_templates == []
        assert [p.name for p in (await client.list_prompts()).prompts] == ["remember_this"]
        for uri in (f"mnema://memories/{task['id']}", "mnema://users/maya/profile", "mnema://threads/launch/header"):
            await refused(client, uri, "scope_required")
        with pytest.raises(MCPError, match="scope_required"):
            await client.get_prompt("recall", {"question": "x", "agent": "planner"})


@pytest.mark.long
async def test_a_fixed_user_and_thread_are_the_only_ones(server: str, caller: Caller) -> None:
    await store(server, caller)
    async with caller.client(server) as http:
        his = await calls.remember(http, "Ben ships on Monday.", category="tasks", user_id="ben", thread_id="launch")
    fixed = ("--user", "maya", "--thread", "launch", "--agent", "supervisor")
    async with by_stdio(server, caller.key, arguments=fixed) as client:
        listed = {r.name: str(r.uri) for r in (await client.list_resources()).resources}
        assert listed == {
            "user_profile": "mnema://users/maya/profile",
            "thread_header": "mnema://threads/launch/header",
        }
        assert [t.name for t in (await client.list_resource_templates()).resource_templates] == ["memory"]
        assert "May" in await read(client, listed["user_profile"])
        assert "Ben" not in await read(client, listed["thread_header"])
        await refused(client, "mnema://users/ben/profile", "invalid_request")
        await refused(client, "mnema://threads/other/header", "invalid_request")
        await refused(client, f"mnema://memories/{his['id']}", "not_found")
        prompts = {p.name: [a.name for a in p.arguments or []] for p in (await client.list_prompts()).prompts}
        assert prompts == {"remember_this": ["text"], "recall": ["question"]}
        with pytest.raises(MCPError, match="is fixed to 'maya'"):
            await client.get_prompt("recall", {"question": "x", "user_id": "ben"})
        assert "Ben" not in await prompt(client, "recall", {"question": "Who ships when?"})


async def test_a_forgotten_memory_is_no_resource(server: str, caller: Caller) -> None:
    task = await store(server, caller)
    async with caller.client(server) as http:
        assert (await http.delete(f"/memory/{task['id']}")).is_success
    async with by_http(server, caller.key) as client:
        await refused(client, f"mnema://memories/{task['id']}", "not_found")


async def complete(
    client: Client, name: str, typed: str = "", prompt: str | None = None, uri: str = "", **given: str
) -> list[str]:
    """Return the completions of an argument of a prompt, or of a resource template."""
    ref = PromptReference(name=prompt) if prompt else ResourceTemplateReference(uri=uri)
    answer = await client.complete(ref, {"name": name, "value": typed}, context_arguments=given or None)
    assert answer.completion.has_more is False
    return answer.completion.values


@pytest.mark.long
async def test_arguments_are_completed(server: str, caller: Caller, connect: Connect) -> None:
    await store(server, caller)
    async with caller.client(server) as http:
        await calls.remember(http, "Ben packs.", user_id="ben", category="tasks", thread_id="trip")
    users, threads = "mnema://users/{user_id}/profile", "mnema://threads/{thread_id}/header"
    async with connect(server, caller.key) as client:
        assert await complete(client, "user_id", uri=users) == ["ben", "maya"]
        assert await complete(client, "user_id", "m", "recall") == ["maya"]
        assert await complete(client, "agent", "pl", "recall") == ["planner"]
        assert await complete(client, "thread_id", uri=threads) == ["launch", "trip"]
        assert await complete(client, "thread_id", prompt="recall", user_id="ben") == ["trip"]
        assert await complete(client, "question", "who", "recall") == []
        for strange in ("\0", " ", "m" * 300, "%", "_"):
            assert await complete(client, "user_id", strange, uri=users) == []
            assert await complete(client, "thread_id", prompt="recall", user_id=strange) == []
        assert await complete(client, "memory_id", "0", uri="mnema://memories/{memory_id}") == []
        for wrong in ({"prompt": "nosuch"}, {"uri": "mnema://nosuch/{user_id}"}, {"prompt": "recall", "name": "no"}):
            with pytest.raises(MCPError, match=r"invalid_request: (no such|unknown argument)"):
                await complete(client, **{"name": "user_id", **wrong})


@pytest.mark.long
async def test_completions_tell_no_more_than_the_key_may_see(server: str, app: Application, caller: Caller) -> None:
    await store(server, caller)
    stylist = await make_caller(app, ["query"], ["stylist"], caller)
    writer = await make_caller(app, ["write"], None, caller)
    other = await make_caller(app, ["query"])
    about = "mnema://threads/{thread_id}/header"
    async with by_http(server, stylist.key) as client:
        assert await complete(client, "user_id", prompt="recall") == []  # nothing of a user that the stylist may see
        assert await complete(client, "thread_id", uri=about) == []
        with pytest.raises(MCPError, match="unknown argument 'agent'"):
            await complete(client, "agent", prompt="recall")
    async with by_http(server, writer.key) as client:
        assert await complete(client, "user_id", prompt="remember_this") == []
    async with by_http(server, other.key) as client:
        assert await complete(client, "user_id", prompt="recall") == []
    async with by_stdio(server, caller.key, arguments=("--user", "ben")) as client:
        assert await complete(client, "thread_id", uri=about) == []
        with pytest.raises(MCPError, match="unknown argument 'user_id'"):
            await complete(client, "user_id", prompt="recall")
