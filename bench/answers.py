"""Answers to the questions of realistic users: right, stale, repeated or useless memories, and their cost.

    mnema bench answers [--users development,held_out]

Each user of bench/realistic_users/ is stored through the use-cases, memory by memory, with the clock at the time of
each. Then every question is asked with the default settings.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from app.bootstrap import Application, Doubles, build_application
from app.domain.filters import Filters
from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.usecases.recall.answer import Answer
from app.usecases.recall.request import Query
from bench import throwaway
from bench.realistic_users import Question, RealisticUser, load_user
from bench.throwaway import MovableClock

DEPTHS = (1, 3, 5)


@dataclass(slots=True)
class AnswerFigures:
    """The results of one user: one row for each question."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def add_answer(self, question: Question, ranked: Sequence[Collection[str]], user: RealisticUser) -> dict[str, Any]:
        """Add a question whose answer has these ranked items, each with the keys of its memory. Return the row."""
        relevant = [at for at, keys in enumerate(ranked) if question.relevant.intersection(keys)]
        stale = [at for at, keys in enumerate(ranked) if at not in relevant and question.stale.intersection(keys)]
        groups = Counter(g for keys in ranked for g in {user.groups[key] for key in keys if key in user.groups})
        row: dict[str, Any] = {
            "agent": question.agent,
            "ask": question.ask,
            "answerable": bool(question.relevant),
            "rival": bool(question.stale),
            "relevant": sorted(question.relevant),
            "ranked": ["+".join(sorted(keys)) for keys in ranked],
            "items": len(ranked),
            "repeats": sum(count - 1 for count in groups.values()),
            "stale_first": bool(stale) and stale[0] < min(relevant, default=math.inf),
        }
        row |= {f"top_{depth}": bool(relevant) and relevant[0] < depth for depth in DEPTHS}
        self.rows.append(row)
        return row

    def mean_of(self, name: str, **only: Any) -> float:
        """Return the mean of a figure over the questions with these values."""
        chosen = [float(r[name]) for r in self.rows if all(r[key] == value for key, value in only.items())]
        return sum(chosen) / len(chosen) if chosen else math.nan

    def summary(self) -> dict[str, float]:
        """Return the figures by name, in the order of display."""
        found = {f"top-{depth}": self.mean_of(f"top_{depth}", answerable=True) for depth in DEPTHS}
        return {
            **found,
            "stale first": self.mean_of("stale_first", rival=True),
            "repeats": self.mean_of("repeats"),
            "tokens": self.mean_of("tokens"),
            "tokens answerable": self.mean_of("tokens", answerable=True),
            "items answerable": self.mean_of("items", answerable=True),
            "items unanswerable": self.mean_of("items", answerable=False),
            "nothing": self.mean_of("nothing", answerable=False),
        }


async def store_user(
    app: Application, principal: Principal, user: RealisticUser, clock: MovableClock
) -> dict[UUID, set[str]]:
    """Store a user's memories through the use-cases. Return the keys of each stored memory; merged ones share one."""
    keys: dict[UUID, set[str]] = {}
    for key, memory in user.memories.items():
        assert memory.created_at is not None
        clock.at = memory.created_at
        if memory.type is MemoryType.turn:
            memory_id = (await app.memory.turns.store_turn(principal, memory)).id
        else:
            memory_id = (await app.memory.write.write_memory(principal, memory)).id
        if memory_id is None:
            raise RuntimeError(f"{user.name}: {key} was not stored")
        keys.setdefault(memory_id, set()).add(key)
    clock.at = user.asked_at
    return keys


async def ask_questions(
    app: Application, principal: Principal, user: RealisticUser, keys: dict[UUID, set[str]]
) -> AnswerFigures:
    """Ask every question with the default settings and return the figures."""
    figures = AnswerFigures()
    for question in user.questions:
        filters = Filters(user_id=user.user_id)
        answer = await app.recall.query.answer_query(
            principal, Query(question.agent, question.ask, question.categories, filters)
        )
        ranked = [keys[item.memory.id] for item in answer.items if item.scored is not None]
        figures.add_answer(question, ranked, user).update(_costs_of(answer, len(ranked)))
    return figures


def _costs_of(answer: Answer, ranked: int) -> dict[str, Any]:
    return {
        "tokens": answer.tokens,
        "whole": len(answer.items) - ranked,
        "related": len(answer.related),
        "nothing": ranked + len(answer.related) == 0,
    }


async def measure_answers(
    site: throwaway.Site, names: Sequence[str], say: Callable[[str], None]
) -> dict[str, AnswerFigures]:
    """Store the users and ask their questions."""
    clock = MovableClock()
    found = {}
    async with build_application(site.home.server_settings(site.cluster), Doubles(clock=clock)) as app:
        scope = await app.tenancy.tenants.authenticate(site.key)
        assert scope is not None
        for name in names:
            user = load_user(name)
            keys = await store_user(app, scope, user, clock)
            say(f"{name}: {len(user.questions)} questions of {len(keys)} memories")
            found[name] = await ask_questions(app, scope, user, keys)
    return found


def run(names: Sequence[str], say: Callable[[str], None]) -> dict[str, AnswerFigures]:
    """Measure the users on a throw-away installation."""
    with throwaway.open_site(0) as site:
        return asyncio.run(measure_answers(site, names, say))
