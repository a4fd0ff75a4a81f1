"""Token budgets: never exceeded, spent on whole lines, and shared between complete and ranked categories."""

import math
from typing import Any

import httpx
import pytest

from app.providers.tokens import WordPieceCounter
from tests.api.calls import ask, listed, remember, texts

BUDGETS = [1, 2, 5, 8, 10, 12, 15, 20, 25, 30, 40, 50, 64, 75, 100, 128, 200, 256, 512, 1024, 4096, 8192]
WORDS = WordPieceCounter()


def cost(line: str) -> int:
    """Return the cost of a line: its WordPiece tokens or a quarter of its bytes with the newline, whichever is more."""
    return max(WORDS.count_tokens(line), math.ceil((len(line.encode()) + 1) / 4))


def spent(answer: dict[str, Any]) -> int:
    lines = answer["header"].splitlines() + [item["text"] for item in answer["items"] + answer["related"]]
    return sum(cost(line) for line in lines)


@pytest.fixture
async def library(http: httpx.AsyncClient) -> httpx.AsyncClient:
    """Store short and long memories, ASCII and other, in complete and ranked categories, in a thread."""
    for number, name in enumerate(("Mimi", "🦉" * 12, "Ωμέγα " * 9, "Maya the elder of the two sisters")):
        await remember(http, f"Maya is called {name}.", category="profile", importance=number + 1, thread_id="t")
    for number in range(12):
        words = "oat milk " * (1 + number)
        await remember(http, f"Maya notes number {number}: {words}.", category="event", type="episodic", thread_id="t")
    await remember(http, "Maya drinks oat milk with her brother.", thread_id="t")
    await remember(http, "Maya drinks oat milk with her sister.", thread_id="t")
    return http


@pytest.mark.long
async def test_no_answer_costs_more_than_its_budget(library: httpx.AsyncClient) -> None:
    for budget in BUDGETS:
        for fields in ({}, {"thread_id": "t", "since_rev": 0}, {"categories": ["profile"]}, {"categories": ["event"]}):
            answer = await ask(library, budget_tokens=budget, top_k=20, **fields)
            assert answer["tokens"] == spent(answer) <= budget, (budget, fields)


@pytest.mark.long
async def test_bullets_are_whole_or_absent(library: httpx.AsyncClient) -> None:
    stored = {f"[{m['category']}] {m['text']}" for m in await listed(library)}
    counts = set()
    for budget in BUDGETS:
        answer = await ask(library, budget_tokens=budget, top_k=20)
        shown = {item["text"] for item in answer["items"] + answer["related"]}
        assert shown <= stored, budget
        counts.add(len(shown) + sum(len(item.get("also", ())) for item in answer["items"]))
    assert min(counts) == 0
    assert max(counts) == len(stored)


@pytest.mark.long
async def test_a_budget_of_one_answers_with_nothing(library: httpx.AsyncClient) -> None:
    answer = await ask(library, budget_tokens=1, thread_id="t")
    assert (answer["items"], answer["related"], answer["header"], answer["tokens"]) == ([], [], "", 0)


async def test_what_the_budget_drops_is_explained(library: httpx.AsyncClient) -> None:
    answer = await ask(library, budget_tokens=60, top_k=20, categories=["event"], explain=True)
    reasons = {dropped["reason"] for dropped in answer["dropped"]}
    assert reasons == {"budget"}
    assert len(answer["items"]) + len(answer["dropped"]) == 12


async def test_whole_categories_come_extra_to_top_k_pinned_and_most_important_first(http: httpx.AsyncClient) -> None:
    for number, (importance, pinned) in enumerate(
        [(1, False), (5, False), (3, True), (4, True), (3, False), (2, False)]
    ):
        await remember(http, f"Fact {number} of Maya.", category="profile", importance=importance, pinned=pinned)
    for drink in ("tea", "coffee", "oat milk"):
        await remember(http, f"Maya drinks {drink}.")
    for top_k in (1, 2, 3):
        answer = await ask(http, "drinks", top_k=top_k, explain=True)
        assert [int(text.split()[1]) for text in texts(answer)[:6]] == [3, 2, 1, 4, 5, 0]
        assert [item["category"] for item in answer["items"][6:]] == ["preferences"] * top_k
        assert ["score" in item for item in answer["items"]] == [False] * 6 + [True] * top_k


async def test_whole_categories_ignore_threshold_and_question(http: httpx.AsyncClient) -> None:
    await remember(http, "Maya is called Mimi.", category="profile")
    await remember(http, "Maya drinks tea.")
    for question in ("freight tariffs", "zzz", "the of and"):
        assert texts(await ask(http, question, threshold=1.0)) == ["Maya is called Mimi."]


async def test_whole_categories_obey_the_filters(http: httpx.AsyncClient) -> None:
    await remember(http, "Maya is called Mimi.", category="profile", role="user")
    await remember(http, "Nadia is called Nana.", category="profile", user_id="nadia")
    assert texts(await ask(http, filters={"user_id": "nadia"})) == ["Nadia is called Nana."]
    assert texts(await ask(http, filters={"role": "user"})) == ["Maya is called Mimi."]
    assert texts(await ask(http, filters={"importance_min": 5})) == []
    assert texts(await ask(http, agent="planner")) == []


