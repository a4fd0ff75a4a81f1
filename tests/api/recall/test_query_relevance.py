"""Queries that answer what helps and nothing else: relevance, newest statements, near-duplicates, exclusions."""

from typing import Any

import httpx
import pytest

from tests.api.calls import ask, refused, remember, say

FACTS = {
    "preferences": [
        "Maya drinks oat milk in her coffee.",
        "Maya prefers window seats on trains.",
        "Maya wants summaries as bullet points.",
    ],
    "tasks": ["Renew the certificate of the booking server.", "Send the invoice to the Lund clinic."],
    "goals": ["The company wants two hundred clinics by December."],
}


TALK = [
    "I painted a lake at dawn last weekend.",
    "My sister came by with her kids.",
    "The colours of the lake were hard to mix.",
    "We had soup and bread for dinner.",
    "I may show the picture at the club.",
    "Work was quiet this week.",
]


@pytest.fixture
async def stored(http: httpx.AsyncClient) -> httpx.AsyncClient:
    """A client of a tenant with some facts about maya."""
    for category, lines in FACTS.items():
        for text in lines:
            await remember(http, text, category=category)
    return http


async def asked(http: httpx.AsyncClient, query: str, **fields: Any) -> dict[str, Any]:
    """Query with the configured least relevance."""
    return await ask(http, query, **({"min_relevance": None} | fields))


async def test_a_question_gets_its_answer_and_a_far_fetched_one_nothing(stored: httpx.AsyncClient) -> None:
    answer = await asked(stored, "What milk does Maya take in her coffee?")
    assert answer["items"][0]["text"] == "[preferences] Maya drinks oat milk in her coffee."
    assert 0.5 < answer["items"][0]["relevance"] <= answer["answerable"]
    assert len(answer["items"]) < 5
    for nonsense in ("quantum chromodynamics lattice", "tectonic plates of Iceland"):
        nothing = await asked(stored, nonsense, explain=True)
        assert (nothing["items"], nothing["related"]) == ([], [])
        assert nothing["answerable"] < 0.05
        assert {dropped["reason"] for dropped in nothing["dropped"]} <= {"relevance", "rank"}


async def test_the_least_relevance_of_a_request_takes_precedence(stored: httpx.AsyncClient) -> None:
    question = "What milk does Maya take in her coffee?"
    everything = await asked(stored, question, min_relevance=0)
    assert len(everything["items"]) == 5
    middle = sorted(item["relevance"] for item in everything["items"])[2]
    some = await asked(stored, question, min_relevance=middle)
    assert {item["id"] for item in some["items"]} <= {item["id"] for item in everything["items"]}
    assert all(item["relevance"] >= middle for item in some["items"])
    assert (await asked(stored, question, min_relevance=1))["items"] == []


@pytest.mark.parametrize("placed", [True, False])
@pytest.mark.parametrize("category", ["activity", "event"])
async def test_turns_have_one_least_relevance_in_every_category(
    http: httpx.AsyncClient, category: str, placed: bool
) -> None:
    for seq, text in enumerate(TALK, start=1):
        turn = {"type": "turn", "thread_id": "talk", "seq": seq if placed else None, "actor_id": "Maya", "role": "user"}
        await remember(http, text, category=category, **turn)
    answer = await asked(http, "How was work this week?", categories=[category], top_k=10)
    relevances = sorted(item["relevance"] for item in answer["items"])
    assert 0.007 <= relevances[0] < 0.1


@pytest.mark.parametrize("wrong", [-0.1, 1.1, "0.5", True])
async def test_a_least_relevance_out_of_range_is_refused(http: httpx.AsyncClient, wrong: Any) -> None:
    request = {"agent": "supervisor", "query": "milk", "min_relevance": wrong}
    refused(await http.post("/memory/query", json=request), 422, "invalid_request")


async def test_pinned_memories_of_most_importance_are_exempt(stored: httpx.AsyncClient) -> None:
    rule = await remember(stored, "Maya must never eat nuts.", category="goals", importance=5, pinned=True)
    answer = await asked(stored, "quantum chromodynamics lattice")
    assert [item["id"] for item in answer["items"]] == [rule["id"]]


