"""Evidence found on LoCoMo by ranking profile, through the real use-cases and a real database.

    mnema bench retrieval --locomo FILE [--conversations 1,2,3,4,5]

The turns of a conversation are stored as memories of one user. Each question is asked a day after the last turn. A
question counts by the share of its evidence turns that were found; the second recall counts turns. LoCoMo is not part
of this project.
"""

import asyncio
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import yaml

from app.bootstrap import Application, Doubles, build_application
from app.bootstrap.model import default_model
from app.config.loader import CONFIG_DIR, load_policies
from app.config.settings import Settings
from app.domain.filters import Filters
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.principal import Principal
from app.domain.trusted_time import TrustedTime
from app.usecases.recall.request import Query
from bench import locomo, relevance, throwaway

AGENT, CATEGORY = "supervisor", "activity"
CUT = "default cut"
"""The default profile with the shipped least relevance. The others answer everything."""
PLAIN = "dense plain"
"""A profile that uses only the vector of a turn's text without its speaker. It queries copies of the memories."""
DEEPEST = 20
CHUNK = 64
ABLATIONS: dict[str, dict[str, Any]] = {
    "default": {},
    CUT: {},
    "dense": {},
    PLAIN: {},
    "no late": {"late": 0.0, "dense": 0.5, "lexical": 0.4},
    "no dense": {"dense": 0.0},
    "no lexical": {"lexical": 0.0},
    "no neighbours": {"neighbour_candidates": 0, "neighbours": 0.0},
    "no actor": {"actor": 0.0},
    "no asks": {"asks": 0.0},
    "no session": {"session": 0.0},
    "no date": {"date": 0.0},
}


@dataclass(slots=True)
class Figures:
    """The results of one profile: one row for each question with conversation, category and recall at 5, 10 and 20."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    cpu_ms: float = 0.0

    def add_question(self, conversation: int, question: locomo.Question, places: dict[str, int]) -> None:
        """Add a question whose evidence turns were found at these places, counted from 1."""
        found = [places.get(turn, math.inf) for turn in question.evidence]
        ideal = sum(1 / math.log2(place + 1) for place in range(1, min(10, len(found)) + 1))
        row: dict[str, Any] = {"conversation": conversation, "category": question.category, "evidence": len(found)}
        row |= {f"r@{k}": sum(place <= k for place in found) / len(found) for k in (5, 10, DEEPEST)}
        row["all@10"] = float(max(found) <= 10)
        row["ndcg@10"] = sum(1 / math.log2(place + 1) for place in found if place <= 10) / ideal
        self.rows.append(row)

    def mean_of(self, name: str, **only: int) -> float:
        """Return the mean of a figure over the questions, or over those of a conversation or category."""
        chosen: list[float] = [r[name] for r in self.rows if all(r[key] == value for key, value in only.items())]
        return sum(chosen) / len(chosen) if chosen else math.nan

    @property
    def turn_recall(self) -> float:
        """The share of all evidence turns that were among the first ten items."""
        found = sum(float(r["r@10"]) * int(r["evidence"]) for r in self.rows)
        return found / sum(int(r["evidence"]) for r in self.rows)


@dataclass(slots=True)
class MovableClock:
    """A clock that shows the time that was set."""

    at: datetime = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time that was set."""
        return self.at

    async def trusted_time(self) -> TrustedTime:
        """Return the time that was set."""
        return TrustedTime(self.at)

    async def follow_database(self) -> None:
        """Do nothing: the time that was set counts."""


@contextmanager
def ablation_profiles(folder: Path, category: str = CATEGORY) -> Iterator[Path]:
    """Write a copy of the configuration with a profile for each ablation to `folder`. The agent may see `category`."""
    for file in CONFIG_DIR.rglob("*.yaml"):
        copy = folder / file.relative_to(CONFIG_DIR)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    policies = yaml.safe_load((folder / "policies.yaml").read_text(encoding="utf-8"))
    shipped = policies["profiles"]["default"]
    policies["profiles"] |= {name: shipped | change for name, change in ABLATIONS.items() if change}
    (folder / "policies.yaml").write_text(yaml.safe_dump(policies), encoding="utf-8")
    categories = yaml.safe_load((folder / "memory_cat_config.yaml").read_text(encoding="utf-8"))
    if category not in categories["allowlists"][AGENT]:
        categories["allowlists"][AGENT].append(category)
        (folder / "memory_cat_config.yaml").write_text(yaml.safe_dump(categories), encoding="utf-8")
    yield folder


