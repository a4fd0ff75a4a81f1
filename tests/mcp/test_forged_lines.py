"""Stored texts that imitate lines of ours, in the texts of the tools and the resources."""

from tests.factories import Caller, body
from tests.forged_texts import FORGED, find_marks
from tests.mcp.connections import answered, ask, by_http, text

AT = range(0, len(FORGED), 4)


async def test_the_texts_of_tools_have_no_marks_but_ours(server: str, caller: Caller) -> None:
    async with by_http(server, caller.key) as client:
        for number in AT:
            written = await client.call_tool("memory.remember", body(FORGED[number], thread_id="t"))
            assert find_marks(text(written)) == []
            memory_id = answered(written)["id"]
            history = text(await client.call_tool("memory_history", {"memory_id": memory_id}))
            assert all(find_marks(line)[1:] == [] for line in history.splitlines())
        lines = text(await ask(client, thread_id="t", top_k=50, budget_tokens=8192, min_relevance=0)).splitlines()
        assert find_marks(lines[0]) == ["memory updates since rev"]
        assert [find_marks(line) for line in lines[1:4]] == [["preferences", "+created:"]] * 3
        assert len(lines) > 4
        assert all(find_marks(line) == ["preferences"] for line in lines[4:])
