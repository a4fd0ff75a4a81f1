"""`mnema remember`, `query`, `search` and `history`: their output, and their messages for a wrong server or input."""

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap import Application, Doubles
from app.config.settings import Settings
from app.config.yaml_files import CONFIG_DIR
from app.domain.memory.memory import MemoryType
from app.ports import Embedder
from tests.acceptance.processes import mnema
from tests.factories import Caller, draft, serve

TEXT = "Maya likes [bold]dark[/bold] roast, black :coffee:."
REMEMBER = ("remember", "--user", "maya", "--category", "tasks")
ASK = ("query", "coffee", "--agent", "planner")


@pytest.fixture
def env(server: str, caller: Caller, tmp_path: Path) -> dict[str, Any]:
    """Return the environment of a shell with the server's address and a proxy."""
    proxy = "http://127.0.0.1:1"
    return {"MNEMA_URL": server + "/", "MNEMA_API_KEY": caller.key, "MNEMA_HOME": tmp_path, "HTTP_PROXY": proxy}


@pytest.mark.long
async def test_a_memory_is_written_found_changed_and_told_as_it_was_said(env: dict[str, Any]) -> None:
    first = await mnema(*REMEMBER, TEXT, "--importance", "4", "--tag", "drinks", "--thread", "cafe", **env)
    assert first.returncode == 0
    action, memory = first.stdout.split()
    assert action == "created"
    again = await mnema(*REMEMBER, TEXT, **env)
    assert again.stdout == f"unchanged {memory} (matched, similarity 1.00)\n"
    plain, explained, as_json, german, history, raw = await asyncio.gather(
        mnema(*ASK, "--user", "maya", "--thread", "cafe", "--since-rev", "0", **env),
        mnema(*ASK, "--category", "tasks", "--explain", **env),
        mnema(*ASK, "--json", **env),
        mnema(*ASK, "--json", "--language", "de", **env),
        mnema("history", memory, **env),
        mnema("history", memory, "--json", "--limit", "1", **env),
    )
    assert plain.stdout.startswith("Memory updates since rev 0:\n- ")
    assert f"\n- +created: [Tasks] {TEXT} (imp=4)\n" in plain.stdout
    assert f"\n- [tasks] {TEXT} (" in plain.stdout
    assert " tokens, " in plain.stdout.splitlines()[-1]
    assert " = dense +" in explained.stdout
    assert [item["id"] for item in json.loads(as_json.stdout)["items"]] == [memory]
    assert json.loads(german.stdout)["items"] == []
    assert [line.split()[2] for line in history.stdout.splitlines()[1:]] == ["ADD"]
    assert TEXT in history.stdout
    assert [row["event"] for row in json.loads(raw.stdout)["items"]] == ["ADD"]


@pytest.mark.long
async def test_a_user_with_a_text_or_a_question_is_enough(env: dict[str, Any]) -> None:
    assert (await mnema("remember", "Maya plays the cello.", "--user", "maya", **env)).returncode == 0
    told = await mnema("query", "What does Maya play?", "--user", "maya", "--no-dates", **env)
    assert told.stdout.splitlines()[0] == "- [knowledge] Maya plays the cello."
    hidden = await mnema("query", "What does Maya play?", "--user", "maya", "--agent", "planner", "--explain", **env)
    assert "hidden: better matches are in categories that the agent may not see: knowledge" in hidden.stdout


@pytest.mark.long
async def test_a_search_prints_each_line_with_its_source(app: Application, caller: Caller, env: dict[str, Any]) -> None:
    turn = draft("Coffee at [M7]? [bold]No[/bold] :tea:.", type=MemoryType.turn, category="activity", thread_id="cafe")
    said = await app.memory.write.write_memory(caller.scope, replace(turn, role="user"))
    fact = await app.memory.write.write_memory(caller.scope, draft("Ben drinks coffee.", user_id="ben"))
    every = ("search", "coffee", "--min-relevance", "0")
    plain, of_maya, as_json, none = await asyncio.gather(
        mnema(*every, "--user", "maya", **env),
        mnema(*every, "--user", "maya", "--type", "memory", **env),
        mnema(*every, "--json", "--thread", "cafe", "--top-k", "2", **env),
        mnema(*every, "--user", "nobody", "--budget", "50", **env),
    )
    lines = plain.stdout.splitlines()
    assert lines[0] == "[M1] Coffee at (M7)? [bold]No[/bold] :tea:."
    assert lines[1].split()[:4] == ["turn", "maya", "user", "cafe"]
    assert lines[1].endswith(str(said.id))
    assert lines[2].startswith("1 found, ")
    assert of_maya.stdout.startswith("0 found, ")
    assert {result["id"] for result in json.loads(as_json.stdout)["results"]} == {str(said.id), str(fact.id)}
    assert none.stdout.startswith("0 found, ")