async def test_the_newest_statement_comes_first_and_explain_names_it(http: httpx.AsyncClient) -> None:
    old = await remember(http, "Nora drinks coffee black.", created_at="2025-01-01T08:00:00Z")
    new = await remember(http, "Nora now drinks coffee with oat milk.", category="goals")
    answer = await asked(http, "Does Nora drink her coffee black?", explain=True)
    assert [item["id"] for item in answer["items"]] == [new["id"], old["id"]]
    assert [item.get("superseded_by") for item in answer["items"]] == [None, new["id"]]
    assert "superseded_by" not in (await asked(http, "Does Nora drink her coffee black?"))["items"][1]


async def test_facts_that_say_the_same_are_one_item(http: httpx.AsyncClient) -> None:
    one = await remember(http, "Nora wants summaries as bullet points.")
    two = await remember(http, "By the way, Nora wants summaries as bullet points", category="goals")
    answer = await asked(http, "How does Nora want summaries?", explain=True)
    [item] = answer["items"]
    assert {item["id"], *item["also"]} == {one["id"], two["id"]}
    assert [dropped["reason"] for dropped in answer["dropped"]] == ["duplicate"]
    assert two["id"] not in {related["id"] for related in answer["related"]}


async def test_a_question_is_not_its_own_answer(http: httpx.AsyncClient) -> None:
    await say(http, "I take oat milk in my coffee.", seq=1)
    question = "Which milk do I take in my coffee?"
    await say(http, question, seq=2)
    await say(http, "You take almond milk in your coffee.", seq=3, role="assistant")
    everything = {"min_relevance": 0, "thread_id": "talk", "categories": ["activity"]}
    texts = [item["text"] for item in (await asked(http, question, **everything))["items"]]
    assert f"[activity] {question}" not in texts
    assert len(texts) == 2
    before = [item["text"] for item in (await asked(http, question, before_seq=2, **everything))["items"]]
    assert before == ["[activity] I take oat milk in my coffee."]


async def test_what_was_asked_before_neither_answers_nor_hides_the_answer(http: httpx.AsyncClient) -> None:
    await say(http, "I'd like a risotto tonight. I'm lactose intolerant, so no butter please.", thread_id="supper")
    for text in TALK:
        await say(http, text)
    question = "Am I intolerant to anything?"
    for number in range(3):
        await say(http, question, thread_id=f"asked {number}")
        echo = f"I am not sure. You asked: {question}"
        await say(http, echo, thread_id=f"asked {number}", role="assistant")
    answer = await asked(http, question, categories=["activity"], explain=True)
    assert "lactose" in answer["items"][0]["text"]
    assert [dropped["reason"] for dropped in answer["dropped"]].count("question") == 6


async def test_a_turn_that_repeats_a_question_and_answers_it_stays(http: httpx.AsyncClient) -> None:
    question = "Where do I live?"
    await say(http, f"{question} In Ghent behind the old market, right?", thread_id="quiz")
    answer = await asked(http, question, categories=["activity"])
    assert "Ghent" in answer["items"][0]["text"]


async def test_what_the_caller_has_already_is_left_out(stored: httpx.AsyncClient) -> None:
    best = (await asked(stored, "What milk does Maya take?"))["items"][0]
    without = await asked(stored, "What milk does Maya take?", exclude_ids=[best["id"]], min_relevance=0)
    assert best["id"] not in {item["id"] for item in without["items"] + without["related"]}
    assert len(without["items"]) == 5


@pytest.mark.parametrize(
    "fields",
    [{"before_seq": 2}, {"exclude_ids": ["x"]}, {"exclude_ids": ["01a20458-1fe3-723e-9a62-c8fc172417a1"] * 201}],
)
async def test_exclusions_that_make_no_sense_are_refused(http: httpx.AsyncClient, fields: dict[str, Any]) -> None:
    request = {"agent": "supervisor", "query": "milk", **fields}
    response = await http.post("/memory/query", json=request)
    assert (response.status_code, response.json()["status"]) == (422, 422)