async def measure_profiles(
    site: throwaway.Site,
    file: Path,
    conversations: Sequence[int],
    names: Sequence[str],
    say: Callable[[str], None],
    category: str = CATEGORY,
) -> tuple[dict[str, Figures], list[relevance.RelevanceSample]]:
    """Store the conversations in `category`. Ask every question with every profile, then all variants."""
    samples: list[relevance.RelevanceSample] = []
    clock, figures = MovableClock(), {name: Figures() for name in names}
    with tempfile.TemporaryDirectory() as folder, ablation_profiles(Path(folder), category) as config:
        settings = site.home.server_settings(site.cluster).model_copy(update={"config_dir": config})
        async with build_application(settings, Doubles(clock=clock)) as app:
            scope = await app.tenancy.tenants.authenticate(site.key)
            assert scope is not None
            for conversation in conversations:
                sample = locomo.load_conversation(file, conversation)
                turn_ids = await _store_turns(app, scope, sample, clock, category)
                if PLAIN in names:
                    turn_ids |= await _store_turns(app, scope, sample, clock, category, plain=True)
                await _analyse_tables(site)
                questions = [q for q in locomo.load_questions(file, conversation) if q.evidence]
                say(f"conversation {conversation}: {len(questions)} questions of {len(set(turn_ids.values()))} turns")
                for question in questions:
                    for name in names:
                        places = await _ask_question(
                            app, scope, sample, question, name, figures[name], turn_ids, category
                        )
                        figures[name].add_question(conversation, question, places)
                samples += await _ask_variants(app, scope, file, conversation, sample, questions, turn_ids, category)
    return figures, samples


async def _ask_variants(
    app: Application,
    principal: Principal,
    file: Path,
    conversation: int,
    sample: dict[str, Any],
    questions: Sequence[locomo.Question],
    turn_ids: dict[UUID, str],
    category: str,
) -> list[relevance.RelevanceSample]:
    """Ask the questions of this conversation and of the next one in the file, if there is another."""
    other = conversation % locomo.count_conversations(file) + 1
    foreign = [q for q in locomo.load_questions(file, other) if q.evidence and other != conversation]
    asked = (sample, questions), (locomo.load_conversation(file, other), foreign)
    return await relevance.ask_variants(app, Query(AGENT, "", (category,)), principal, conversation, *asked, turn_ids)


def shipped_cut() -> float:
    """Return the shipped least relevance of turns."""
    model = load_policies(default_model(Settings()).embedding_model).relevance
    return model.least.turns if model else 0.0


async def _analyse_tables(site: throwaway.Site) -> None:
    """Run VACUUM ANALYZE, as autovacuum does within minutes."""
    connection = await asyncpg.connect(site.superuser_url)
    await connection.execute("VACUUM (ANALYZE)")
    await connection.close()


async def _store_turns(
    app: Application,
    principal: Principal,
    sample: dict[str, Any],
    clock: MovableClock,
    category: str,
    *,
    plain: bool = False,
) -> dict[UUID, str]:
    """Store the turns as memories. Return LoCoMo's turn ids by memory id."""
    turn_ids: dict[UUID, str] = {}
    lines = list(locomo.import_lines(sample))
    clock.at = datetime.fromisoformat(lines[-1]["created_at"]) + timedelta(days=1)
    for start in range(0, len(lines), CHUNK):
        chunk = lines[start : start + CHUNK]
        drafts = [app.memory.write.check_draft(principal, _turn_memory(line, category, plain)) for line in chunk]
        embeddings = await app.memory.write.embed_drafts(principal, drafts)
        stored = await app.memory.write.store_many(
            principal, [(d, e, None) for d, e in zip(drafts, embeddings, strict=True)]
        )
        for line, written in zip(chunk, stored, strict=True):
            if isinstance(written, Exception) or written.id is None:
                raise RuntimeError(f"a turn was not stored: {written}")
            turn_ids[written.id] = line["metadata"]["dia_id"]
    return turn_ids


def _turn_memory(line: dict[str, Any], category: str, plain: bool) -> NewMemory:
    fields = {name: line[name] for name in ("user_id", "thread_id", "role", "actor_id", "seq", "metadata")}
    if plain:
        fields |= {"user_id": f"{line['user_id']} {PLAIN}", "actor_id": None}
    at = datetime.fromisoformat(line["created_at"])
    return NewMemory(category=category, text=line["content"], type=MemoryType.turn, created_at=at, **fields)


async def _ask_question(
    app: Application,
    principal: Principal,
    sample: dict[str, Any],
    question: locomo.Question,
    profile: str,
    figures: Figures,
    turn_ids: dict[UUID, str],
    category: str,
) -> dict[str, int]:
    """Return the places of the turns that were found, by LoCoMo's turn id."""
    user, name = locomo.user_of(str(sample["sample_id"])), profile
    least: float | None
    if profile == PLAIN:
        user, name = f"{user} {PLAIN}", "dense"
    least = 0.0
    if profile == CUT:
        name, least = "default", None
    filters = Filters(user_id=user)
    query = Query(AGENT, question.question, (category,), filters, DEEPEST, 8192, profile=name, min_relevance=least)
    await app.parts.embedder.encode_query(question.question)  # cached from now on, so that only the query is measured
    started = time.process_time()
    answer = await app.recall.query.answer_query(principal, query)
    figures.cpu_ms += (time.process_time() - started) * 1000
    return {turn_ids[item.memory.id]: place for place, item in enumerate(answer.items, start=1)}


def run(
    file: Path,
    conversations: Sequence[int],
    names: Sequence[str],
    say: Callable[[str], None],
    category: str = CATEGORY,
) -> tuple[dict[str, Figures], list[relevance.RelevanceSample]]:
    """Measure the profiles and the relevance on a throw-away installation."""
    with throwaway.open_site(0) as site:
        return asyncio.run(measure_profiles(site, file, conversations, names, say, category))