@pytest.mark.long
async def test_refusals_are_one_line_with_the_problems_code(env: dict[str, Any]) -> None:
    cases = {
        (*REMEMBER, ""): "error 422 empty_text: ",
        (*REMEMBER, "x " * 200): "error 422 text_too_long: ",
        ("remember", "--user", "maya", "--category", "gossip", "x"): "error 422 unknown_category: ",
        ("search", "x", "--type", "gossip"): "error 422 invalid_request: body.types.0: ",
        ("search", " "): "error 422 invalid_request: query is empty",
        ("query", "x", "--agent", "[/red]"): "error 403 unknown_agent: no allowlist for agent '[/red]'; ",
        ("query", "x", "--agent", "stylist", "--category", "tasks"): "error 403 category_not_allowed: ",
        ("history", "00000000-0000-7000-8000-000000000000"): "error 404 not_found: No such memory",
        (*REMEMBER, "\udcff"): "error the request cannot be sent: ",
    }
    ended = await asyncio.gather(*(mnema(*args, **env) for args in cases))
    for done, expected in zip(ended, cases.values(), strict=True):
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
        assert done.stderr.startswith(expected)


@pytest.mark.long
async def test_how_much_is_answered_the_servers_policies_say_where_the_command_does_not(
    app: Application, caller: Caller, settings: Settings, embedder: Embedder, env: dict[str, Any], tmp_path: Path
) -> None:
    shutil.copytree(CONFIG_DIR, tmp_path / "config")
    policies = tmp_path / "config" / "policies.yaml"
    text = policies.read_text(encoding="utf-8").replace(
        "  top_k: 5\n  budget_tokens: 512\n", "  top_k: 8\n  budget_tokens: 2000\n"
    )
    policies.write_text(text.replace("  min_relevance: null", "  min_relevance: 0"), encoding="utf-8")
    for word in ("Coffee", "Tax", "Chess", "Boat", "Roof", "Piano", "Garden", "Visa"):
        await app.memory.write.write_memory(
            caller.scope, draft(f"{word} papers: " + f"the {word} file is due. " * 10, category="tasks")
        )
    async with serve(
        settings.model_copy(update={"config_dir": tmp_path / "config"}), Doubles(embedder=embedder)
    ) as url:
        env["MNEMA_URL"] = url
        bare, few, small = await asyncio.gather(
            mnema(*ASK, "--json", **env),
            mnema(*ASK, "--json", "--top-k", "3", **env),
            mnema(*ASK, "--json", "--budget", "200", **env),
        )
    answers = [json.loads(done.stdout) for done in (bare, few, small)]
    assert [len(answer["items"]) for answer in answers[:2]] == [8, 3]
    assert answers[0]["tokens"] > 512
    assert answers[2]["tokens"] <= 200


async def test_what_is_no_id_is_not_asked_for(env: dict[str, Any]) -> None:
    wrong = await mnema("history", "nonsense", **env)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "should be a valid UUID" in wrong.stderr


@pytest.mark.long
async def test_a_server_that_is_not_there_or_no_key_is_said_in_words(env: dict[str, Any]) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"MNEMA_URL": "http://127.0.0.1:1"}, "error http://127.0.0.1:1: "),
        (
            {"MNEMA_URL": "http://127.0.0.1:1"},
            "; start the server with `mnema up` or `make run`, or correct MNEMA_URL\n",
        ),
        (
            {"MNEMA_URL": "localhost:1"},
            "error MNEMA_URL or MNEMA_API_KEY cannot be used: base_url must be an http or https URL",
        ),
        ({"MNEMA_URL": "http://[::"}, "error MNEMA_URL or MNEMA_API_KEY cannot be used: "),
        ({"MNEMA_API_KEY": "schlüssel"}, "error MNEMA_URL or MNEMA_API_KEY cannot be used: "),
        ({"MNEMA_API_KEY": "wrong"}, "error 401 unauthenticated: "),
        ({"MNEMA_URL": ""}, "set MNEMA_URL and MNEMA_API_KEY, or start the embedded server: mnema up"),
        ({"MNEMA_URL": f"{env['MNEMA_URL']}docs#"}, "error 4"),
    ]
    ended = await asyncio.gather(*(mnema(*ASK, **env | overridden) for overridden, _said in cases))
    for done, (_overridden, expected) in zip(ended, cases, strict=True):
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
        assert expected in done.stderr
        assert "wrong" not in done.stderr