@pytest.mark.long
async def test_whole_categories_leave_at_least_half_of_the_budget_to_ranked_ones(http: httpx.AsyncClient) -> None:
    for number in range(30):
        await remember(http, f"Fact {number} of Maya is long enough to fill a line of its own.", category="profile")
        await remember(http, f"Maya went to concert {number} by bus.", category="event", type="episodic")
    for budget in (40, 64, 100, 201, 400):
        answer = await ask(http, "concert", budget_tokens=budget, top_k=50)
        whole = sum(cost(item["text"]) for item in answer["items"] if item["category"] == "profile")
        ranked = sum(cost(item["text"]) for item in answer["items"] if item["category"] == "event")
        assert 0 < whole <= budget / 2
        assert ranked > budget / 2 - 30
    alone = await ask(http, "concert", budget_tokens=200, categories=["profile"])
    assert alone["tokens"] > 150


@pytest.mark.long
async def test_the_header_is_paid_for_before_whole_and_ranked_lines_share_the_rest(http: httpx.AsyncClient) -> None:
    for number in range(20):
        text = f"Fact {number} of Maya is long enough to fill a line of its own."
        await remember(http, text, category="profile", thread_id="t")
        await remember(http, f"Maya went to concert {number} by bus.", category="event", type="episodic")
    answer = await ask(http, "concert", budget_tokens=300, top_k=50, thread_id="t")
    header = sum(cost(line) for line in answer["header"].splitlines())
    whole = sum(cost(item["text"]) for item in answer["items"] if item["category"] == "profile")
    assert header > 50
    assert 0 < whole <= (300 - header) / 2


@pytest.mark.long
async def test_what_ranked_ones_do_not_use_goes_to_whole_categories_in_their_order(http: httpx.AsyncClient) -> None:
    for number in range(40):
        text = f"Fact {number:02} of Maya is long enough to fill a line of its own."
        await remember(http, text, category="profile", importance=1 + number % 5)
    await remember(http, "Maya went to a concert by bus.", category="event", type="episodic")
    answer = await ask(http, "concert", budget_tokens=300)
    profile = [item for item in answer["items"] if item["category"] == "profile"]
    assert 300 - cost(profile[0]["text"]) < answer["tokens"] <= 300
    assert [item["category"] for item in answer["items"]] == ["profile"] * len(profile) + ["event"]
    whole = await ask(http, "concert", budget_tokens=8192)
    assert texts(answer)[:-1] == texts(whole)[: len(profile)]


@pytest.mark.long
async def test_whole_ones_that_the_budget_drops_are_explained(http: httpx.AsyncClient) -> None:
    for number in range(20):
        await remember(http, f"Fact {number} of Maya is long enough to fill a line.", category="profile")
    answer = await ask(http, budget_tokens=60, explain=True)
    assert {(d["category"], d["reason"], "score" in d) for d in answer["dropped"]} == {("profile", "budget", False)}
    assert {item["id"] for item in answer["items"]}.isdisjoint(dropped["id"] for dropped in answer["dropped"])
    assert 0 < len(answer["items"]) < len(answer["items"]) + len(answer["dropped"]) == 20


async def test_only_what_is_ranked_brings_related_memories(http: httpx.AsyncClient) -> None:
    await remember(http, "Maya plays chess on Sundays.", category="profile", importance=5)
    chess = await remember(http, "Maya wants to win a chess tournament.", category="goals")
    answer = await ask(http, "quarterly freight tariffs", threshold=0.9)
    assert (texts(answer), answer["related"]) == (["Maya plays chess on Sundays."], [])
    answer = await ask(http, "chess tournament", top_k=1)
    assert [item["id"] for item in answer["items"][1:]] == [chess["id"]]


async def test_related_memories_come_in_the_order_of_the_question(http: httpx.AsyncClient) -> None:
    asked = "Which tea does Maya drink in the garden with Nadia?"
    for text in (
        "Maya drinks tea in the garden.",
        "Maya drinks green tea in the garden with Nadia.",
        "Maya has a garden.",
    ):
        await remember(http, text, category="goals")
    answer = await ask(http, asked, top_k=1, explain=True)
    ranked = {dropped["id"]: dropped["score"]["total"] for dropped in answer["dropped"] if "score" in dropped}
    totals = [ranked[item["id"]] for item in answer["related"]]
    assert len(totals) == 2
    assert totals == sorted(totals, reverse=True)


async def test_what_a_full_answer_says_beside_the_text_is_paid_for(http: httpx.AsyncClient) -> None:
    for number in range(3):
        await remember(http, f"Maya notes number {number}.", category="event", metadata={"pages": "x" * 4000})
    assert len((await ask(http, "notes"))["items"]) == 3
    assert (await ask(http, "notes", **{"return": "full"}))["items"] == []
    [item] = (await ask(http, "notes", budget_tokens=2000, **{"return": "full"}))["items"]
    assert len(item["metadata"]["pages"]) == 4000
