"""Anthropic's memory tool against a real server, driven by the tool runner of the real package."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from mnema_client import AsyncMnema, Mnema, NotFound, Unauthenticated

from tests.factories import Caller
from tests.fake_claude import fake_claude
from tests.sdk.conftest import apart
from tests.sdk.example_runs import run_example

pytest.importorskip("anthropic", reason="anthropic is not installed")

from anthropic import AsyncAnthropic
from anthropic.tools import BetaLocalFilesystemMemoryTool, ToolError
from mnema_client.adapters.anthropic import AsyncMnemaMemoryTool, MnemaMemoryTool

NOTES = "/memories/work/notes.md"


async def converse(tool: AsyncMnemaMemoryTool, *script: dict[str, Any] | str) -> list[dict[str, Any]]:
    """Let the scripted model use the tool; return the tool's results as the model gets them."""
    async with fake_claude(*script) as model, AsyncAnthropic(base_url=model.base_url, api_key="none") as client:
        question: Any = [{"role": "user", "content": "Go on."}]
        runner = client.beta.messages.tool_runner(model="scripted", max_tokens=99, messages=question, tools=[tool])
        assert (await runner.until_done()).content[0].type == "text"
    assert model.requests[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    return model.tool_results


def do(tool: Any, command: str, **fields: Any) -> str:
    """Run one command; return its text, or that of its ToolError after `error: `."""
    try:
        return str(tool.call({"command": command, **fields}))
    except ToolError as error:
        return f"error: {error.content}"


@pytest.fixture
def files(waiting: Mnema) -> MnemaMemoryTool:
    """Return the tool of maya."""
    return MnemaMemoryTool(waiting, user_id="maya")


@pytest.mark.long
async def test_claude_finds_in_the_next_run_what_it_wrote(
    waiting: Mnema, waiting_elsewhere: Mnema, memory: AsyncMnema
) -> None:
    await converse(
        AsyncMnemaMemoryTool(waiting, user_id="maya"),
        {"command": "view", "path": "/memories"},
        {"command": "create", "path": NOTES, "file_text": "The launch is on 12 March.\n"},
        "Noted.",
    )
    listed, read = await converse(
        AsyncMnemaMemoryTool(waiting, user_id="maya"),
        {"command": "view", "path": "/memories"},
        {"command": "view", "path": NOTES},
        "On 12 March.",
    )
    assert NOTES in str(listed["content"])
    assert "     1\tThe launch is on 12 March." in str(read["content"])
    for other, user in ((waiting, "ben"), (waiting_elsewhere, "maya")):
        empty, missing = await converse(
            AsyncMnemaMemoryTool(other, user_id=user),
            {"command": "view", "path": "/memories"},
            {"command": "view", "path": NOTES},
            "I do not know.",
        )
        assert "notes.md" not in str(empty["content"])
        assert missing["is_error"] is True
    answer = await memory.query("when is the launch?", agent="researcher", filters={"user_id": "maya"})
    assert "12 March" in answer.prompt()  # an agent that may see the category


STEPS: list[tuple[str, dict[str, Any]]] = [
    ("view", {"path": "/memories/none"}),
    ("create", {"path": "/memories/a.md", "file_text": "one\n\n\n\n  two “x”\t\nthree\nthree\n"}),
    ("create", {"path": "/memories/a.md", "file_text": "again"}),
    ("create", {"path": "/memories/dir/deep/c.md", "file_text": "c"}),
    ("create", {"path": "/memories/empty", "file_text": ""}),
    ("view", {"path": "/memories/a.md"}),
    ("view", {"path": "/memories/a.md", "view_range": [2, 5]}),
    ("view", {"path": "/memories/a.md", "view_range": [5, -1]}),
    ("view", {"path": "/memories/empty"}),
    ("str_replace", {"path": "/memories/a.md", "old_str": "two “x”\t", "new_str": "2\n"}),
    ("str_replace", {"path": "/memories/a.md", "old_str": "absent", "new_str": "2"}),
    ("str_replace", {"path": "/memories/none", "old_str": "a", "new_str": "2"}),
    ("insert", {"path": "/memories/a.md", "insert_line": 0, "insert_text": "zero\n"}),
    ("insert", {"path": "/memories/a.md", "insert_line": 3, "insert_text": "mid"}),
    ("insert", {"path": "/memories/a.md", "insert_line": 99, "insert_text": "x"}),
    ("insert", {"path": "/memories/empty", "insert_line": 0, "insert_text": "now"}),
    ("view", {"path": "/memories/a.md"}),
    ("view", {"path": "/memories/empty"}),
    ("rename", {"old_path": "/memories/a.md", "new_path": "/memories/dir/b.md"}),
    ("rename", {"old_path": "/memories/empty", "new_path": "/memories/dir/b.md"}),
    ("rename", {"old_path": "/memories/none", "new_path": "/memories/new"}),
    ("rename", {"old_path": "/memories/dir", "new_path": "/memories/moved"}),
    ("rename", {"old_path": "/memories", "new_path": "/memories/moved/x"}),
    ("view", {"path": "/memories/moved/b.md"}),
    ("view", {"path": "/memories/moved/deep/c.md"}),
    ("delete", {"path": "/memories/moved/deep"}),
    ("delete", {"path": "/memories/moved/b.md"}),
    ("delete", {"path": "/memories/moved/b.md"}),
    ("delete", {"path": "/memories"}),
    ("view", {"path": "/memories/moved/b.md"}),
    ("create", {"path": "/memories/moved/b.md", "file_text": "new"}),
    ("view", {"path": "/memories/moved/b.md"}),
    ("view", {"path": "/etc/passwd"}),
    ("view", {"path": "/memories/../etc/passwd"}),
]


@pytest.mark.long
async def test_the_commands_answer_as_the_packages_own_tool(files: MnemaMemoryTool, tmp_path: Any) -> None:
    model = BetaLocalFilesystemMemoryTool(str(tmp_path))
    for command, fields in STEPS:
        expected, found = do(model, command, **fields), await apart(lambda c=command, f=fields: do(files, c, **f))
        if expected.startswith("error: "):
            assert found.startswith("error: "), (command, fields, expected)
        else:
            assert found == expected, (command, fields)


async def test_a_folder_lists_two_levels_with_sizes(files: MnemaMemoryTool) -> None:
    for path, text in (("a.md", "12345"), ("d/b.md", "x" * 2048), ("d/e/f.md", "é"), (".hidden/x", "no")):
        await apart(lambda p=path, t=text: do(files, "create", path=f"/memories/{p}", file_text=t))
    assert (await apart(lambda: do(files, "view", path="/memories/"))).split("\n")[1:] == [
        "2.0K\t/memories",
        "5B\t/memories/a.md",
        "2.0K\t/memories/d/",
        "2.0K\t/memories/d/b.md",
        "2B\t/memories/d/e/",
    ]
    assert "/memories/d/e/f.md" in await apart(lambda: do(files, "view", path="/memories/d"))


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("create", {"path": "/memories/a/b", "file_text": ""}, "/memories/a is a file"),
    ("create", {"path": "/memories_other/x", "file_text": ""}, "must start with /memories"),
    ("create", {"path": "/memories//b", "file_text": ""}, "no empty name"),
    ("create", {"path": "/memories/b\n", "file_text": ""}, "printable"),
    ("create", {"path": "/memories/" + "b" * 400, "file_text": ""}, "at most 400"),
    ("create", {"path": "/memories/b", "file_text": "b" * 20_000}, "at most about 16,000 bytes"),
    ("create", {"path": "/memories/b", "file_text": "\0"}, "not stored"),
    ("create", {"path": "/memories/b"}, "file_text: "),
    ("create", {"path": 5, "file_text": ""}, "path: "),
    ("str_replace", {"path": "/memories/a", "old_str": "aa", "new_str": ""}, "Multiple occurrences"),
    ("str_replace", {"path": "/memories/a", "old_str": "", "new_str": "x"}, "did not appear"),
    ("rename", {"old_path": "/memories/a", "new_path": "/memories/a/b"}, "cannot hold"),
]


