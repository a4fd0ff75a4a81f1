"""The labelled messages and questions on the real database: what is stored, and what is answered."""

import asyncio
import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap import Application
from app.domain.facts.fact import FactFilter, FactKind
from app.domain.principal import Principal
from app.domain.text_rules import normalise_text
from app.usecases.facts.store import FactPlace, NewFact
from bench import fact_rules
from bench.retractions import Memory
from tests.factories import Caller

CORPUS = Path(__file__).resolve().parents[3] / "bench" / "facts"
HALVES = ("development", "held_out")
NATURAL = ("natural_development", "natural_held_out")
START = datetime(2026, 1, 1, tzinfo=UTC)
Facts = dict[str, dict[int | None, str]]


def rows_of(name: str) -> list[dict[str, Any]]:
    lines = (CORPUS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def by_rank(values: Any) -> dict[int | None, str]:
    """Return labelled values by rank, as texts are stored: a list has ranks 1 to n, a text is a single value."""
    if isinstance(values, str):
        return {None: normalise_text(values)}
    ranked = enumerate(values, 1) if isinstance(values, list) else values.items()
    return {int(rank): normalise_text(value) for rank, value in ranked}


class User:
    """A user of one row, whose statements come minute after minute."""

    def __init__(self, app: Application, scope: Principal, name: str) -> None:
        self.app, self.scope, self.name = app, scope, name
        self._minutes = itertools.count()

    def place(self, thread: str) -> FactPlace:
        return FactPlace(self.name, thread, stated_at=START + timedelta(minutes=next(self._minutes)))

    async def put(self, thread: str, stored: dict[str, Any]) -> None:
        for topic, values in stored.items():
            new = [
                NewFact(topic, FactKind.single if rank is None else FactKind.ranked, rank, value)
                for rank, value in by_rank(values).items()
            ]
            if new:
                await self.app.facts.store.store_values(self.scope, self.place(thread), new)

    async def facts(self, thread: str) -> Facts:
        found: Facts = {}
        page = await self.app.facts.read.list_facts(self.scope, FactFilter(self.name, thread), None, 200)
        for fact in page.items:
            found.setdefault(fact.topic_key, {})[fact.rank] = fact.value
        return found


async def try_rows(rows: list[dict[str, Any]], check: Any) -> list[Any]:
    """Return what `check` says of each row, a few rows at a time."""
    gate = asyncio.Semaphore(4)

    async def one(row: dict[str, Any]) -> Any:
        async with gate:
            return await check(row)

    return [wrong for wrong in await asyncio.gather(*map(one, rows)) if wrong]


@pytest.mark.long
@pytest.mark.parametrize("half", HALVES)
async def test_every_message_leaves_the_labelled_facts(app: Application, caller: Caller, half: str) -> None:
    rows = rows_of(f"{half}_messages")

    async def check(row: dict[str, Any]) -> Any:
        user = User(app, caller.scope, row["id"])
        await user.put("talk", row["stored"])
        await app.facts.store.store_text(caller.scope, user.place("talk"), row["text"])
        wished = {topic: by_rank(values) for topic, values in row["after"].items()}
        got = await user.facts("talk")
        return None if got == wished else (row["id"], row["text"], wished, got)

    assert len(rows) >= 200
    assert await try_rows(rows, check) == []


@pytest.mark.long
@pytest.mark.parametrize("half", NATURAL)
async def test_a_message_changes_the_database_as_the_bench_counts_it(
    app: Application, caller: Caller, half: str
) -> None:
    rows = rows_of(f"{half}_messages")
    topics = fact_rules.load_topics()

    async def check(row: dict[str, Any]) -> Any:
        user = User(app, caller.scope, row["id"])
        await user.put("talk", row["stored"])
        await app.facts.store.store_text(caller.scope, user.place("talk"), row["text"])
        wished = Memory(topics, fact_rules.read_thread(row["stored"]))
        wished.latest = frozenset(list(wished.facts)[-1:])
        wished.read_message(normalise_text(row["text"], keep_lines=True))
        got = await user.facts("talk")
        return None if got == wished.facts else (row["id"], row["text"], wished.facts, got)

    assert await try_rows(rows, check) == []


@pytest.mark.long
@pytest.mark.parametrize("half", HALVES)
async def test_every_question_gets_the_labelled_answer(app: Application, caller: Caller, half: str) -> None:
    rows = rows_of(f"{half}_questions")

    async def check(row: dict[str, Any]) -> Any:
        user = User(app, caller.scope, row["id"])
        for thread, stored in row["stored"].items():
            await user.put(thread, stored)
        answer = (await app.facts.answer.answer_question(caller.scope, user.name, row["thread"], row["query"])).answer
        if row["expect"] == "search":
            return (row["id"], row["query"], answer) if answer.asked else None
        wished = [value for values in row["expect"].values() for value in values]
        got = [fact.value for fact in answer.facts]
        told = all(value in answer.text for value in wished)
        return None if answer.asked and got == wished and told else (row["id"], row["query"], wished, answer)

    assert len(rows) >= 150
    assert await try_rows(rows, check) == []
