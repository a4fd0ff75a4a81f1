"""`mnema facts`: list, set, tell and answer, and the answer from facts in `mnema query`."""

import json
from pathlib import Path
from typing import Any

import pytest
from mnema_cli.client import PAGE

from app.bootstrap import Application
from app.domain.facts.fact import FactKind
from app.usecases.facts.store import FactPlace, NewFact
from tests.cli.in_process import mnema
from tests.factories import Caller, make_caller

COLORS = "My favorite colors are blue, green and black."
SECOND = "What's my second favorite color?"
MAYA = ("--user", "maya", "--thread", "launch")


@pytest.fixture
def env(server: str, caller: Caller, tmp_path: Path) -> dict[str, Any]:
    """Return the environment with the server's address."""
    return {"MNEMA_URL": server, "MNEMA_API_KEY": caller.key, "MNEMA_HOME": tmp_path / "home"}


async def test_a_text_is_told_listed_and_answered(env: dict[str, Any]) -> None:
    told = await mnema("facts", "tell", COLORS, *MAYA, **env)
    assert told.stdout.splitlines() == [
        "store favorite_colors #1: blue",
        "store favorite_colors #2: green",
        "store favorite_colors #3: black",
    ], told.stderr
    before = await mnema("facts", "list", "--user", "maya", "--as-of", "2020-01-01", **env)
    assert (before.exit_code, len(before.stdout.splitlines())) == (0, 1)
    unknown = await mnema("facts", "answer", SECOND, *MAYA, "--valid-at", "2020-01-01", **env)
    assert "I don't have" in unknown.stdout
    again = await mnema("facts", "tell", COLORS, *MAYA, **env)
    assert again.stdout.splitlines()[0] == "unchanged favorite_colors #1: blue"
    head, *rows = (await mnema("facts", "list", "--user", "maya", **env)).stdout.splitlines()
    assert head.split() == ["topic", "rank", "value", "thread", "id"]
    assert [row.split()[:4] for row in rows] == [
        ["favorite_colors", str(rank), value, "launch"] for rank, value in enumerate(("blue", "green", "black"), 1)
    ]
    answered = await mnema("facts", "answer", SECOND, *MAYA, **env)
    assert answered.stdout == "Your second favorite color is green.\n"
    unknown = await mnema("facts", "answer", SECOND, "--user", "ben", **env)
    assert (unknown.exit_code, unknown.stdout) == (0, "I don't have that stored yet.\n")
    other = await mnema("facts", "answer", "Why is the sky blue?", *MAYA, **env)
    assert (other.exit_code, other.stdout) == (1, "")
    assert other.stderr == "error this is no question about facts; ask it with: mnema query\n"
    nothing = await mnema("facts", "tell", "Good morning.", *MAYA, **env)
    assert nothing.stdout == "nothing stored: the text states no facts\n"


async def test_json_is_the_servers_answer(env: dict[str, Any]) -> None:
    told = json.loads((await mnema("facts", "tell", COLORS, *MAYA, "--json", **env)).stdout)
    assert (told["model_label"], told["memory_actions"]["S"]) == ("Model: Memory-S(3) + GPT-5", 3)
    listed = json.loads((await mnema("facts", "list", "--user", "maya", "--json", **env)).stdout)
    assert [fact["id"] for fact in listed["items"]] == [fact["id"] for fact in told["facts"]]
    answered = json.loads((await mnema("facts", "answer", SECOND, *MAYA, "--json", **env)).stdout)
    assert ([fact["value"] for fact in answered["facts"]], answered["meta"]["usedMemory"]) == (["green"], True)
    other = await mnema("facts", "answer", "Why?", *MAYA, "--json", **env)
    assert (other.exit_code, json.loads(other.stdout)["text"]) == (0, None)
    set_ = json.loads((await mnema("facts", "set", "color", "1", "red", *MAYA, "--json", **env)).stdout)
    assert [(fact["action"], fact["value"]) for fact in set_["facts"]] == [("update", "red")]