@pytest.mark.parametrize(("command", "fields", "said"), BAD, ids=[said for _command, _fields, said in BAD])
async def test_a_wrong_command_is_told_to_claude(
    files: MnemaMemoryTool, command: str, fields: dict[str, Any], said: str
) -> None:
    await apart(lambda: do(files, "create", path="/memories/a", file_text="aaa"))
    answer = await apart(lambda: do(files, command, **fields))
    assert answer.startswith("error: ")
    assert said in answer
    assert await apart(lambda: do(files, "view", path="/memories/a")) == (
        "Here's the content of /memories/a with line numbers:\n     1\taaa"
    )


async def together(*works: Callable[[], str]) -> list[str]:
    """Run works at the same time, each in a thread; return their results."""
    return list(await asyncio.gather(*(apart(work) for work in works)))


async def test_of_changes_at_the_same_time_none_is_lost(waiting: Mnema, memory: AsyncMnema) -> None:
    tools = [MnemaMemoryTool(waiting, user_id="maya") for _ in range(4)]
    made = await together(
        *(lambda t=tool, n=n: do(t, "create", path=NOTES, file_text=f"by {n}\n") for n, tool in enumerate(tools))
    )
    active = [item async for item in memory.list(user_id="maya", tag="memory_file")]
    assert len(active) == sum(text.startswith("File created") for text in made) <= 1
    await apart(lambda: do(tools[0], "create", path=NOTES, file_text="start\n"))
    done = await together(
        *(
            lambda t=tool, n=n: do(t, "insert", path=NOTES, insert_line=1, insert_text=f"line {n}")
            for n, tool in enumerate(tools)
        )
    )
    content = await apart(lambda: do(tools[0], "view", path=NOTES))
    for number, text in enumerate(done):
        assert (f"line {number}" in content) == text.endswith("has been edited."), text
    assert all("changed by another at the same time" in text for text in done if text.startswith("error: "))


async def test_a_file_has_history_and_is_restored_exported_and_erased(
    files: MnemaMemoryTool, waiting: Mnema, memory: AsyncMnema
) -> None:
    await apart(lambda: do(files, "create", path=NOTES, file_text="one\n\n\n  two\n"))
    await apart(lambda: do(files, "str_replace", path=NOTES, old_str="one", new_str="three"))
    [stored] = [item async for item in memory.list(user_id="maya", tag="memory_file")]
    newest, first = [entry async for entry in memory.history(stored.id)]
    assert (newest.event, first.event) == ("UPDATE", "ADD")
    assert "one\\n\\n\\n  two\\n" in json.dumps(newest.meta)
    await apart(files.clear_all_memory)
    assert await apart(lambda: do(files, "view", path=NOTES)) == (
        f"error: The path {NOTES} does not exist. Please provide a valid path."
    )
    await memory.restore(stored.id)
    assert "     1\tthree" in await apart(lambda: do(files, "view", path=NOTES))
    assert "three" in json.dumps([record async for record in memory.export("maya")])
    await memory.erase("maya")
    assert "notes" not in await apart(lambda: do(files, "view", path="/memories"))
    with pytest.raises(NotFound):
        assert not [record async for record in memory.export("maya")]
    await apart(lambda: do(files, "create", path=NOTES, file_text="A new life."))
    assert "A new life." in await apart(lambda: do(files, "view", path=NOTES))


async def test_a_refused_key_is_told_by_its_code(waiting_refused: Mnema) -> None:
    tool = MnemaMemoryTool(waiting_refused, user_id="maya")
    with pytest.raises(Unauthenticated, match="unauthenticated"):
        await apart(lambda: do(tool, "view", path=NOTES))
    [result] = await converse(
        AsyncMnemaMemoryTool(waiting_refused, user_id="maya"), {"command": "view", "path": NOTES}, "It failed."
    )
    assert result["is_error"] is True
    assert "Unauthenticated" in str(result["content"])


@pytest.mark.long
async def test_the_example_runs(server: str, caller: Caller) -> None:
    create = {"command": "create", "path": NOTES, "file_text": "Maya deploys on Thursdays."}
    async with fake_claude(create, "Noted.") as model:
        said = ("maya", "I deploy on Thursdays. Remember that.")
        assert await run_example("anthropic_memory.py", server, caller, model.base_url, *said) == "Noted."
    async with fake_claude({"command": "view", "path": NOTES}, "On Thursdays.") as model:
        said = ("maya", "When do I deploy?")
        assert await run_example("anthropic_memory.py", server, caller, model.base_url, *said) == "On Thursdays."
        assert "Maya deploys on Thursdays." in str(model.tool_results)