@pytest.mark.parametrize(
    ("topic", "key"),
    [
        ("favorite_colors", "favorite_colors"),
        ("color", "favorite_colors"),
        ("Colours", "favorite_colors"),
        ("my favorite  show", "favorite_tv"),
        ("ice cream", "favorite_ice_creams"),
        ("pet_names", "favorite_pet_names"),
    ],
)
async def test_a_topic_is_named_by_key_or_noun(env: dict[str, Any], topic: str, key: str) -> None:
    ranked = await mnema("facts", "set", topic, "2", "a [bold]one[/]", *MAYA, **env)
    assert ranked.stdout == f"store {key} #2: a [bold]one[/]\n", ranked.stderr
    single = await mnema("facts", "set", "--user", "ben", topic, "none", **env)
    assert single.stdout == f"store {key}: none\n", single.stderr
    listed = await mnema("facts", "list", "--user", "maya", "--topic", topic, **env)
    assert [row.split()[:2] for row in listed.stdout.splitlines()[1:]] == [[key, "2"]]
    elsewhere = await mnema("facts", "list", *MAYA[:3], "other", **env)
    assert elsewhere.stdout.splitlines()[1:] == []


async def test_wrong_arguments_and_refusals_are_one_line(app: Application, caller: Caller, env: dict[str, Any]) -> None:
    cases = {
        ("color", "2nd", "red"): (2, "error RANK '2nd' is not a whole number"),
        ("color", "2", "dark", "red"): (2, "error give [RANK] VALUE, and put a value of several words in quotes"),
        ("thing", "red"): (2, "error 'thing' names no topic; give a key such as favorite_colors, or a noun "),
        ("color of cars", "red"): (2, "error 'color of cars' names no topic; "),
        ("color", "11", "red"): (1, "error 422 rank_out_of_range: rank 11: "),
        ("color", "1", " "): (1, "error 422 empty_text: "),
        ("_Colors", "red"): (1, "error 422 invalid_request: "),
    }
    for words, (code, said) in cases.items():
        done = await mnema("facts", "set", *words, *MAYA, **env)
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (code, "", 1), done.stderr
        assert done.stderr.startswith(said)
    planner = await make_caller(app, ["query", "write"], ["planner"], tenant=caller)
    refused = await mnema("facts", "list", "--user", "maya", **env | {"MNEMA_API_KEY": planner.key})
    assert refused.stderr.startswith("error 403 category_not_allowed: ")
    assert (await mnema("facts", "list", "--user", "maya", **env)).stdout.splitlines()[1:] == []


@pytest.mark.long
async def test_a_list_has_all_pages(app: Application, caller: Caller, env: dict[str, Any]) -> None:
    topics = [f"favorite_{n:03}_teas" for n in range(PAGE + 1)]
    for start in range(0, len(topics), 100):
        new = [NewFact(topic, FactKind.single, None, "x") for topic in topics[start : start + 100]]
        await app.facts.store.store_values(caller.scope, FactPlace("maya"), new)
    listed = json.loads((await mnema("facts", "list", "--user", "maya", "--json", **env)).stdout)
    assert [fact["topic_key"] for fact in listed["items"]] == topics
    assert listed["next_cursor"] is None


async def test_a_query_prints_the_answer_from_facts_first(env: dict[str, Any]) -> None:
    await mnema("facts", "tell", COLORS, "--user", "maya", **env)
    await mnema("remember", "--user", "maya", "--category", "tasks", "Maya orders paint of her favorite color.", **env)
    for agent, first in (
        ("supervisor", "- Your second favorite color is green."),
        ("planner", "- [tasks] Maya orders"),
    ):
        done = await mnema("query", SECOND, "--agent", agent, "--user", "maya", **env)
        assert done.stdout.startswith(first), done.stdout + done.stderr
